package pay_test

import (
	"context"
	"errors"
	"testing"

	"github.com/purserpay/purser/internal/books"
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

func TestKeysAndPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ids := []string{w.key.ID}
	for range 4 {
		k, _, err := w.books.CreateKey(t.Context(), books.KeyRequest{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, k.ID)
	}
	after, got := "", []string{}
	for {
		page, err := w.books.Keys(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, k := range page {
			got = append(got, k.ID)
		}
		after = got[len(got)-1]
	}
	if jsonOf(got) != jsonOf(ids) {
		t.Errorf("keys %v, want %v", got, ids)
	}
	pol := pay.Policy{DailyBudget: usdc(5)}
	k, err := w.books.SetPolicy(t.Context(), ids[2], &pol)
	if err != nil || k.ID != ids[2] || jsonOf(k.Policy) != jsonOf(pol) {
		t.Errorf("%+v, %v", k, err)
	}
	if again, err := w.books.Key(t.Context(), ids[2]); err != nil || jsonOf(again) != jsonOf(k) {
		t.Errorf("%+v, %v", again, err)
	}
	if k, err = w.books.SetPolicy(t.Context(), ids[2], nil); err != nil || k.Policy != nil {
		t.Errorf("%+v, %v", k, err)
	}
	for _, err := range []error{
		second(w.books.Key(t.Context(), "nobody")), second(w.books.SetPolicy(t.Context(), "nobody", &pol)),
	} {
		if !errors.Is(err, pay.ErrKeyNotFound) {
			t.Errorf("got %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
