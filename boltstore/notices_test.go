package boltstore

import (
	"testing"

	"github.com/purserpay/purser/pay"
)

// The claim of a process that was killed while it sent a notice does not hold up the next one.
func TestClaimsEndWithTheProcess(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	if err := d.SetDelivery(t.Context(), pay.Delivery{Destination: "hooks"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if mine, err := d.ClaimDelivery(t.Context(), pay.Delivery{Destination: "hooks", Version: 1}); err != nil || mine != want {
			t.Fatalf("claimed: %t, %v", mine, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if mine, err := openIn(t, o).ClaimDelivery(t.Context(), pay.Delivery{Destination: "hooks", Version: 1}); err != nil || !mine {
		t.Errorf("claimed by the next process: %t, %v", mine, err)
	}
}
