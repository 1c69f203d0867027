package kills

import (
	"bytes"
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/shop"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/sandbox/hostile"
)

// The other tests rely on an audit, which must notice that a protection is away. Package simulation takes the others away.

// unprotected is the setting that switches a protection off.
func unprotected(protection string) string { return failpoint.SwitchedOff + "=" + protection }

// whole has the seller deliver at once.
func whole(uint64) time.Duration { return 0 }

// requireFound fails the test unless a rule was found broken.
func requireFound(t *testing.T, found []hostile.Finding, rule hostile.Rule) {
	t.Helper()
	if !slices.ContainsFunc(found, func(f hostile.Finding) bool { return f.Rule == rule }) {
		t.Errorf("%q was not found among %v", rule, found)
	}
}

// A purser that pays before the journal knows of it loses a payment when it is killed, and pays again when it is asked
// again.
func TestPayingBeforeTheJournalIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unhurried, whole)
	s := shoppers()[len(shop.Doors())] // at the payer's door, without keys
	// Nothing but the payment must be waiting for the store: the first one records the chain's genesis, too.
	w.insist(context.Background(), s.door(), s.order(0), time.Now().Add(patience))
	w.purser.Kill()
	if !w.purser.start(t, failpoint.AfterSettle, unprotected(failpoint.Journal)) {
		t.Fatal("purser died too early")
	}
	w.buy(context.Background(), s.door(), s.order(1))
	if !w.purser.dies(t, patience) {
		t.Fatal("purser did not die")
	}
	requireFound(t, w.autopsy(t), ruleRecorded)
	if !w.purser.start(t, "") {
		t.Fatal("purser died again")
	}
	w.insist(context.Background(), s.door(), s.order(1), time.Now().Add(patience))
	n, found := w.audit(t)
	requireFound(t, found, hostile.RuleOnce)
	requireFound(t, found, hostile.RuleBooked)
	if n.doubles != 1 || n.lost != 1 {
		t.Errorf("%d double charges and %d lost", n.doubles, n.lost)
	}
}

// Programs that are built without the tag have none of it.
func TestOrdinaryBuildsHaveNoFailpoints(t *testing.T) {
	t.Parallel()
	plain, err := os.ReadFile(process.Program(t, process.Plain))
	if err != nil {
		t.Fatal(err)
	}
	armed, err := os.ReadFile(process.Program(t, process.Failpoints))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(failpoint.Places(), "internal/failpoint.Here") {
		if bytes.Contains(plain, []byte(name)) {
			t.Errorf("the ordinary program has %q in it", name)
		}
		if !bytes.Contains(armed, []byte(name)) {
			t.Errorf("the program under test has no %q in it", name)
		}
	}
}
