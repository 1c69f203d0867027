package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/adminapi"
)

// The file of a payment through Permit2 shows to others that it was made, and a changed one does not hold.
func TestPermit2Dispute(t *testing.T) {
	t.Parallel()
	verifier := process.Verifier(t, "..")
	clock := process.NewClock(t)
	p := newPurser(t, env.facilitator, "PURSER_SCHEMES=exact,upto", clock.Setting())
	p.Binary = process.Program(t, process.Failpoints)
	p.start(t)
	bought := func(path string) payment {
		t.Helper()
		payer := p.newPayer(t)
		payer.approve(t, once)
		requireStatus(t, send(t, payer.proxied(), "GET", env.v2.under(t, "http")+path, ""), http.StatusOK)
		var paid payment
		process.Eventually(t, time.Minute, func() string {
			if paid = payer.payments(t, "")[0]; paid.Transaction == "" {
				return "the transaction is not known"
			}
			return ""
		})
		return paid
	}
	chosen, exact := bought("/upto?charge=77"), bought(permit2.path)
	clock.Forward(t, 10*time.Minute)
	disputed := func(paid payment, moved string) (file string) {
		t.Helper()
		file = filepath.Join(t.TempDir(), "dispute.json")
		if out, err := p.Command(t, "payments", "dispute", paid.ID, "--output", file); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		// The chain's clock stays, so that its word does not count for purser.
		changed(t, file, file, func(d *adminapi.Dispute) {
			d.Chain = &adminapi.DisputedChainWord{Transaction: paid.Transaction, Used: true, Moved: moved}
		})
		out, err := verifier(file, "--rpc", env.chain.RPCURL())
		if err != nil || !strings.Contains(out, "only x402's proxy") || !strings.Contains(out, "has used the authorization") || !strings.Contains(out, "it has moved "+moved+" from") {
			t.Errorf("%s: %v\n%s", moved, err, out)
		}
		return file
	}
	disputed(chosen, "77")
	file := disputed(exact, "10000")
	for name, change := range map[string]func(d *adminapi.Dispute){
		"another amount in all places": func(d *adminapi.Dispute) {
			d.Offered.Accepted = json.RawMessage(strings.Replace(string(d.Offered.Accepted), d.Terms.Amount, "99", 1))
			d.Authorization.TypedData.Message["permitted"].(map[string]any)["amount"], d.Terms.Amount = "99", "99"
		},
		"another wallet": func(d *adminapi.Dispute) { d.Authorization.From = d.Terms.PayTo },
		"another nonce":  func(d *adminapi.Dispute) { d.Authorization.TypedData.Message["nonce"] = "7" },
		"another proxy":  func(d *adminapi.Dispute) { d.Authorization.TypedData.Message["spender"] = d.Terms.PayTo },
		"another payee": func(d *adminapi.Dispute) {
			d.Authorization.TypedData.Message["witness"].(map[string]any)["to"] = d.Authorization.From
		},
	} {
		other := filepath.Join(t.TempDir(), "changed.json")
		changed(t, file, other, change)
		if out, err := verifier(other, "--rpc", env.chain.RPCURL()); err == nil || !strings.Contains(out, "FAILED") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// changed writes a dispute with a change.
func changed(t *testing.T, from, to string, change func(d *adminapi.Dispute)) {
	t.Helper()
	var d adminapi.Dispute
	text, err := os.ReadFile(from) //nolint:gosec // the test's own
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	change(&d)
	if text, err = json.Marshal(d); err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
