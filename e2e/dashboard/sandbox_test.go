package dashboard

import (
	"strings"
	"testing"
)

// TestSandbox opens the dashboard's address that purser-sandbox prints, as `make sandbox` starts it: one click, and there
// is a chart of real payments, a funded wallet and a key. See sandbox.mjs.
func TestSandbox(t *testing.T) {
	needBrowser(t)
	address := startSandbox(t)
	drive(t, "sandbox.mjs", nil, "BASE", strings.TrimSuffix(address, "/dashboard/"), "OPEN", address)
}
