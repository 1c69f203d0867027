package pay

import (
	"testing"
	"time"

	"github.com/purserpay/purser/x402"
)

// Reading a block again must find the rows that reading it first has booked.
func TestReconciledIdentity(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	asset, used := x402.Asset{Address: x402.Address{0xa5}}, UsedAuthorization{From: x402.Address{0xf0}, Nonce: x402.Nonce{0x0c}}
	for what, want := range map[string]string{"payment": "01a1f8d3-ea00-78b4-9d74-d750413b0744", "event": "01a1f8d3-ea00-70ad-b3fb-85820067f6ae"} {
		if got := idOf(what, at, asset, used); got != want {
			t.Errorf("%s is %s, want %s", what, got, want)
		}
	}
}
