package boltstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// retired makes a payment under an idempotency key that is settled, confirmed and retired.
func retired(t testing.TB, d *DB) *pay.Payment {
	t.Helper()
	b := call("k")
	b.New.Task, b.New.Price = "crawl", "price/k"
	b.IdempotencyKey, b.New.IdempotencyKey = b.New.ID, b.New.ID
	begun, err := d.Begin(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	o := settlement(begun.Payment)
	o.Release, o.Transaction = false, "0x"+strings.Repeat("ab", 32)
	if _, _, err := d.Record(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o.Verdict, o.Signature, o.Retire, o.Release = pay.VerdictConfirmed, nil, true, true
	p, _, err := d.Record(t.Context(), o)
	if err != nil || !p.Retired || !p.Confirmed {
		t.Fatalf("%+v, %v", p, err)
	}
	return p
}

// all removes whatever can be removed. Payments here are of noon, with ids of the machine's time.
func all(t testing.TB) pay.Removal {
	t.Helper()
	return pay.Removal{Before: time.Now().AddDate(1, 0, 0), Unwatched: func(string) bool { return true }, Limit: 50}
}

// removed removes payments and returns how many there were.
func removed(t testing.TB, d *DB, r pay.Removal) (n int) {
	t.Helper()
	for {
		done, err := d.RemovePayments(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if n += done.Count; done.Next == "" {
			return n
		}
		r.After = done.Next
	}
}

// The room of removed payments is used again while the store is open.
func TestRoomOfRemovedPayments(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	const many = 400
	var sizes []int64
	for range 5 {
		for range many {
			retired(t, d)
		}
		if n := removed(t, d, all(t)); n != many {
			t.Fatalf("%d of %d payments removed", n, many)
		}
		tx, err := d.snapshot(t.Context()) // after a checkpoint
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, tx.Size())
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
	// What stays is the number of an attempt for each idempotency key. Pages that the last checkpoint
	// freed are room as well, how many depends on the time. A payment that kept its room takes 1.2 kB.
	if grown := sizes[4] - sizes[1]; grown > 3*many*500 {
		t.Errorf("the file grew by %d bytes for %d payments that were removed: %d", grown, 3*many, sizes)
	}
	checked(t, d)
}

// A removal that does not become durable has removed nothing.
func TestRemovalInAnOutage(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	p := retired(t, d)
	broken(d, nothingWritten)
	_, err := d.RemovePayments(t.Context(), all(t))
	wantError(t, err, pay.ErrUnavailable)
	repaired(t, d)
	checked(t, d)
	if got, err := d.Payment(t.Context(), p.ID); err != nil || got.EventID != p.EventID {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := removed(t, d, all(t)); n != 1 {
		t.Errorf("%d removed", n)
	}
	checked(t, d)
}

// A payment whose event is missing stays for purser check, and holds up no other.
func TestRemovalKeepsDamage(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	p := retired(t, d)
	other := retired(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	unreadable := newID()
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		if err := tx.Bucket(paymentsBucket).Put([]byte(unreadable), []byte{99, 0}); err != nil {
			return err
		}
		return tx.Bucket(eventsBucket).Delete(joinKey(p.KeyID, p.EventID))
	})
	d = openIn(t, o)
	if n := removed(t, d, all(t)); n != 1 {
		t.Errorf("%d removed", n)
	}
	if _, err := d.Payment(t.Context(), p.ID); err != nil {
		t.Error(err)
	}
	_, err := d.Payment(t.Context(), other.ID)
	wantError(t, err, pay.ErrPaymentNotFound)
}

// After a removal, sums of the days before it are taken as they are. Everything else is compared.
func TestCheckAfterARemoval(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	retired(t, d)
	if n := removed(t, d, pay.Removal{Before: noon.Add(time.Hour), Unwatched: all(t).Unwatched, Limit: 9}); n != 0 && n != 1 {
		t.Fatalf("%d removed", n)
	}
	removed(t, d, all(t))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	faults := func() []string {
		t.Helper()
		r, err := CheckFile(t.Context(), o.Path, nil)
		if err != nil || r.Removed.IsZero() {
			t.Fatalf("%+v, %v", r, err)
		}
		return r.Faults
	}
	if list := faults(); len(list) > 0 {
		t.Fatalf("%q", list)
	}
	// The horizon of a sweep on the day after.
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		return putJSON(tx.Bucket(metaBucket).Put, map[string]any{string(removedKey): noon.AddDate(0, 0, 1)})
	})
	later := noon.AddDate(0, 0, 2)
	put := func(bucket, key, value []byte) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put(key, value) }
	}
	counter := func(c pay.Counter) func(*bbolt.Tx) error { return put(countersBucket, []byte(c), []byte("5")) }
	for _, c := range []struct {
		name string
		do   func(*bbolt.Tx) error
		text string // "" : no fault
	}{
		{"day before", put(spendDaysBucket, dayKey("k", noon.AddDate(0, 0, -9)), (&codec.Day{}).Encode()), ""},
		{"day behind", put(spendDaysBucket, dayKey("k", later), (&codec.Day{}).Encode()), "no spend event is of that key and day"},
		{"counter of a day before", counter(pay.DailyCounter("k", "USDC", noon.AddDate(0, 0, -9))), ""},
		{"counter of the month", counter(pay.PlaceCounter("k", noon)), ""},
		{"price", counter("price/k/x"), ""},
		{"what a wallet moved", counter("moved/w/a"), ""},
		{"counter of a day behind", counter(pay.DailyCounter("k", "USDC", later)), "the payments make 0"},
		{"counter of a month behind", counter(pay.PlaceCounter("k", noon.AddDate(0, 1, 0))), "the payments make 0"},
		{"counter of no time", counter("hold/w/a"), "the payments make 0"},
		{"attempts of none removed", func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Delete(removedKey) }, "and none was removed"},
		{"horizon", put(metaBucket, removedKey, []byte("x")), "removed: "},
	} {
		was := snapshotOf(t, o.Path)
		inside(t, o.Path, c.do)
		r, err := CheckFile(t.Context(), o.Path, nil)
		if err != nil || (c.text == "") != (len(r.Faults) == 0) ||
			c.text != "" && !slices.ContainsFunc(r.Faults, func(f string) bool { return strings.Contains(f, c.text) }) {
			t.Errorf("%s: %v, %q", c.name, err, r.Faults)
		}
		was()
	}
}

// A counter of a removed day must still have what the payments that are left make.
func TestCheckOfACounterThatLacks(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	retired(t, d)
	removed(t, d, all(t))
	begun(t, d, "k")
	checked(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	c := pay.DailyCounter("k", "USDC", noon)
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		have, err := counterIn(tx, c)
		if err != nil || have != money.New(10) {
			return fmt.Errorf("%s: %w", have, err)
		}
		return tx.Bucket(countersBucket).Put([]byte(c), []byte("4"))
	})
	if r, err := CheckFile(t.Context(), o.Path, nil); err != nil || len(r.Faults) != 1 || !strings.Contains(r.Faults[0], "the payments make 5") {
		t.Errorf("%v, %q", err, r.Faults)
	}
}

// snapshotOf keeps the bytes of a file, and returns a function that puts them back.
func snapshotOf(t *testing.T, path string) (back func()) {
	t.Helper()
	return (&opener{options: Options{Path: path}}).Snapshot(t)
}
