package boltstore

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

var errDisk = errors.New("input/output error")

// Ways a commit fails: nothing reached the disk, or all did and only the answer is bad.
var (
	nothingWritten = func(func() error) error { return errDisk }
	allWritten     = func(commit func() error) error { return errors.Join(commit(), errDisk) }
)

// broken makes every commit and every reopening fail.
func broken(d *DB, commit func(func() error) error) {
	reopen := func() error { return errDisk }
	d.hooks.commit.Store(&commit)
	d.hooks.reopen.Store(&reopen)
}

func repaired(t *testing.T, d *DB) {
	t.Helper()
	d.hooks.commit.Store(nil)
	d.hooks.reopen.Store(nil)
	eventually(t, "the store goes on", func() bool { return d.Health(t.Context()) == nil })
}

func TestOutage(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]func(func() error) error{"nothing written": nothingWritten, "all written": allWritten} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openIn(t, inFolder(t.TempDir()))
			ctx := t.Context()
			settled, released, held := begun(t, d, "k"), begun(t, d, "k"), begun(t, d, "k")

			broken(d, failure)
			lost := call("k")
			_, err := d.Begin(ctx, lost)
			wantError(t, err, pay.ErrUnavailable)
			wantError(t, err, errDisk)
			wantError(t, d.Health(ctx), pay.ErrUnavailable)

			// What is already under way goes on, although not even reading works.
			eventually(t, "the file is closed", func() bool {
				_, err := d.Payment(ctx, held.ID)
				return errors.Is(err, pay.ErrUnavailable)
			})
			o := settlement(settled)
			p, fx, err := d.Record(ctx, o)
			wantError(t, err, pay.ErrQueued)
			if p.State != pay.Settled || p.EventID != o.EventID || fx.Event == nil {
				t.Fatalf("promised %+v", p)
			}
			_, _, err = d.Record(ctx, pay.Outcome{PaymentID: released.ID, Fence: 1, At: noon, Verdict: pay.VerdictVoid})
			wantError(t, err, pay.ErrQueued)
			p, _, err = d.Record(ctx, pay.Outcome{PaymentID: released.ID, Fence: 1, At: noon, Release: true})
			wantError(t, err, pay.ErrQueued)
			if p.State != pay.Void || p.Lease.Owner != "" {
				t.Fatalf("promised %+v", p)
			}
			_, _, err = d.Record(ctx, pay.Outcome{PaymentID: released.ID, Fence: 1, At: noon, Verdict: pay.VerdictVoid})
			wantError(t, err, pay.ErrLeaseLost)

			// A lease is extended in memory, under the right fence only.
			for i := range 3 {
				if err := d.Renew(ctx, held.ID, 1, noon.Add(time.Duration(i)*time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
			wantError(t, d.Renew(ctx, held.ID, 2, noon), pay.ErrLeaseLost)
			wantError(t, d.Renew(ctx, settled.ID, 1, noon), pay.ErrLeaseLost)

			_, err = d.Begin(ctx, call("k"))
			wantError(t, err, pay.ErrUnavailable)
			_, err = d.Acquire(ctx, released.ID, "node", noon, noon)
			wantError(t, err, pay.ErrUnavailable)
			_, err = d.Lapse(ctx, noon.Add(time.Hour), nil)
			wantError(t, err, pay.ErrUnavailable)

			repaired(t, d)
			checked(t, d)
			for id, want := range map[string]pay.State{settled.ID: pay.Settled, released.ID: pay.Void, held.ID: pay.Open} {
				if p, err := d.Payment(ctx, id); err != nil || p.State != want {
					t.Errorf("%s is %s, want %s (%v)", id, p.State, want, err)
				}
			}
			events, err := d.SpendEvents(ctx, "k", pay.SpendQuery{Limit: 10})
			if err != nil || len(events) != 1 || events[0].ID != o.EventID {
				t.Errorf("events %v, %v", events, err)
			}
			if n, err := d.Lapse(ctx, noon.Add(time.Hour), nil); err != nil || n != 0 {
				t.Errorf("%d leases lapsed although renewed, %v", n, err)
			}
			// The call that heard of an error has no payment that could still be sent.
			if p, err := d.Payment(ctx, lost.New.ID); !errors.Is(err, pay.ErrPaymentNotFound) && (err != nil || p.State != pay.Void || p.Lease.Owner != "") {
				t.Errorf("the lost call left %+v, %v", p, err)
			}
			if _, err := d.Begin(ctx, lost); name == "nothing written" && err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFailingOutcome loses the commit of the outcome itself.
func TestFailingOutcome(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]func(func() error) error{"nothing written": nothingWritten, "all written": allWritten} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openIn(t, inFolder(t.TempDir()))
			ctx := t.Context()
			p, q := begun(t, d, "k"), begun(t, d, "k")
			broken(d, failure)
			noted := pay.Outcome{PaymentID: q.ID, Fence: 1, At: noon, Note: "seen", Checked: true}
			_, _, err := d.Record(ctx, noted)
			wantError(t, err, pay.ErrQueued)
			promised, _, err := d.Record(ctx, settlement(p))
			wantError(t, err, pay.ErrQueued)
			repaired(t, d)
			got, err := d.Payment(ctx, p.ID)
			if err != nil || got.State != pay.Settled || got.EventID != promised.EventID {
				t.Errorf("%+v, %v", got, err)
			}
			got, err = d.Payment(ctx, q.ID)
			if err != nil || len(got.Notes) != 1 || got.Checks != 1 {
				t.Errorf("noted %d times, looked %d times, %v", len(got.Notes), got.Checks, err)
			}
			checked(t, d)
		})
	}
}

// TestFailingRenewal loses the commit of a renewal, which reached the disk all the same.
func TestFailingRenewal(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	ctx := t.Context()
	p := begun(t, d, "k")
	broken(d, allWritten)
	for _, until := range []time.Time{noon.Add(time.Hour), noon.Add(2 * time.Hour)} {
		if err := d.Renew(ctx, p.ID, 1, until); err != nil {
			t.Fatal(err)
		}
	}
	promised, _, err := d.Record(ctx, pay.Outcome{PaymentID: p.ID, Fence: 1, At: noon, Note: "seen"})
	wantError(t, err, pay.ErrQueued)
	if !promised.Lease.Until.Equal(noon.Add(2 * time.Hour)) {
		t.Errorf("promised lease %+v", promised.Lease)
	}
	repaired(t, d)
	got, err := d.Payment(ctx, p.ID)
	if err != nil || !got.Lease.Until.Equal(noon.Add(2*time.Hour)) {
		t.Errorf("lease %+v, %v", got.Lease, err)
	}
	checked(t, d)
	if _, _, err := d.Record(ctx, settlement(p)); err != nil {
		t.Fatal(err)
	}
	checked(t, d)
}

func TestClaimsDuringAnOutage(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	ctx := t.Context()
	p, q := begun(t, d, "k"), begun(t, d, "k")
	broken(d, nothingWritten)
	claim := func(p *pay.Payment) error {
		o := settlement(p)
		o.Transaction, o.ClaimedTransaction = "0xAB", true
		_, _, err := d.Record(ctx, o)
		return err
	}
	wantError(t, claim(p), pay.ErrQueued)
	wantError(t, claim(q), pay.ErrTransactionKnown)
	repaired(t, d)
	wantError(t, claim(q), pay.ErrTransactionKnown)
	if _, err := d.Begin(ctx, call("k")); err != nil {
		t.Fatal(err)
	}
	checked(t, d)
}

func TestClosingDuringAnOutage(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	p := begun(t, d, "k")
	broken(d, nothingWritten)
	_, _, err := d.Record(t.Context(), settlement(p))
	wantError(t, err, pay.ErrQueued)
	wantError(t, d.Close(), errDisk)
	openIn(t, o) // the file is free
}

func TestClosingWritesWhatItCan(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	p := begun(t, d, "k")
	broken(d, nothingWritten)
	_, _, err := d.Record(t.Context(), settlement(p))
	wantError(t, err, pay.ErrQueued)
	d.hooks.commit.Store(nil)
	d.hooks.reopen.Store(nil)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openIn(t, o)
	got, err := d.Payment(t.Context(), p.ID)
	if err != nil || got.State != pay.Settled {
		t.Errorf("%+v, %v", got, err)
	}
	checked(t, d)
}

// TestVanishedFile: an empty file in place of the lost one would forget every payment.
func TestVanishedFile(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	p := begun(t, d, "k")
	broken(d, nothingWritten)
	_, err := d.Begin(t.Context(), call("k"))
	wantError(t, err, pay.ErrUnavailable)
	if err := os.Rename(o.Path, o.Path+".away"); err != nil {
		t.Fatal(err)
	}
	d.hooks.commit.Store(nil)
	d.hooks.reopen.Store(nil)
	eventually(t, "the store looks for its file", func() bool { return errors.Is(d.Health(t.Context()), os.ErrNotExist) })
	if _, err := os.Stat(o.Path); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("a new file was made")
	}
	other := inFolder(t.TempDir())
	if err := openIn(t, other).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other.Path, o.Path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the store looks at the other file", func() bool { return !errors.Is(d.Health(t.Context()), os.ErrNotExist) })
	wantError(t, d.Health(t.Context()), pay.ErrUnavailable)
	if err := os.Rename(o.Path+".away", o.Path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the store goes on", func() bool { return d.Health(t.Context()) == nil })
	if _, err := d.Payment(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
}

// TestReadingWhileReopening reads through many outages at once.
func TestReadingWhileReopening(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	ctx := t.Context()
	p := begun(t, d, "k")
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := d.Payment(ctx, p.ID); err != nil && !errors.Is(err, pay.ErrUnavailable) {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 5 {
		failure := nothingWritten
		d.hooks.commit.Store(&failure)
		_, err := d.Begin(ctx, call("k"))
		wantError(t, err, pay.ErrUnavailable)
		d.hooks.commit.Store(nil)
		d.hooks.reopen.Store(nil)
		// The first attempt may have met the failing commit; then it is tried again.
		eventually(t, "the store goes on", func() bool { return d.Health(ctx) == nil })
	}
	close(done)
	readers.Wait()
	checked(t, d)
}

func TestCheckFindsDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(tx *bbolt.Tx) error{
		"counter": func(tx *bbolt.Tx) error {
			return tx.Bucket(countersBucket).Put([]byte(pay.PlaceCounter("key/k", noon)), []byte("7"))
		},
		"counter of nothing": func(tx *bbolt.Tx) error { return tx.Bucket(countersBucket).Put([]byte("x"), []byte("1")) },
		"counter gone": func(tx *bbolt.Tx) error {
			return tx.Bucket(countersBucket).Delete([]byte(pay.PlaceCounter("key/k", noon)))
		},
		"label count": func(tx *bbolt.Tx) error { return tx.Bucket(labelCountsBucket).Put([]byte("open"), []byte("9")) },
		"entry gone": func(tx *bbolt.Tx) error {
			k, _ := tx.Bucket(keyPaymentsBucket).Cursor().First()
			return tx.Bucket(keyPaymentsBucket).Delete(k)
		},
		"entry too many": func(tx *bbolt.Tx) error { return tx.Bucket(dueBucket).Put(joinKey(encodeTime(noon), "x"), nil) },
		"event gone": func(tx *bbolt.Tx) error {
			k, _ := tx.Bucket(eventsBucket).Cursor().First()
			return tx.Bucket(eventsBucket).Delete(k)
		},
		"event of no payment": func(tx *bbolt.Tx) error {
			row := codec.EncodeEvent(&pay.SpendEvent{ID: "e", KeyID: "k", PaymentID: "x"})
			return tx.Bucket(eventsBucket).Put(joinKey("k", "e"), row)
		},
		"transaction of no payment": func(tx *bbolt.Tx) error { return tx.Bucket(transactionsBucket).Put([]byte("0x1"), []byte("x")) },
		"row unreadable": func(tx *bbolt.Tx) error {
			k, _ := tx.Bucket(paymentsBucket).Cursor().First()
			return tx.Bucket(paymentsBucket).Put(k, []byte("?"))
		},
		"secret unreadable": func(tx *bbolt.Tx) error { return tx.Bucket(walletSecretsBucket).Put([]byte("w"), []byte("secret")) },
		"wallet not listed": func(tx *bbolt.Tx) error {
			row, _ := encodeRow(pay.Wallet{ID: "w", KeyID: "k"})
			return tx.Bucket(walletsBucket).Put([]byte("w"), row)
		},
		"key without hash": func(tx *bbolt.Tx) error {
			row, _ := encodeRow(pay.Key{ID: "k"})
			return tx.Bucket(keysBucket).Put([]byte("k"), row)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := inFolder(t.TempDir())
			d := openIn(t, o)
			begun(t, d, "k")
			if _, _, err := d.Record(t.Context(), settlement(begun(t, d, "k"))); err != nil {
				t.Fatal(err)
			}
			checked(t, d)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d = openIn(t, o) // ends the leases first, as damaged rows could not be
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			inside(t, o.Path, damage)
			if err := openIn(t, o).Check(t.Context()); err == nil {
				t.Error("the damage was not found")
			}
		})
	}
}
