package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/hostile"
)

// reconciling is the part of GET /health about a restored purser.
type reconciling struct {
	OK          bool
	Reconciling *struct {
		Reason   string
		Booked   int
		Networks []struct {
			First uint64 `json:"first_block"`
			Next  uint64 `json:"next_block"`
			Error string
		}
	}
}

func (p *purser) health(t *testing.T) (status int, h reconciling) {
	t.Helper()
	got := send(t, direct, "GET", p.URL("/health"), "")
	if err := json.Unmarshal([]byte(got.Body), &h); err != nil {
		t.Fatal(err)
	}
	return got.Status, h
}

// TestRestoredFromABackup loses the database of a purser that has paid on after its backup. The restored one pays nothing
// until it has read from the chain what the backup does not know; then its books are the chain's, and no repeat of a
// request that was paid moves money.
func TestRestoredFromABackup(t *testing.T) {
	t.Parallel()
	// Its clock is never set forward, but recovery does not pause between two looks.
	p := newPurser(t, env.settlements.url, process.NewClock(t).Setting())
	p.Binary = process.Program(t, process.Failpoints)
	start, stop := func() { t.Helper(); p.start(t) }, func() { t.Helper(); p.End(t) }
	start()
	payers := []*payer{p.newPayer(t), p.newPayer(t)}
	s := env.v2
	proxied := func(who *payer, what, key string) answer {
		t.Helper()
		return send(t, who.proxied(), "GET", s.url+"/paid?what="+what, "", idempotencyHeader(key)...)
	}
	body := func(what, settlement, key string) string {
		t.Helper()
		url := s.url + "/paid?what=" + what
		return payBody(t, send(t, direct, "GET", url, ""), url, append([]string{"settlement", settlement}, idempotent(key)...)...)
	}
	rest := func(who *payer, what, settlement, key string) payResult {
		t.Helper()
		var paid payResult
		decode(t, who.call(t, "POST", "/v1/pay", body(what, settlement, key)), http.StatusOK, &paid)
		if settlement == "seller" {
			requireStatus(t, send(t, direct, "GET", s.url+"/paid?what="+what, "", paid.PaymentHeader, paid.PaymentSignature), http.StatusOK)
		}
		return paid
	}
	everything := func(who *payer, when string) (n int) {
		t.Helper()
		for range 3 {
			requireStatus(t, proxied(who, when+"-keyless", ""), http.StatusOK)
		}
		requireStatus(t, proxied(who, when+"-keyed", when+"-proxy"), http.StatusOK)
		rest(who, when+"-rest", "payer", when+"-rest")
		rest(who, when+"-seller", "seller", when+"-seller")
		rest(who, when+"-keyless-rest", "payer", "")
		return 7
	}
	for _, who := range payers {
		everything(who, "before")
	}
	// A payment is open in the backup, and settles afterwards, however long all the others take until then.
	patient, err := env.startSeller("seller-v2.mjs", env.facilitator, map[string]string{"MAX_TIMEOUT": "300"})
	if err != nil {
		t.Fatal(err)
	}
	later := patient.url + "/paid?what=open"
	open := payers[0].pay(t, send(t, direct, "GET", later, ""), later, "settlement", "seller", "idempotencyKey", "open")

	backup := filepath.Join(t.TempDir(), "backup.db")
	if out, err := p.Command(t, "backup", backup); err != nil || !strings.Contains(out, "at block") {
		t.Fatal(out)
	}
	lost := 0
	for _, who := range payers {
		lost += everything(who, "after")
	}
	requireStatus(t, send(t, direct, "GET", later, "", open.PaymentHeader, open.PaymentSignature), http.StatusOK)
	moves := func() (n int) {
		t.Helper()
		for _, who := range payers {
			n += len(env.paid(t, who.wallet))
		}
		return n
	}
	moved := moves()
	p.Kill()
	if err := os.Rename(backup, p.File()); err != nil {
		t.Fatal(err)
	}

	start()
	refused := func() {
		t.Helper()
		for name, got := range map[string]answer{
			"proxy": proxied(payers[0], "new", ""), "proxy, keyed": proxied(payers[0], "after-keyed", "after-proxy"),
			"payer": payers[0].call(t, "POST", "/v1/pay", body("new", "payer", "")), "seller": payers[1].call(t, "POST", "/v1/pay", body("new", "seller", "new")),
		} {
			if got.Status == http.StatusPaymentRequired && name == "proxy, keyed" && got.Header.Get("Purser-Declined") == "paid-not-delivered" {
				continue // it is found already
			}
			if got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, "restored from a backup") || got.Header.Get("Payment-Required") != "" {
				t.Fatalf("%s: %d %s", name, got.Status, got.Body)
			}
		}
		if status, h := p.health(t); status != http.StatusServiceUnavailable || h.OK || h.Reconciling == nil || h.Reconciling.Reason == "" {
			t.Fatalf("%d %+v", status, h)
		}
		for _, command := range []string{"status", "reconcile"} {
			if out, err := p.Command(t, command); err == nil || !strings.Contains(out, "restored from a backup") {
				t.Fatalf("purser %s: %s", command, out)
			}
		}
	}
	refused()
	process.Eventually(t, time.Minute, func() string {
		if _, h := p.health(t); h.Reconciling.Booked != lost {
			return fmt.Sprintf("booked %d of %d: %+v", h.Reconciling.Booked, lost, h.Reconciling)
		}
		return ""
	})
	refused()
	stop()

	// A restart in the middle goes on; nor does the wait begin anew.
	p.LongAgo(t)
	start()
	out, err := p.Command(t, "reconcile", "--wait")
	if err != nil || !strings.Contains(out, "nothing to reconcile") {
		t.Fatal(out)
	}
	if status, h := p.health(t); status != http.StatusOK || h.Reconciling != nil {
		t.Fatalf("%d %+v", status, h)
	}
	closed := func() { // without a receipt, recovery must close it
		t.Helper()
		process.Eventually(t, 3*time.Minute, func() string {
			for _, who := range payers {
				if list := who.payments(t, "?state=open"); len(list) > 0 {
					return fmt.Sprintf("%+v", list)
				}
			}
			return ""
		})
	}
	closed()
	if one := payers[0].payment(t, open.Payment.ID); one.State != "settled" {
		t.Errorf("%+v", one)
	}
	for _, who := range payers {
		if disputed := who.payments(t, "?state=disputed"); len(disputed) != 0 || len(who.requireBooks(t).Events) == 0 {
			t.Errorf("it paid nothing, or disputes %+v", disputed)
		}
	}
	if n := len(payers[0].payments(t, "?state=reconciled&limit=100")); n != lost/2 {
		t.Errorf("%d payments are reconciled, want %d", n, lost/2)
	}

	// Nothing that was paid is paid again: not what the backup knows, and not what it did not.
	for _, who := range payers {
		for _, when := range []string{"before", "after"} {
			requireUnpaid(t, proxied(who, when+"-keyed", when+"-proxy"), "paid-not-delivered", "paid-before")
			for _, settlement := range []string{"payer", "seller"} {
				what := map[string]string{"payer": "rest", "seller": "seller"}[settlement]
				var again payResult
				decode(t, who.call(t, "POST", "/v1/pay", body(when+"-"+what, settlement, when+"-"+what)), http.StatusOK, &again)
				if !again.Settled || again.Transaction == "" || (again.PaymentSignature == "") != (when == "after") {
					t.Errorf("%s, %s: %+v", when, settlement, again)
				}
			}
		}
	}
	if n := moves(); n != moved {
		t.Fatalf("%d transfers, before %d", n, moved)
	}
	requireStatus(t, proxied(payers[0], "new", ""), http.StatusOK)
	closed()
	payers[0].requireBooks(t)
	stop()
	if out, err := p.Command(t, "check", "--data-dir", p.Data); err != nil || !strings.Contains(out, fmt.Sprintf("%d payments booked", lost)) {
		t.Error(out)
	}
}

// requireBooks fails unless the payer's books are the chain's, and returns them. All that is bought here has one price, and
// recovery's last look comes later.
func (p *payer) requireBooks(t *testing.T) hostile.Books {
	t.Helper()
	customer, err := hostile.Deployment(t.Context(), "http://"+p.host, p.key)
	if err != nil {
		t.Fatal(err)
	}
	books, ledger, err := process.ReadAccount(t.Context(), customer, env.chain)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range hostile.Audit(books, ledger, nil) {
		if f.Rule != hostile.RuleOnce && f.Rule != hostile.RuleChecked {
			t.Error(f)
		}
	}
	return books
}
