package boltstore

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// backedUp is a backup of the store in a folder of its own.
func backedUp(t *testing.T, d *DB, m Mark) Options {
	t.Helper()
	c, err := d.Copy(t.Context(), &m)
	if err != nil {
		t.Fatal(err)
	}
	o := inFolder(t.TempDir())
	saved(t, c, o.Path)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return o
}

// at gives a store its own clock.
func at(o Options, now time.Time) Options {
	o.Clock = func() time.Time { return now }
	return o
}

func restoreOf(t *testing.T, d *DB) *pay.Restore {
	t.Helper()
	r, err := d.Restored(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// foundOn is a payment as reconciling finds it.
func foundOn(keyID string, n int) *pay.Payment {
	b := call(keyID)
	p := b.New
	p.State, p.Confirmed, p.Reconciled, p.Answered, p.Closed, p.EventID = pay.Settled, true, true, true, noon, newID()
	p.Transaction = fmt.Sprintf("0x%064x", 1_000+n)
	p.Authorization.Nonce = x402.Nonce(pay.HashOf("found", fmt.Sprint(n)))
	p.Reservations = []pay.Reservation{b.Place.Reservation}
	return p
}

func mustReconcile(t *testing.T, d *DB, next uint64, want int, found ...*pay.Payment) {
	t.Helper()
	booked, err := d.Reconcile(t.Context(), pay.ReconcileStep{Network: "base", Scan: pay.Scan{First: 101, Next: next}, Found: found})
	if err != nil || len(booked) != want {
		t.Fatalf("booked %d, want %d: %v", len(booked), want, err)
	}
}

func wantRefused(t *testing.T, d *DB) {
	t.Helper()
	_, err := d.Begin(t.Context(), call("k"))
	if _, ok := errors.AsType[*pay.ReconcilingError](err); !ok {
		t.Fatalf("error %v", err)
	}
}

// The moment of the first opening is that of the store, whenever it is opened again; a
// backup of a store that is not reconciled yet is restored at another one, and goes on where
// that was.
func TestRestoreOfARestore(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	begun(t, d, "k")
	block := &Block{Network: "base", Genesis: "0x1", Number: 100, Hash: "0x64", Time: noon}
	first := backedUp(t, d, Mark{At: noon, Block: block})

	d = openIn(t, at(first, noon.Add(time.Hour)))
	wantRefused(t, d)
	if r := restoreOf(t, d); !r.Taken.Equal(noon) || *r.Block != *block || !r.At.Equal(noon.Add(time.Hour)) {
		t.Fatalf("%+v", r)
	}
	lost := foundOn("k", 1)
	mustReconcile(t, d, 151, 1, lost)
	if err := d.AcceptRisk(t.Context(), pay.Acceptance{At: noon}); err != nil {
		t.Fatal(err)
	}
	checked(t, d)
	second := backedUp(t, d, Mark{At: noon.Add(2 * time.Hour), Block: &Block{Network: "base", Number: 900, Hash: "0x9", Genesis: "0x1", Time: noon}})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openIn(t, at(first, noon.Add(3*time.Hour)))
	if r := restoreOf(t, d); !r.At.Equal(noon.Add(time.Hour)) || r.Scans["base"].Next != 151 || r.Booked != 1 || r.Accepted == nil {
		t.Fatalf("opened again: %+v", r)
	}

	d = openIn(t, at(second, noon.Add(4*time.Hour)))
	wantRefused(t, d)
	r := restoreOf(t, d)
	if !r.Taken.Equal(noon) || *r.Block != *block || !r.At.Equal(noon.Add(4*time.Hour)) || r.Scans["base"].Next != 151 {
		t.Fatalf("%+v", r)
	}
	if r.Accepted != nil {
		t.Error("an operator's word about another restore counts")
	}
	mustReconcile(t, d, 1000, 1, lost, foundOn("k", 2))
	checked(t, d)
	if err := d.EndReconciling(t.Context(), noon.Add(5*time.Hour)); err != nil {
		t.Fatal(err)
	}
	begun(t, d, "k")
	checked(t, d)
	third := backedUp(t, d, Mark{At: noon.Add(6 * time.Hour)})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	report := sound(t, second.Path)
	for i, m := range report.Backups {
		if m.ReconciledAt.IsZero() || m.Booked != 2 || m.RestoredAt.IsZero() {
			t.Errorf("mark %d: %+v", i, m)
		}
	}
	begun(t, openIn(t, second), "k") // it stays reconciled

	d = openIn(t, third) // what was reconciled is not again
	wantRefused(t, d)
	if r := restoreOf(t, d); !r.Taken.Equal(noon.Add(6*time.Hour)) || r.Block != nil || r.Scans != nil || r.Booked != 0 {
		t.Fatalf("%+v", r)
	}
}

// What a purser of before restored and paid from, without reading the chain, is behind too.
func TestRestoreWithTwoMarks(t *testing.T) {
	t.Parallel()
	o := filled(t)
	for n := range 2 {
		if err := (&Copy{path: o.Path}).complete(&Mark{At: noon.Add(time.Duration(n) * time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	d := openIn(t, o)
	if r := restoreOf(t, d); !r.Taken.Equal(noon) {
		t.Errorf("%+v", r)
	}
	if err := d.EndReconciling(t.Context(), noon); err != nil {
		t.Fatal(err)
	}
	checked(t, d)
}

// The same backup restored twice forgets the first time.
func TestRestoredTwice(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	backup := backedUp(t, d, Mark{At: noon})
	kept, err := os.ReadFile(backup.Path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		now := noon.Add(time.Duration(n+1) * time.Hour)
		if err := os.WriteFile(backup.Path, kept, 0o600); err != nil {
			t.Fatal(err)
		}
		d := openIn(t, at(backup, now))
		wantRefused(t, d)
		if r := restoreOf(t, d); !r.At.Equal(now) || r.Booked != 0 {
			t.Fatalf("%+v", r)
		}
		mustReconcile(t, d, 7, 1, foundOn("k", 1))
		if err := d.EndReconciling(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		begun(t, d, "k")
		checked(t, d)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// More payments of before than one transaction takes are all known.
func TestManyAreKnown(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	var found []*pay.Payment
	for n := range scanRows + 50 {
		p := begun(t, d, "k")
		o := settlement(p)
		o.Verdict = []pay.Verdict{pay.VerdictVoid, pay.VerdictRefused, pay.Unclear}[n%3]
		if _, _, err := d.Record(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if n%100 == 7 || n < 3 {
			q := foundOn("k", n)
			q.Authorization = p.Authorization
			found = append(found, q)
		}
	}
	confirmed := begun(t, d, "k")
	o := settlement(confirmed)
	o.Transaction, o.Release = fmt.Sprintf("0x%064x", 77), false
	settled, _, err := d.Record(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o = settlement(settled)
	o.Verdict, o.Transaction = pay.VerdictConfirmed, settled.Transaction
	if _, _, err := d.Record(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	q := foundOn("k", -1)
	q.Authorization, q.Transaction = confirmed.Authorization, settled.Transaction
	other := foundOn("k", -2) // in the same transaction, and not ours
	other.Transaction = settled.Transaction

	backup := backedUp(t, d, Mark{At: noon})
	restored := openIn(t, backup)
	mustReconcile(t, restored, 7, 1, append(found, q, other)...)
	checked(t, restored)
}

// A backup that is put in the place of the file of a running purser ends its payments, as it
// would otherwise go on in a file that no start reads. The purser that opens the new file waits
// for the chain.
func TestFileReplacedWhileOpen(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	begun(t, d, "k")
	backup := backedUp(t, d, Mark{At: noon})
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second purser: %v", err)
	}
	byHand, err := d.Copy(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(byHand.path)
	if err := errors.Join(err, byHand.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(backup.Path, o.Path); err != nil {
		t.Fatal(err)
	}
	_, err = d.Begin(t.Context(), call("k"))
	wantError(t, err, pay.ErrUnavailable)
	wantError(t, err, errReplaced)
	// Its own attempts to go on leave the new file alone.
	eventually(t, "it looks again", func() bool {
		err := d.Health(t.Context())
		return err != nil && errors.Is(err, errReplaced)
	})
	next := openIn(t, o)
	wantRefused(t, next)
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	// Nor does a copy without a mark, which would take it back to where it was.
	if err := errors.Join(os.Remove(o.Path), os.WriteFile(o.Path, kept, 0o600)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * retryEvery)
	_, err = d.Begin(t.Context(), call("k"))
	wantError(t, err, errReplaced)
}

// Check sees what is wrong with what reconciling has written.
func TestCheckOfReconciling(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*bbolt.Tx) error{
		"no state": func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Delete(reconcilingKey) },
		"no marks": func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Delete(backupsKey) },
		"unread":   func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(reconcilingKey, []byte("x")) },
		"nonce": func(tx *bbolt.Tx) error {
			k, _ := tx.Bucket(noncesBucket).Cursor().First()
			return tx.Bucket(noncesBucket).Delete(k)
		},
		"attempt": func(tx *bbolt.Tx) error {
			k, _ := tx.Bucket(attemptsBucket).Cursor().First()
			return tx.Bucket(attemptsBucket).Delete(k)
		},
		"stray attempt": func(tx *bbolt.Tx) error {
			k, _ := tx.Bucket(attemptsBucket).Cursor().First()
			k = append([]byte("j"), k[1:]...)
			return tx.Bucket(attemptsBucket).Put(k, nil)
		},
		"signed": func(tx *bbolt.Tx) error {
			k, _ := tx.Bucket(noncesBucket).Cursor().First()
			id := k[33:]
			p, err := paymentIn(tx, string(id))
			if err != nil {
				return err
			}
			p.Signature = &x402.Signature{1}
			row := codec.Encode(p)
			return errors.Join(tx.Bucket(paymentsBucket).Put(id, row.Row), tx.Bucket(payloadsBucket).Put(id, row.Payload))
		},
		"counter": func(tx *bbolt.Tx) error {
			return tx.Bucket(countersBucket).Delete([]byte(pay.PlaceCounter("key/k", noon)))
		},
	} {
		d := openIn(t, inFolder(t.TempDir()))
		b := call("k")
		b.IdempotencyKey, b.New.IdempotencyKey = "order", "order"
		if _, err := d.Begin(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		o := backedUp(t, d, Mark{At: noon})
		d = openIn(t, o)
		mustReconcile(t, d, 7, 1, foundOn("k", 1))
		checked(t, d)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		inside(t, o.Path, damage)
		if r, err := CheckFile(t.Context(), o.Path, nil); err == nil && r.Err() == nil {
			t.Errorf("%s: not seen", name)
		}
	}
}

// What a key's thousandth attempt costs is what its tenth costs.
func TestAttemptsAreASeek(t *testing.T) {
	d := openIn(t, inFolder(t.TempDir()))
	attempt := func() {
		b := call("k")
		b.IdempotencyKey, b.New.IdempotencyKey = "order", "order"
		got, err := d.Begin(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		o := settlement(got.Payment)
		o.Verdict, o.Retire = pay.VerdictVoid, true // so that it is the attempts alone that are counted
		if _, _, err := d.Record(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		attempt()
	}
	few := testing.AllocsPerRun(20, attempt)
	for range 1500 {
		attempt()
	}
	if many := testing.AllocsPerRun(20, attempt); many > 1.5*few {
		t.Errorf("%.0f allocations for one of many attempts, %.0f for one of few", many, few)
	}
	checked(t, d)
}
