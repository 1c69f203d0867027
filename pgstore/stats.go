package pgstore

import (
	"sync/atomic"
	"time"
)

// Stats holds readings of a store for metrics. They cost nothing.
type Stats struct {
	// Down holds the class of the cause for which nothing can be written: see the constants of Down. "":
	// new payments are made.
	Down string
	// Since is the time from which on nothing could be written. Zero: it can.
	Since time.Time
	// Queued counts the outcomes that wait for the database.
	Queued int
	// Unsaved: outcomes that wait are in memory alone, because their file cannot be written.
	Unsaved bool

	// Batches and Operations count what the committer wrote since the store was opened, Repeats the
	// batches that were tried again.
	Batches, Operations, Repeats uint64
	// BatchTime is the time of all batches together.
	BatchTime time.Duration
	// LockTime is the part of BatchTime until the locks were had and the first questions answered.
	LockTime time.Duration

	// Connections counts those in use, of MaxConnections.
	Connections, MaxConnections int

	// ClockAhead is the database's clock less this node's, and is wrong by ClockBound at most.
	ClockAhead, ClockBound time.Duration
	// Listening: other nodes wake this one's callers. Otherwise callers look again and again.
	Listening bool
}

// Classes of causes in Stats.Down.
const (
	DownAway        = "away"        // no connection, or it was lost
	DownHangs       = "hangs"       // no answer in time
	DownReadOnly    = "read_only"   // a standby, or an administrator's setting
	DownFull        = "full"        // of its disk
	DownConnections = "connections" // all are taken
	DownStarting    = "starting"    // it starts or shuts down
	DownRefused     = "refused"     // anything else that the database says
	DownOld         = "old"         // the database wants a newer purser
	DownLost        = "lost"        // it lacks what this node has written; see answered.go
	DownTakeover    = "takeover"    // another server has taken over a moment ago; see takeover.go
	DownReplaced    = "replaced"    // another store stands in its place
)

// meters count what the committer does.
type meters struct {
	batches, operations, repeats atomic.Uint64
	batchTime, lockTime          atomic.Int64
}

// Stats reads the meters.
func (d *DB) Stats() Stats {
	use, writes := d.pool.Stat(), d.writers.Stat()
	s := Stats{
		Batches: d.meters.batches.Load(), Operations: d.meters.operations.Load(), Repeats: d.meters.repeats.Load(),
		BatchTime: time.Duration(d.meters.batchTime.Load()), LockTime: time.Duration(d.meters.lockTime.Load()),
		Connections: int(use.AcquiredConns() + writes.AcquiredConns()), MaxConnections: int(use.MaxConns() + writes.MaxConns()),
	}
	s.Down, s.Since, s.Queued, s.Unsaved = d.outage.state()
	if s.Down == "" && d.old.Load() {
		s.Down = DownOld
	}
	s.Listening = d.bell.isListening()
	s.ClockAhead, s.ClockBound = d.time.offset()
	return s
}
