package pay_test

import (
	"context"
	"errors"
	"testing"

	"github.com/purserpay/purser/pay"
)

func TestFundsAreNamed(t *testing.T) {
	t.Parallel()
	failed := func(err error) *pay.FailedError {
		t.Helper()
		var f *pay.FailedError
		if !errors.As(err, &f) {
			t.Fatalf("got %v", err)
		}
		return f
	}
	w := newWorld(t, nil)
	_, err := w.open(buy{door: pay.DoorProxy, url: numbered(1), amount: 1_000_000_001}) // the chain says 1_000_000_000
	if f := failed(err); !f.Funds {
		t.Errorf("balance: %+v", f)
	}
	w.fac.mode("refuse", "") // insufficient_funds
	_, err = w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, numbered(2), "1", ""))
	if f := failed(err); !f.Funds || f.Stage != pay.StageVerify {
		t.Errorf("verify: %+v", f)
	}
	w.fac.mode("", "refuse")
	_, err = w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, numbered(3), "1", ""))
	if f := failed(err); !f.Funds || f.Stage != pay.StageSettle {
		t.Errorf("settle: %+v", f)
	}
	w.fac.mode("fail", "")
	_, err = w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, numbered(4), "1", ""))
	if f := failed(err); f.Funds {
		t.Errorf("unreachable: %+v", f)
	}
	for reason, want := range map[string]bool{
		"insufficient_funds": true, "invalid_exact_evm_insufficient_balance": true, "Insufficient_Funds: 0": true, "": false, "invalid_payload": false,
	} {
		if pay.FundsReason(reason) != want {
			t.Errorf("%q", reason)
		}
	}
}
