package cli

import (
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

// A health check that prints only what is wrong says what that is.
func TestStatusSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]adminapi.Status{
		"purser has not started":                       {},
		"not all is well; RPC: no route":               {Health: &adminapi.HealthStatus{Store: "ok", Facilitator: "none", RPC: "no route"}},
		"not all is well; store: full; facilitator: x": {Health: &adminapi.HealthStatus{Store: "full", Facilitator: "x", RPC: "ok"}},
	} {
		if got := unwellText(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A payment of scheme upto shows what has moved, and what could have.
func TestChargedPayment(t *testing.T) {
	t.Parallel()
	p := adminapi.Payment{Amount: "10000", Currency: "USDC"}
	if got := paymentMoney(p); got != "0.01 USDC" {
		t.Errorf("an exact payment shows %q", got)
	}
	p.Charged = "1234"
	var told strings.Builder
	table := newTable(&told)
	writeStory(table, adminapi.Story{Payment: p})
	if err := table.Flush(); err != nil || !strings.Contains(told.String(), "0.001234 USDC") || !strings.Contains(told.String(), "of at most") {
		t.Errorf("%v: %s", err, told.String())
	}
}

func TestReservedText(t *testing.T) {
	t.Parallel()
	s := adminapi.Story{Payment: adminapi.Payment{State: pay.Settled, Currency: "USDC"}}
	for want, r := range map[string]adminapi.Reservation{
		"1 of place/k/2026-11, used":                 {Counter: "place/k/2026-11", Amount: "1"},
		"1 of pending/n/k, given back":               {Counter: "pending/n/k", Amount: "1", Released: true},
		"0.01 USDC of day/k/USDC/2026-11-22, used":   {Counter: "day/k/USDC/2026-11-22", Amount: "10000"},
		"0.01 USDC of hold/w/USDC, given back":       {Counter: "hold/w/USDC", Amount: "10000", Released: true},
		"0.01 USDC of pending/sum/k, given back":     {Counter: "pending/sum/k", Amount: "10000", Released: true},
		"1 of minute/k/2026-11-22T05:00, given back": {Counter: "minute/k/2026-11-22T05:00", Amount: "1", Released: true},
	} {
		if got := reservationText(s, r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
