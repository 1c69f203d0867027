package mpp

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
	"github.com/purserpay/purser/sandbox/mppshop"
)

// TestRestoredBehindACharge loses what purser has paid by MPP after its backup. Each challenge has chosen its nonce, and a
// repeat gets a fresh one. All the same, no order is paid again under its idempotency key, and no withdrawal moves twice.
func TestRestoredBehindACharge(t *testing.T) {
	t.Parallel()
	shop, address := openShop(t, mppshop.Options{})
	official := env.seller(t, mppx)
	// Its clock is never set, but recovery does not pause between two looks.
	p := env.purserAt(t, process.Failpoints, filepath.Join(t.TempDir(), "restored"), append(env.onTempo(t), process.NewClock(t).Setting())...)
	p.Start(t)
	a := newAgent(t, p)
	a.joinTempo(t)
	purse := newAgentOnTempo(t, p)
	withdraw := func() {
		t.Helper()
		p.Must(t, "wallets", "withdraw", purse.tempo.String(), "--to", "0x00000000000000000000000000000000000000bb", "--amount", "0.01", "--yes", "--admin", p.Admin())
		if n := purse.debits(t); n != 1 {
			t.Errorf("%d withdrawals", n)
		}
	}
	buy := func(url, order string) process.Answer {
		t.Helper()
		got, err := process.Ask(t.Context(), a.proxied(), "GET", url, "", "Idempotency-Key", order)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	orders := map[string]string{
		"one": named(t, address) + "/weather", "two": named(t, address) + "/settles-denies", "gone": named(t, address) + "/deaf",
		"on-tempo": named(t, official.URL) + "/tempo", "sponsored": named(t, official.URL) + "/sponsored", "gone-on-tempo": named(t, official.URL) + "/tempo/deaf",
	}
	backup := filepath.Join(t.TempDir(), "backup.db")
	if out, err := p.Command(t, "backup", backup); err != nil {
		t.Fatal(out)
	}
	for order, url := range orders {
		if got := buy(url, order); (got.Status == http.StatusOK) == strings.HasPrefix(order, "gone") {
			t.Fatalf("%s: %d %s", order, got.Status, got.Body)
		}
	}
	if n := a.debits(t); n != len(orders) {
		t.Fatalf("%d debits", n)
	}
	withdraw()
	p.Kill()
	if err := os.Rename(backup, p.File()); err != nil {
		t.Fatal(err)
	}

	p.Start(t)
	process.Eventually(t, time.Minute, func() string {
		got, err := process.Ask(t.Context(), direct, "GET", p.URL("/health"), "")
		var h struct{ Reconciling struct{ Booked int } }
		if err == nil {
			err = json.Unmarshal([]byte(got.Body), &h)
		}
		if err != nil || h.Reconciling.Booked != len(orders)+1 {
			return fmt.Sprint(err, " ", got.Body)
		}
		return ""
	})
	p.End(t)
	p.LongAgo(t)
	p.Start(t)
	if out, err := p.Command(t, "reconcile", "--wait"); err != nil {
		t.Fatal(out)
	}
	for order, url := range orders {
		if got := buy(url, order); got.Status != http.StatusPaymentRequired || got.Header.Get("Purser-Declined") != "paid-not-delivered" {
			t.Errorf("%s: %d %v %s", order, got.Status, got.Header, got.Body)
		}
	}
	if n, seen := a.debits(t), shop.Count(""); n != len(orders) || seen.Distinct != 3 {
		t.Errorf("%d debits, %+v", n, seen)
	}
	withdraw()
	for _, order := range []string{"one", "on-tempo"} {
		if got := buy(orders[order], "another-"+order); got.Status != http.StatusOK {
			t.Errorf("another order: %d %s", got.Status, got.Body)
		}
	}
	a.requireBooks(t, len(orders)+2)
	a.requireStatement(t, a.tempo)
	a.requireStatement(t, purse.tempo)
	p.End(t)
}
