package dashboard

import (
	"strings"
	"testing"
)

// TestJourney makes a visitor's whole journey through the dashboard in a browser; see journey.mjs.
func TestJourney(t *testing.T) {
	needBrowser(t)
	h := newHouse(t)
	drive(t, "journey.mjs", h.errands(), "BASE", h.url(""))
	said := h.purser.Output.String()
	if n := strings.Count(said, "API key revealed on the dashboard"); n != 1 {
		t.Errorf("the log tells of %d revealed keys, want 1:\n%s", n, said)
	}
	if strings.Contains(said, "pk_") {
		t.Error("a key is in the log")
	}
}

// TestSandbox opens the dashboard's address that purser-sandbox prints, as `make sandbox` starts it: one click, and there
// is a chart of real payments, a funded wallet and a key. See sandbox.mjs.
func TestSandbox(t *testing.T) {
	needBrowser(t)
	address := startSandbox(t)
	drive(t, "sandbox.mjs", nil, "BASE", strings.TrimSuffix(address, "/dashboard/"), "OPEN", address)
}
