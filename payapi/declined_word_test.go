package payapi

import (
	"testing"

	"github.com/purserpay/purser/pay"
)

// A payment that no facilitator has refused is not told as one that was.
func TestDeclinedWord(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"no-facilitator":       &pay.FailedError{Stage: pay.StageVerify, Cause: pay.ErrNoFacilitator},
		"facilitator-silent":   &pay.FailedError{Stage: pay.StageVerify, Cause: &pay.SilentError{}},
		"seller-settles":       &pay.FailedError{Stage: pay.StageVerify, Cause: &pay.SellerSettlesError{}},
		"insufficient-funds":   &pay.FailedError{Stage: pay.StageVerify, Funds: true},
		"verification-refused": &pay.FailedError{Stage: pay.StageVerify},
	} {
		if got := declinedWord(err); got != want {
			t.Errorf("%s: %s", want, got)
		}
	}
}
