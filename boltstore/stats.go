package boltstore

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// Stats holds readings of a store for metrics. They cost a few seeks, whatever the store holds.
type Stats struct {
	// Queued counts operations that wait for the committer, Kept changes that wait for the end of
	// an outage.
	Queued, Kept int
	FileBytes    int64
	// FreeBytes is the free disk space of the folder, nil if the system does not tell. Below
	// MinFreeBytes no payment begins.
	FreeBytes    *uint64
	MinFreeBytes uint64
	// OldestOpen is the begin of the oldest open payment that is neither refused nor unresolved;
	// evidence should close it. Zero: there is none.
	OldestOpen time.Time
	// JournalBytes counts what the journal has and the database lacks. The next checkpoint brings it
	// there.
	JournalBytes int64
	// Flushes of the journal and Checkpoints, since this process opened the store.
	Flushes, Checkpoints Effort
	// Removed counts the payments that retention has removed since then.
	Removed uint64
}

// Effort says how often something was done, and how long that took together.
type Effort struct {
	Count uint64
	Time  time.Duration
}

// meters hold the readings that only the goroutine whose turn it is knows.
type meters struct {
	journaled            atomic.Int64
	flushes, checkpoints effort
	removed              atomic.Uint64
}

type effort struct {
	count atomic.Uint64
	time  atomic.Int64
}

// done counts what began at a time and is over.
func (e *effort) done(began time.Time) {
	e.count.Add(1)
	e.time.Add(int64(time.Since(began)))
}

func (e *effort) read() Effort { return Effort{e.count.Load(), time.Duration(e.time.Load())} }

// Stats takes the readings: pay.ErrUnavailable while the file cannot be read.
func (d *DB) Stats(ctx context.Context) (Stats, error) {
	s := Stats{
		Queued: len(d.ops), MinFreeBytes: d.disk.min, JournalBytes: d.meters.journaled.Load(),
		Flushes: d.meters.flushes.read(), Checkpoints: d.meters.checkpoints.read(), Removed: d.meters.removed.Load(),
	}
	if t := d.health.Load(); t != nil {
		s.Kept = t.queued
	}
	if free, err := d.disk.read(d.disk.dir); err == nil {
		s.FreeBytes = &free
	}
	err := d.view(ctx, func(tx *bbolt.Tx) error {
		s.FileBytes = tx.Size()
		s.OldestOpen = oldest(tx, codec.LabelBits(string(pay.Open)), codec.LabelBits("refused", "unresolved"))
		return nil
	})
	return s, err
}

// oldest returns the begin of the first payment that has all of some labels and none of others.
// It reads the time from the id, a UUIDv7.
func oldest(tx *bbolt.Tx, with, without uint16) (first time.Time) {
	c := tx.Bucket(labelledBucket).Cursor()
	for _, set := range labelSets(tx, with, without) {
		prefix := setPrefix(set)
		k, _ := c.Seek(prefix)
		if !bytes.HasPrefix(k, prefix) {
			continue
		}
		id, err := uuid.ParseBytes(k[len(prefix):])
		if err != nil {
			continue
		}
		if at := time.Unix(id.Time().UnixTime()); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}
