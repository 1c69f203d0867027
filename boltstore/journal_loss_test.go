package boltstore

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// A start that fails beside a lost journal does not make the next start forget the loss.
func TestLostJournalAndAFailingStart(t *testing.T) {
	t.Parallel()
	o, _ := unclean(t, 3)
	if err := os.Remove(JournalPath(o.Path)); err != nil {
		t.Fatal(err)
	}
	failing := at(o, time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)) // which has no text
	if d, err := Open(t.Context(), failing); err == nil {
		closed(t, d)
		t.Fatal("it started")
	}
	d := openIn(t, o)
	wantRefused(t, d)
	killed(t, d)
	wantRefused(t, openIn(t, o))
}

// An outage does not end while the journal is lost. The next start reconciles.
func TestJournalRemovedDuringAnOutage(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	begun(t, d, "k")
	var tries atomic.Int64
	reopen := func() error { tries.Add(1); return nil }
	d.hooks.reopen.Store(&reopen)
	fail := func(func() error) error {
		d.hooks.commit.Store(nil)
		return errors.Join(errors.New("no disk"), os.Remove(JournalPath(o.Path)))
	}
	d.hooks.commit.Store(&fail)
	_, err := d.Begin(t.Context(), call("k"))
	wantError(t, err, pay.ErrUnavailable)
	eventually(t, "some tries", func() bool { return tries.Load() > 3 || d.Health(t.Context()) == nil })
	if d.Health(t.Context()) == nil {
		t.Error("the outage has ended without the journal")
	}
	_ = d.Close()
	wantRefused(t, openIn(t, o))
}

// A panic in a checkpoint begins an outage, which ends.
func TestPanicInACheckpoint(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	p := begun(t, d, "k")
	err := d.do(t.Context(), &op{run: func(b *batch) error {
		b.tx.Bucket(metaBucket).InBucket = nil
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.snapshot(t.Context()); err == nil {
		t.Fatal("no panic")
	}
	eventually(t, "the store goes on", func() bool { return d.Health(t.Context()) == nil })
	if _, _, err := d.Record(t.Context(), settlement(p)); err != nil {
		t.Error(err)
	}
	checked(t, d)
}

// olderCopy puts an older copy of a running store in its place. Its epoch has several records, of
// which a later one has overwritten the first.
func olderCopy(t *testing.T) Options {
	t.Helper()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	plainCopy(t, o.Path, o.Path+".older")
	for range 3 {
		begun(t, d, "k")
	}
	checkpointed(t, d)
	begun(t, d, "k")
	killed(t, d)
	plainCopy(t, o.Path+".older", o.Path)
	return o
}

func TestOlderCopyOfAnEpochWithRecords(t *testing.T) {
	t.Parallel()
	wantRefused(t, openIn(t, olderCopy(t)))
}

// Compaction does not hide that a copy is older than the journal.
func TestOlderCopyIsNotCompacted(t *testing.T) {
	t.Parallel()
	o := olderCopy(t)
	if _, _, err := Compact(t.Context(), o.Path); err == nil {
		t.Error("it was compacted")
	}
	wantRefused(t, openIn(t, o))
}

// A journal that was made anew knows older copies.
func TestOlderCopyWithANewJournal(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	closed(t, openIn(t, o))
	plainCopy(t, o.Path, o.Path+".older")
	d := openIn(t, o)
	begun(t, d, "k")
	closed(t, d)
	if err := os.Remove(JournalPath(o.Path)); err != nil {
		t.Fatal(err)
	}
	closed(t, openIn(t, o))
	plainCopy(t, o.Path+".older", o.Path)
	wantRefused(t, openIn(t, o))
}

// A journal of an earlier time beside a database that was not closed cleanly stops the start.
func TestJournalOfAnEarlierTime(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	begun(t, d, "k")
	earlier := journalOf(t, o)
	checkpointed(t, d)
	begun(t, d, "k")
	killed(t, d)
	right := journalOf(t, o)
	putJournal(t, o, earlier)
	refused(t, o, ErrJournal, "earlier time")
	if r, err := CheckFile(t.Context(), o.Path, nil); err != nil || r.Err() == nil {
		t.Errorf("the check finds %v, %v", r.Faults, err)
	}
	putJournal(t, o, right)
	begun(t, openIn(t, o), "k")
}

// Text of a client that looks like a record, where an earlier epoch has left it, is none.
func TestForgedRecord(t *testing.T) {
	t.Parallel()
	o, ids := unclean(t, 2)
	journal := journalOf(t, o)
	forged := make([]byte, recordHead)
	completeRecord(forged, 1<<60, 1, 0)
	copy(journal[ends(t, o, journal)[1]+10*recordAlign:], forged)
	putJournal(t, o, journal)
	d := openIn(t, o)
	for _, id := range ids {
		if _, err := d.Payment(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	begun(t, d, "k")
}

// A process may die when the new journal has its name and nothing else has happened.
func TestNewJournalIsWhole(t *testing.T) {
	t.Parallel()
	j := &journalFile{path: filepath.Join(t.TempDir(), "x.journal"), store: "store", seed: journalSeed("store")}
	file, err := j.create(7)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := readJournal(j.path, "store", 7)
	if err != nil || !c.found || c.begun != 7 || c.fits(7) != nil || c.later(7) {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := os.Stat(j.path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Starts that end at any step leave a store that starts and is not reconciled.
func TestStartsThatEndEarly(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]bool{"killed": false, "closed, without its journal": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, ids := unclean(t, 3)
			if remove {
				closed(t, openIn(t, o))
				if err := os.Remove(JournalPath(o.Path)); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				if d, err := Open(t.Context(), at(o, time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC))); err == nil {
					closed(t, d)
					t.Fatal("it started")
				}
				var was epoch
				inside(t, o.Path, func(tx *bbolt.Tx) (err error) {
					was, err = epochIn(tx.Bucket(metaBucket))
					return err
				})
				j, err := openJournal(JournalPath(o.Path), storeID(t, o), was.number+1, false)
				if err == nil {
					err = j.close() // before the database enters the epoch
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			d := openIn(t, o)
			for _, id := range ids {
				if _, err := d.Payment(t.Context(), id); err != nil {
					t.Error(err)
				}
			}
			if r := restoreOf(t, d); r != nil {
				t.Errorf("%+v", r)
			}
			checked(t, d)
		})
	}
}
