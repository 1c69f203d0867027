package pgstore

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// Waiting counts the ids that calls of this node wait for.
func (d *DB) Waiting() int {
	d.bell.mu.Lock()
	defer d.bell.mu.Unlock()
	return len(d.bell.waiting)
}

// LateAnswers counts the answers to announcements of a lease that this node has ended. They come at such times after its end.
func LateAnswers(times ...time.Duration) (n int, err error) {
	var b bell
	if err := b.start(); err != nil {
		return 0, err
	}
	b.leaseEnded("first")
	began := time.Now()
	for _, at := range times {
		time.Sleep(at - time.Since(began))
		b.leaseEnded("another")
		b.hear(channelWaits, "first")
	}
	return len(b.send), nil
}

// Committed finds out whether a batch whose answer was lost is in the database.
func (d *DB) Committed(ctx context.Context, id uuid.UUID) (bool, error) { return d.committed(ctx, id) }

// Queued counts what waits for the next batch.
func (d *DB) Queued() int { return len(d.queue.ops) }

// AnswerDown keeps an outcome as the committer does that has seen an outage.
func (d *DB) AnswerDown(ctx context.Context, out pay.Outcome) error {
	o := &op{answer: make(chan error, 1)}
	o.keep = func(ctx context.Context) (*pay.Payment, pay.Outcome, error) {
		p, _, err := d.keepOutcome(ctx, out)
		return p, out, err
	}
	d.answerDown(ctx, []*op{o}, DownAway, uuid.Nil)
	return <-o.answer
}

// SynchronousCommit reads the setting of both pools.
func (d *DB) SynchronousCommit(ctx context.Context) string {
	return d.ofBoth(ctx, `SHOW synchronous_commit`)
}

// ofBoth reads a text on both pools.
func (d *DB) ofBoth(ctx context.Context, query string) (list string) {
	for _, p := range []*pgxpool.Pool{d.pool, d.writers} {
		var is string
		if err := p.QueryRow(ctx, query).Scan(&is); err != nil {
			is = err.Error()
		}
		list += is + " "
	}
	return list
}

// Plans returns how a query runs on the connections of both pools.
func (d *DB) Plans(ctx context.Context, query string) (readers, writers string, err error) {
	plan := func(p *pgxpool.Pool) string {
		rows, queryErr := p.Query(ctx, `EXPLAIN `+query)
		lines, rowsErr := pgx.CollectRows(rows, pgx.RowTo[string])
		err = errors.Join(err, queryErr, rowsErr)
		return strings.Join(lines, "\n")
	}
	readers, writers = plan(d.pool), plan(d.writers)
	return readers, writers, err
}

// QueueNothing queues an operation that changes nothing. receive tells the queue that the caller has the answer.
func (d *DB) QueueNothing(keyID string) (answer <-chan error, receive func()) {
	o := &op{locks: []string{keyLock(keyID)}, run: func(*state) error { return nil }, answer: make(chan error, 1)}
	d.queue.ops <- o
	return o.answer, func() { _ = o.received(nil) }
}

// FlushBy sets the statement that makes commits durable.
func (d *DB) FlushBy(statement string) { d.flush = statement }

// FlushesBehind reports whether batches flush behind their commits.
func (d *DB) FlushesBehind() bool { return d.flushes.Load() }

// Counters lists the counters of the database, above zero or not.
func (d *DB) Counters(ctx context.Context) (list []codec.CounterValue, err error) {
	err = visitCounters(ctx, d.pool, "", "", func(v codec.CounterValue) error {
		list = append(list, v)
		return nil
	})
	return list, err
}

// AskEverything returns the statement that asks all kinds of questions at once.
func (d *DB) AskEverything() string {
	all := make([]byte, kinds)
	for k := range all {
		all[k] = byte(k)
	}
	return d.reads.text(all)
}

// ConfigOf reads a URL as Open does.
func ConfigOf(databaseURL string) (*pgxpool.Config, error) { return parse(databaseURL) }

// AgeAnswered makes the batches in the file of a folder older.
func AgeAnswered(t testing.TB, dir string, by time.Duration) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "answered-*.mark"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%v, %v", paths, err)
	}
	var a answered
	store := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(paths[0]), "answered-"), ".mark")
	err = a.open(dir, store)
	for slot, b := range a.newest {
		b.at = b.at.Add(-by)
		err = errors.Join(err, a.set(slot, b))
	}
	if err := errors.Join(err, a.close()); err != nil {
		t.Fatal(err)
	}
}

// LoseAnswered makes a node believe that it had heard of a batch before it was opened, which the database has lost.
func LoseAnswered(d *DB) {
	r, err := settingOf[pay.Restore](context.Background(), d.pool, settingReconciled)
	if err == nil {
		err = d.answered.set(keptSlot, toldBatch{id: uuid.Must(uuid.NewV7()), at: r.At.Add(-time.Millisecond)})
	}
	if err != nil {
		panic(err)
	}
}

// Limits reads the limits of the sessions of both pools.
func (d *DB) Limits(ctx context.Context) string {
	return d.ofBoth(ctx, `SELECT current_setting('lock_timeout') || '/' || current_setting('idle_in_transaction_session_timeout')`)
}

// Idle takes the lock of a key in a transaction, as a node that stops there, and ends it once meanwhile has returned.
func (d *DB) Idle(ctx context.Context, keyID string, meanwhile func()) error {
	return d.writers.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		tx, err := c.Begin(ctx)
		if err == nil {
			_, err = tx.Exec(ctx, takeLocks, bytesFrom([]string{keyLock(keyID)}))
		}
		if err != nil {
			return err
		}
		meanwhile()
		_ = tx.Rollback(ctx) // the database has ended it
		return nil
	})
}
