package boltstore

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
)

func TestStats(t *testing.T) {
	t.Parallel()
	free := uint64(1 << 30)
	d, err := Open(t.Context(), Options{
		Path: filepath.Join(t.TempDir(), "purser.db"), MasterKey: vault.Given(vault.MasterKey{1}),
		FreeSpace: func(string) (uint64, error) { return free, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	stats := func() Stats {
		t.Helper()
		s, err := d.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := stats(); !s.OldestOpen.IsZero() || s.FileBytes == 0 || *s.FreeBytes != free || s.MinFreeBytes != defaultMinFree || s.Queued+s.Kept != 0 {
		t.Errorf("%+v", s)
	}
	var rows []*pay.Payment
	for range 3 {
		rows = append(rows, begun(t, d, "k"))
		time.Sleep(2 * time.Millisecond) // ids are of milliseconds
	}
	record := func(p *pay.Payment, o pay.Outcome) {
		t.Helper()
		o.PaymentID, o.Fence, o.At = p.ID, p.Lease.Fence, noon
		if _, _, err := d.Record(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	first := stats().OldestOpen
	if age := time.Since(first); age < 0 || age > time.Minute {
		t.Errorf("the oldest is of %s", first)
	}
	record(rows[0], pay.Outcome{Verdict: pay.VerdictUnresolved}) // unresolved: nothing will close it
	second := stats().OldestOpen
	if !second.After(first) {
		t.Errorf("the oldest is of %s still", second)
	}
	record(rows[1], pay.Outcome{Verdict: pay.VerdictRefused})
	if third := stats().OldestOpen; !third.After(second) {
		t.Errorf("the oldest is of %s still", third)
	}
	record(rows[2], settlement(rows[2]))
	s := stats()
	if !s.OldestOpen.IsZero() || s.Flushes.Count < 6 || s.Flushes.Time <= 0 || s.JournalBytes <= 0 {
		t.Errorf("%+v", s)
	}
	snapshot, err := d.snapshot(t.Context()) // after a checkpoint
	if err != nil {
		t.Fatal(err)
	}
	if err := snapshot.Rollback(); err != nil {
		t.Fatal(err)
	}
	if then := stats(); then.JournalBytes != 0 || then.Checkpoints.Count != s.Checkpoints.Count+1 || then.Checkpoints.Time <= s.Checkpoints.Time {
		t.Errorf("%+v, and before a checkpoint %+v", then, s)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Stats(t.Context()); !errors.Is(err, pay.ErrUnavailable) {
		t.Errorf("a closed store: %v", err)
	}
}
