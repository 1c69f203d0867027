package pgstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/purserpay/purser/internal/failpoint"
)

const (
	// lookEvery is the interval at which a node reads the database's clock.
	lookEvery = 2 * time.Second
	// lookTime bounds one reading.
	lookTime = 5 * time.Second
	// maxDrift bounds how far two clocks that run by themselves part in a second.
	maxDrift = 200 * time.Microsecond
)

// sight is one reading of the database's clock: at the local time at it was base, and wrong by at most
// bound.
type sight struct {
	at, base time.Time
	bound    time.Duration
}

// clock tells the database's time by this node's monotonic clock. Leases count by it, so that nodes
// whose own clocks differ agree when one ends.
type clock struct {
	local func() time.Time

	mu   sync.RWMutex
	last sight
}

// now returns the database's time. Before the first reading it is the local one.
func (c *clock) now() time.Time {
	local := c.local()
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.last.at.IsZero() {
		return local
	}
	return c.last.base.Add(local.Sub(c.last.at))
}

// saw takes a reading that was asked for at sent and had arrived at received. The database read its clock
// in between. A reading that took longer than an earlier one counts only if it contradicts that: another
// server has taken over, or a clock was set.
func (c *clock) saw(sent, received, base time.Time) {
	half := received.Sub(sent) / 2
	if half < 0 {
		return // the local clock was set back meanwhile
	}
	s := sight{at: sent.Add(half), base: base, bound: half}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.at.IsZero() || s.bound <= c.last.boundAt(s.at) || c.last.tells(s.at).Sub(base).Abs() > c.last.boundAt(s.at)+s.bound {
		c.last = s
	}
}

// tells returns the database's time at a local time.
func (s sight) tells(at time.Time) time.Time { return s.base.Add(at.Sub(s.at)) }

// boundAt returns by how much a reading may be wrong at a later local time.
func (s sight) boundAt(at time.Time) time.Duration {
	return s.bound + time.Duration(max(0, at.Sub(s.at).Seconds())*float64(maxDrift))
}

// offset returns how far the database's clock is ahead of the local wall clock, and by how much that may
// be wrong.
func (c *clock) offset() (ahead, bound time.Duration) {
	local := c.local()
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.last.at.IsZero() {
		return 0, 0
	}
	return c.last.tells(local).Round(0).Sub(local.Round(0)), c.last.boundAt(local)
}

// Now tells the database's time. Payers on this store must have it as their clock: then a lease ends for
// all nodes at once, however far their own clocks are apart.
func (d *DB) Now() time.Time { return d.time.now() }

// look reads the database's clock, the lowest schema that nodes must know, and whether it is the same database.
func (d *DB) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	acquired := false
	err := d.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		acquired = true
		var base time.Time
		var minimum, id []byte
		var found int
		list := d.answered.list(d.Now())
		sent := d.time.local()
		err := c.QueryRow(ctx, `SELECT clock_timestamp(), (SELECT value FROM settings WHERE name = $2), q.id, q.n FROM `+storeNow+` q`, idsOf(list), settingMinimum).Scan(&base, &minimum, &id, &found)
		switch {
		case err == nil:
			d.time.saw(sent, d.time.local(), base.Add(failpoint.Ahead()))
			return errors.Join(d.recognizes(id, found, len(list)), d.sawMinimum(ctx, minimum))
		case tablesGone(err):
			return &downError{DownReplaced}
		case c.Conn().IsClosed():
			return &lostConnection{err}
		}
		return err
	})
	if use := d.pool.Stat(); err != nil && !acquired && ctx.Err() != nil && use.AcquiredConns() == use.MaxConns() {
		return nil // others use all connections, and find out themselves how the database is
	}
	return err
}

// watch looks at the database until the store is closed. So an outage is known before a payment meets it.
func (d *DB) watch(ctx context.Context) {
	defer d.background.Done()
	next := time.NewTicker(lookEvery)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		if d.outage.down() != "" { // see mend
			continue
		}
		if err := d.answered.sync(); err != nil {
			d.log.WarnContext(ctx, "store: the newest batches are not on the disk of this node", "error", err)
		}
		err := d.look(ctx)
		if err != nil && ctx.Err() == nil {
			err = d.look(ctx) // the connection may have been an old one
		}
		if err == nil {
			err = d.meetNodes(ctx)
		}
		if class := downClass(err); class != "" && ctx.Err() == nil {
			d.fail(ctx, class, err)
		}
	}
}
