package pay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
)

// The store of a payer that runs loses commits, and does so again later. Each time the payer waits anew for the chain and
// for its own clock, and says why.
func TestReconcilesWhileItRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.mustBuy("https://api.example.com/before", "20", "before", true)
	for n := range 2 {
		at := w.chain.clock()
		w.store.Restore(pay.Restore{Taken: at.Add(-time.Minute), At: at, Lost: true})
		url := fmt.Sprint("https://api.example.com/", n)
		if _, err := w.buy(url, "20", "", true); pay.Code(err) != pay.CodeReconciling || !strings.Contains(err.Error(), "the database has lost what was written after") {
			t.Fatalf("loss %d: %v", n, err)
		}
		if !w.reconcile() {
			t.Fatalf("loss %d was reconciled at once", n)
		}
		if s := must(w.payer.Reconciling(t.Context())); s.Until.Before(at.Add(5 * time.Minute)) {
			t.Errorf("loss %d at %s is waited for until %s", n, at, s.Until)
		}
		w.chain.advance(10 * time.Minute)
		w.mustReconcile()
		w.mustBuy(url, "20", "", true)
	}
	w.chain.advance(time.Hour)
	w.recoverAll()
	w.booksAreTheChain()
}
