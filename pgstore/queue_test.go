package pgstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/pgstore"
)

// Calls that are queued before the callers of the last batch have their answers go into one batch.
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
