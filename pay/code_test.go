package pay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

func TestCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want pay.ErrorCode
	}{
		{nil, pay.CodeInternal},
		{errors.New("unknown"), pay.CodeInternal},
		{fmt.Errorf("journaling a payment: %w", pay.ErrQuota), pay.CodeQuota},
		{fmt.Errorf("deep: %w", fmt.Errorf("deeper: %w", &pay.PolicyError{Rule: "hosts"})), pay.CodePolicy},
		{&pay.FailuresError{}, pay.CodeFailures},
		{&pay.HeaderError{Cause: errors.New("x")}, pay.CodeHeader},
		{&pay.NoWalletError{}, pay.CodeNoWallet},
		{&x402.UnsupportedError{}, pay.CodeUnsupported},
		{&pay.InputError{}, pay.CodeInput},
		{&pay.UnresolvableError{}, pay.CodeUnresolvable},
		{&pay.SpentError{Payment: &pay.Payment{}}, pay.CodeSpent},
		// The lost lease is an open payment to the caller.
		{fmt.Errorf("%w: %w", &pay.OpenError{Payment: &pay.Payment{}}, pay.ErrLeaseLost), pay.CodeOpen},
		{pay.ErrLeaseLost, pay.CodeLeaseLost},
		// A failed payment is one, whatever made it fail; why, its cause says.
		{&pay.FailedError{Cause: pay.ErrCallerGone}, pay.CodeFailed},
		{&pay.FailedError{Cause: fmt.Errorf("reading a wallet: %w", pay.ErrUnavailable)}, pay.CodeFailed},
		// Both are an ErrUnavailable as well.
		{&pay.ReconcilingError{Taken: time.Now()}, pay.CodeReconciling},
		{&pay.ClockError{}, pay.CodeClock},
		{fmt.Errorf("%w: %w", pay.ErrUnavailable, pay.ErrPolicyChanged), pay.CodeUnavailable},
		{pay.ErrCallerGone, pay.CodeCallerGone},
		{fmt.Errorf("asking: %w", context.DeadlineExceeded), pay.CodeEnded},
		{context.Canceled, pay.CodeEnded},
	} {
		if got := pay.Code(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}
