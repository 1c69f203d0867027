package mpp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/mppshop"
)

// TestRestoredBehindACharge loses what purser has paid by MPP after its backup. Each challenge has chosen its nonce, and a
// repeat gets a fresh one. All the same, no order is paid again under its idempotency key.
func TestRestoredBehindACharge(t *testing.T) {
	t.Parallel()
	shop, address := openShop(t, mppshop.Options{})
	p := env.purserAt(t, filepath.Join(t.TempDir(), "restored"), process.NewClock(t).Setting())
	p.Binary = process.Program(t, process.Failpoints) // its clock is never set, but recovery does not pause between two looks
	start := func() {
		t.Helper()
		if err := p.Open(); err != nil {
			t.Fatal(err)
		}
	}
	start()
	a := newAgent(t, p)
	buy := func(url, order string) process.Answer {
		t.Helper()
		got, err := process.Ask(t.Context(), a.proxied(), "GET", url, "", "Idempotency-Key", order)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	orders := map[string]string{"one": named(t, address) + "/weather", "two": named(t, address) + "/storm", "gone": named(t, address) + "/deaf"}
	backup := filepath.Join(t.TempDir(), "backup.db")
	if out, err := p.Command(t, "backup", backup); err != nil {
		t.Fatal(out)
	}
	for order, url := range orders {
		if got := buy(url, order); (got.Status == http.StatusOK) != (order != "gone") {
			t.Fatalf("%s: %d %s", order, got.Status, got.Body)
		}
	}
	if n := env.debits(t, a.wallet); n != len(orders) {
		t.Fatalf("%d debits", n)
	}
	p.Kill()
	if err := os.Rename(backup, p.File()); err != nil {
		t.Fatal(err)
	}

	start()
	process.Eventually(t, time.Minute, func() string {
		got, err := process.Ask(t.Context(), direct, "GET", p.URL("/health"), "")
		var h struct{ Reconciling struct{ Booked int } }
		if err == nil {
			err = json.Unmarshal([]byte(got.Body), &h)
		}
		if err != nil || h.Reconciling.Booked != len(orders) {
			return fmt.Sprint(err, " ", got.Body)
		}
		return ""
	})
	p.End(t)
	p.LongAgo(t)
	start()
	if out, err := p.Command(t, "reconcile", "--wait"); err != nil {
		t.Fatal(out)
	}
	for order, url := range orders {
		if got := buy(url, order); got.Status != http.StatusPaymentRequired || got.Header.Get("Purser-Declined") != "paid-not-delivered" {
			t.Errorf("%s: %d %v %s", order, got.Status, got.Header, got.Body)
		}
	}
	if n, seen := env.debits(t, a.wallet), shop.Count(""); n != len(orders) || seen.Distinct != n {
		t.Errorf("%d debits, %+v", n, seen)
	}
	if got := buy(orders["one"], "another"); got.Status != http.StatusOK {
		t.Errorf("another order: %d %s", got.Status, got.Body)
	}
	a.requireBooks(t, len(orders)+1)
	p.End(t)
}
