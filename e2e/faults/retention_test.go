package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/hostile"
)

// Payments that are older than PURSER_RETAIN are archived and removed by the real program. Its books agree with
// themselves afterwards, and the same idempotency keys pay anew, with other nonces.
func TestOldPaymentsAreRemoved(t *testing.T) {
	t.Parallel()
	p := startChild(t, newGround(t), childPatience, "PURSER_RETAIN=60d")
	customer := p.enroll(t)
	buy := func(id uint64) {
		t.Helper()
		for i, door := range hostile.Doors() {
			o := hostile.Order{ID: id + uint64(i), Key: fmt.Sprint("order-", i)}
			if got := customer.Buy(bounded(t), p.world.SellerURL, door, o); !got.Done {
				t.Fatalf("%s: %v", door, got)
			}
		}
	}
	books := func() hostile.Books {
		t.Helper()
		b, err := hostile.ReadBooks(bounded(t), customer)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	buy(100)
	if n := len(p.audit(t, customer, nil).Transfers); n != 3 {
		t.Fatalf("%d transfers", n)
	}

	archive := filepath.Join(t.TempDir(), "old.jsonl")
	if out, err := p.Command(t, "archive", archive); err != nil || !strings.Contains(out, "3 payments") {
		t.Fatalf("%v: %s", err, out)
	}
	if text, err := os.ReadFile(archive); err != nil || strings.Count(string(text), `"spend":[{`) != 3 {
		t.Errorf("%v: %s", err, text)
	}
	p.ground.clock.Until(t, patience, func() string {
		p.ground.clock.Forward(t, 12*time.Hour)
		if b := books(); len(b.Payments) > 0 || len(b.Events) > 0 {
			return fmt.Sprintf("%d payments and %d events are left", len(b.Payments), len(b.Events))
		}
		return ""
	})
	if out, err := p.Command(t, "check"); err != nil || !strings.Contains(out, "removed") {
		t.Errorf("%v: %s", err, out)
	}

	buy(200)
	if n := len(books().Payments); n != 3 {
		t.Errorf("%d payments under the same idempotency keys", n)
	}
	_, ledger, err := process.ReadAccount(bounded(t), customer, p.ground.chain)
	if err != nil || len(ledger.Transfers) != 6 {
		t.Errorf("%d transfers, %v", len(ledger.Transfers), err)
	}
	p.End(t)
	p.Check(t)
}
