package pgstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
	"github.com/purserpay/purser/policy"
)

// What callers queue before those of the last batch have their answers goes into one batch.
func TestBatchWaitsForCallers(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := fresh(t, server)
	d, other := node(t, pgstore.Options{URL: url}), node(t, pgstore.Options{URL: url})
	k := keyOn(t, d)
	answer, receive := d.QueueNothing(k.ID)
	first := <-answer
	before := d.Stats()
	second, receiveSecond := d.QueueNothing(k.ID)
	pays(t, other, k, 5) // takes longer than a batch
	third, receiveThird := d.QueueNothing(k.ID)
	receive()
	if err := errors.Join(first, <-second, <-third); err != nil {
		t.Error(err)
	}
	receiveSecond()
	receiveThird()
	if n := d.Stats().Batches - before.Batches; n != 1 {
		t.Errorf("two operations in %d batches", n)
	}
}

// A call that joins a batch may have begun after a change that no lock guards. The batch had asked before.
func TestCallThatJoinsSeesChanges(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url, link := fresh(t, server), server.Link(t)
	d, other := node(t, pgstore.Options{URL: strings.Replace(url, server.URL, link.URL, 1)}), node(t, pgstore.Options{URL: url})
	k, err := d.CreateKey(t.Context(), pay.NewKey{Key: pay.Key{ID: "k", OrganizationID: "org", Created: d.Now()}, Secret: "pk_" + uuid.NewString()})
	if err != nil {
		t.Fatal(err)
	}
	err = d.CreateWallet(t.Context(), pay.NewWallet{Wallet: pay.Wallet{ID: "w", KeyID: k.ID, Network: "base", Created: d.Now()}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	begin := func() error {
		b := callOf(k, d.Now())
		b.Policy, b.PolicyRevision, b.OrganizationID, b.Plan, b.WalletOwner = new(policy.Policy), k.PolicyRevision, k.OrganizationID, pay.PlanFree, k.ID
		_, err := d.Begin(t.Context(), b)
		return err
	}
	for range 5 { // so that the statements are prepared
		if err := begin(); err != nil {
			t.Fatal(err)
		}
	}
	paused := func(err error) bool { return errors.As(err, new(*pay.PolicyError)) }
	anew := func(err error) bool { return errors.Is(err, pay.ErrPolicyChanged) }
	begun := func(err error) bool { return err == nil }
	for _, step := range []struct {
		what   string
		change func() error
		want   func(error) bool
	}{
		{"everything is paused", func() error { return other.SetPause(t.Context(), &pay.Pause{At: d.Now()}) }, paused},
		{"nothing is paused", func() error { return other.SetPause(t.Context(), nil) }, begun},
		{"the wallet is deleted", func() error { return other.DeleteWallet(t.Context(), k.ID, "w", d.Now()) }, anew},
		{"the wallet is restored", func() error { _, err := other.RestoreWallet(t.Context(), "w"); return err }, begun},
		{"the plan is another", func() error { _, err := other.SetPlan(t.Context(), "org", pay.PlanAgency); return err }, anew},
	} {
		goOn := link.Hold(t)
		answers := make(chan error, 2)
		call := func() { answers <- begin() }
		go call()
		wait(t, "the batch has asked", func() bool {
			return run(t, url, `SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'`) == 1
		})
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		go call()
		wait(t, "a call waits", func() bool { return d.Queued() == 1 })
		before := d.Stats()
		goOn()
		for range 2 {
			if err := <-answers; !step.want(err) {
				t.Errorf("when %s, a call of the batch got %v", step.what, err)
			}
		}
		if n := d.Stats().Batches - before.Batches; n != 1 {
			t.Errorf("when %s, the calls are in %d batches", step.what, n)
		}
	}
}

// The committer's plans start no workers: these would take milliseconds for what takes microseconds.
func TestCommitterPlansWithoutWorkers(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := fresh(t, server)
	for _, cost := range []string{"parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size", "min_parallel_index_scan_size"} {
		run(t, url, `ALTER DATABASE postgres SET `+cost+` = 0`)
	}
	d := node(t, pgstore.Options{URL: url})
	readers, writers, err := d.Plans(t.Context(), `SELECT id FROM payments UNION ALL SELECT id FROM spend`)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(readers, "Gather") {
		t.Errorf("this database starts no workers for readers either:\n%s", readers)
	}
	if strings.Contains(writers, "Gather") {
		t.Errorf("the committer starts workers:\n%s", writers)
	}
}
