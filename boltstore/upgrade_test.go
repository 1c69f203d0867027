package boltstore

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// The files in testdata were written by purser when its schema had their number, with
// payments of every state, some of them with tasks: "crawl" on every third of 40,
// "night.run" on two, one of which is disputed. Several payments share a transaction.

// unpacked is such a file in a folder of its own.
func unpacked(t *testing.T, name string) Options {
	t.Helper()
	packed, err := os.Open(filepath.Join("testdata", name+".db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	o := inFolder(t.TempDir())
	file, err := os.OpenFile(o.Path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(file, z); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return o
}

func schemaNumber(t *testing.T, path string) (n string) {
	t.Helper()
	inside(t, path, func(tx *bbolt.Tx) error {
		n = string(tx.Bucket(metaBucket).Get(schemaKey))
		return nil
	})
	return n
}

// byTask lists all that a key spent on a task.
func byTask(t *testing.T, d *DB, keyID, task string) []pay.SpendEvent {
	t.Helper()
	list, err := d.SpendEvents(t.Context(), keyID, pay.SpendQuery{Task: task, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestUpgradeFromSchema1(t *testing.T) {
	t.Parallel()
	o := unpacked(t, "schema1")
	if n := schemaNumber(t, o.Path); n != "1" {
		t.Fatalf("testdata is of schema %s", n)
	}
	for range 2 { // and what was upgraded opens again
		d := openIn(t, o)
		checked(t, d)
		total := 0
		for i := range 2 {
			keyID := fmt.Sprintf("key-%d", i)
			k, err := d.KeyBySecret(t.Context(), fmt.Sprintf("pk_schema-1-key-%d", i))
			if err != nil || k.ID != keyID || k.PolicyRevision != 0 || (k.Policy != nil) != (i == 1) {
				t.Fatalf("%+v, %v", k, err)
			}
			all := byTask(t, d, keyID, "")
			for _, task := range []string{"crawl", "night.run"} {
				want := slices.DeleteFunc(slices.Clone(all), func(e pay.SpendEvent) bool { return e.Task != task })
				got := byTask(t, d, keyID, task)
				if !slices.EqualFunc(got, want, func(a, b pay.SpendEvent) bool { return a.ID == b.ID }) {
					t.Errorf("key %d, task %s: %d events, want %d", i, task, len(got), len(want))
				}
				total += len(got)
			}
		}
		if total != 7+3 { // crawl: of 14 payments those that settled; night.run: two, and what takes one back
			t.Errorf("%d events have a task", total)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte("transactions")) != nil {
			t.Error("the index of before is still there")
		}
		return nil
	})
	if n := schemaNumber(t, o.Path); n != fmt.Sprint(len(migrations)) {
		t.Errorf("schema %s after the upgrade", n)
	}
	d := openIn(t, o)
	if _, err := d.SetPolicy(t.Context(), "key-0", &pay.Policy{DailyBudget: pay.CapOf(x402.NewAmount(5))}); err != nil {
		t.Error(err)
	}
	if _, err := d.Begin(t.Context(), call("key-0")); err != nil {
		t.Error(err)
	}
	checked(t, d)
}

// An upgrade that was cut off begins anew, also when the older purser went on in between.
func TestUpgradeTwice(t *testing.T) {
	t.Parallel()
	o := unpacked(t, "schema1")
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		index, err := tx.CreateBucket(taskEventsBucket)
		if err != nil {
			return err
		}
		c := tx.Bucket(eventsBucket).Cursor()
		var e pay.SpendEvent
		for k, row := c.First(); k != nil && e.Task == ""; k, row = c.Next() {
			if err := decodeRow(row, &e); err != nil {
				return err
			}
		}
		if err := index.Put(join(e.KeyID, e.Task, e.ID), nil); err != nil {
			return err
		}
		stale, err := tx.CreateBucket(transactionsBucket) // the payment got another one since
		if err != nil {
			return err
		}
		return stale.Put(join(transactionKey("0xAB"), e.PaymentID), nil)
	})
	checked(t, openIn(t, o))
}

// More events than one transaction takes.
func TestUpgradeOfALongHistory(t *testing.T) {
	t.Parallel()
	o := made(t, "")
	const many = 2*scanRows + 3
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		for i := range many {
			e := pay.SpendEvent{ID: fmt.Sprintf("%08d", i), KeyID: "k", Task: "crawl"}
			if i%2 == 0 {
				e.Task = ""
			}
			row, err := encodeRow(e)
			if err != nil {
				return err
			}
			if err := tx.Bucket(eventsBucket).Put(join("k", e.ID), row); err != nil {
				return err
			}
		}
		if err := tx.DeleteBucket(taskEventsBucket); err != nil {
			return err
		}
		return tx.Bucket(metaBucket).Put(schemaKey, []byte("1"))
	})
	d := openIn(t, o)
	list, err := d.SpendEvents(t.Context(), "k", pay.SpendQuery{Task: "crawl", Limit: many})
	if err != nil || len(list) != many/2 {
		t.Fatalf("%d events, %v", len(list), err)
	}
}

// A task with few events in a long history is not looked for event by event.
func TestFewEventsOfATask(t *testing.T) {
	t.Parallel()
	d, err := open(t.Context(), inFolder(t.TempDir()), true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const many = scanRows + 10
	for i := range many {
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
	d, err := open(t.Context(), inFolder(t.TempDir()), true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for i := range 400 {
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
		"event of no task": func(tx *bbolt.Tx) error { return tx.Bucket(taskEventsBucket).Put(join("k", "t", "e"), nil) },
		"revision":         func(tx *bbolt.Tx) error { return tx.Bucket(revisionsBucket).Put([]byte("k"), []byte("7")) },
		"price":            func(tx *bbolt.Tx) error { return tx.Bucket(countersBucket).Put([]byte("price/k"), []byte("6")) },
		"price is missing": func(tx *bbolt.Tx) error { return tx.Bucket(countersBucket).Delete([]byte("price/k")) },
	} {
		o := inFolder(t.TempDir())
		d := openIn(t, o)
		if _, err := d.CreateKey(t.Context(), pay.NewKey{Key: pay.Key{ID: "k"}, Secret: "pk_secret"}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.SetPolicy(t.Context(), "k", &pay.Policy{}); err != nil {
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
