package boltstore

import (
	"testing"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// byTask lists all that a key spent on a task.
func byTask(t *testing.T, d *DB, keyID, task string) []pay.SpendEvent {
	t.Helper()
	list, err := d.SpendEvents(t.Context(), keyID, pay.SpendQuery{Task: task, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// often settles payments of one task, and one of another.
func often(t *testing.T, d *DB, payments int) {
	t.Helper()
	for i := range payments {
		b := call("k")
		if b.New.Task = "often"; i == 3 {
			b.New.Task = "once"
		}
		begun, err := d.Begin(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.Record(t.Context(), settlement(begun.Payment)); err != nil {
			t.Fatal(err)
		}
	}
}

// A task with few events in a long history is not looked for event by event.
func TestFewEventsOfATask(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	many := scanRows + 10
	often(t, d, many)
	if n := len(byTask(t, d, "k", "once")); n != 1 {
		t.Fatalf("%d events", n)
	}
	if n := len(byTask(t, d, "k", "often")); n != 100 {
		t.Fatalf("%d events", n)
	}
	list, err := d.SpendEvents(t.Context(), "k", pay.SpendQuery{Task: "often", Limit: many}) // two transactions
	if err != nil || len(list) != many-1 {
		t.Fatalf("%d events, %v", len(list), err)
	}
	checked(t, d)
}

// The events of a task are found without a walk over the others.
func TestSpendByTaskIsASeek(t *testing.T) {
	d := openIn(t, inFolder(t.TempDir()))
	often(t, d, 400)
	perCall := testing.AllocsPerRun(20, func() { byTask(t, d, "k", "once") })
	if perCall > 100 { // decoding one event takes about 20
		t.Errorf("%.0f allocations for one event among 400", perCall)
	}
}

// Check sees what the new index, the revisions and the prices say wrongly.
func TestCheckOfPolicies(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*bbolt.Tx) error{
		"event not found by its task": func(tx *bbolt.Tx) error {
			k, _ := tx.Bucket(taskEventsBucket).Cursor().First()
			return tx.Bucket(taskEventsBucket).Delete(k)
		},
		"event of no task": func(tx *bbolt.Tx) error { return tx.Bucket(taskEventsBucket).Put(joinKey("k", "t", "e"), nil) },
		"revision":         func(tx *bbolt.Tx) error { return tx.Bucket(revisionsBucket).Put([]byte("k"), []byte("7")) },
		"price":            func(tx *bbolt.Tx) error { return tx.Bucket(countersBucket).Put([]byte("price/k"), []byte("6")) },
		"price is missing": func(tx *bbolt.Tx) error { return tx.Bucket(countersBucket).Delete([]byte("price/k")) },
	} {
		o := inFolder(t.TempDir())
		d := openIn(t, o)
		if _, err := d.CreateKey(t.Context(), pay.NewKey{Key: pay.Key{ID: "k"}, Secret: "pk_secret"}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.SetPolicy(t.Context(), "k", &policy.Policy{}); err != nil {
			t.Fatal(err)
		}
		b := call("k")
		b.New.Task, b.New.Price = "crawl", "price/k"
		begun, err := d.Begin(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.Record(t.Context(), settlement(begun.Payment)); err != nil {
			t.Fatal(err)
		}
		checked(t, d)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		inside(t, o.Path, damage)
		if err := openIn(t, o).Check(t.Context()); err == nil {
			t.Errorf("%s: not seen", name)
		}
	}
}
