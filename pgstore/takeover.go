package pgstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// takeoverTime bounds the wait of new payments after another server has taken over. If that lacks commits, the node that
// had made them may be another one. Within this time it has seen so, and has told all: see answered.go. An idle node looks
// every lookEvery.
const takeoverTime = 5 * time.Second

// takeover knows the server of the database by its timeline. Each promotion of a standby begins a new one.
type takeover struct {
	mu       sync.Mutex
	timeline string // "": none is known
	until    time.Time
}

// over ends the wait: the loss is known.
func (t *takeover) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = time.Time{}
}

// saw reports whether another server took over less than takeoverTime ago.
func (t *takeover) saw(timeline string, now time.Time) (waits, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if first = t.timeline != "" && t.timeline != timeline; first {
		t.until = now.Add(takeoverTime)
	}
	t.timeline = timeline
	return now.Before(t.until), first
}

// sees reads the timeline: DownTakeover while new payments must wait. A database without timelines never waits.
func (d *DB) sees(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
},
) error {
	var timeline string
	err := q.QueryRow(ctx, `SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)`).Scan(&timeline)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && !connectionLost(err): // a standby, or a database of another kind
		return nil
	case err != nil:
		return err
	}
	waits, first := d.takeover.saw(timeline, time.Now())
	if first {
		d.log.WarnContext(ctx, "store: another server has taken over the database: new payments wait until all nodes have looked whether it lacks commits",
			"timeline", timeline, "for", takeoverTime)
	}
	if waits {
		return &downError{DownTakeover}
	}
	return nil
}
