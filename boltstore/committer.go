package boltstore

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
)

// maxBatch bounds the operations of one transaction. It also bounds the work that is repeated
// when one operation spoils the transaction.
const maxBatch = 256

var errClosed = fmt.Errorf("%w: store is closed", pay.ErrUnavailable)

// op holds one atomic operation on its way through the committer.
type op struct {
	// run validates first, then writes. It may run more than once, each time from scratch.
	run func(*batch) error
	// duringOutage runs instead while the store cannot write; nil: pay.ErrUnavailable.
	duringOutage func(cause error) error
	// outlivesCaller keeps the operation in the queue after its caller has left.
	outlivesCaller bool
	// granted holds the row whose lease run gave away; created reports a new row. If the commit
	// fails, the committer ends that lease, because its caller hears of an error.
	granted *pay.Payment
	created bool

	state  atomic.Int32
	answer func(error)
}

// States of an op. A caller can leave only before the committer has taken it.
const (
	waiting int32 = iota
	taken
	left
)

// do queues an operation and waits until it is durable. If its caller leaves before the committer
// has taken it, the operation is dropped, unless it outlives its caller. Later the caller waits,
// because a commit is short.
func (d *DB) do(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil && !o.outlivesCaller {
		return err
	}
	answers := make(chan error, 1)
	o.answer = func(err error) { answers <- err }
	leaves := ctx.Done()
	if o.outlivesCaller {
		leaves = nil // the queue is never full for long
	}
	select {
	case d.ops <- o:
	case <-leaves:
		return ctx.Err()
	case <-d.finished:
		return errClosed
	}
	select {
	case err := <-answers:
		return err
	case <-d.finished:
	case <-ctx.Done():
		if o.outlivesCaller || o.state.CompareAndSwap(waiting, left) {
			return ctx.Err()
		}
		select {
		case err := <-answers:
			return err
		case <-d.finished:
		}
	}
	select {
	case err := <-answers:
		return err
	default:
		return errClosed // too late for the committer's last round
	}
}

// commitLoop runs the committer: the only goroutine that writes.
func (d *DB) commitLoop() {
	defer close(d.finished)
	for {
		select {
		case first := <-d.ops:
			d.serve(d.drain(first))
		case <-d.retry():
			d.resume()
		case <-d.closing:
			d.finish()
			return
		}
	}
}

// drain takes the other operations that are queued, up to maxBatch.
func (d *DB) drain(first *op) []*op {
	ops := []*op{first}
	for len(ops) < maxBatch {
		select {
		case o := <-d.ops:
			ops = append(ops, o)
		default:
			return ops
		}
	}
	return ops
}

// serve writes the operations whose callers are still there. During an outage it answers them.
func (d *DB) serve(ops []*op) {
	live := ops[:0]
	for _, o := range ops {
		if o.state.CompareAndSwap(waiting, taken) {
			live = append(live, o)
		}
	}
	if d.outage == nil {
		unwritten, err := d.write(live)
		if err == nil {
			return
		}
		d.beginOutage(err)
		d.undo(unwritten)
		live = unwritten
	}
	for _, o := range live {
		d.answerDown(o)
	}
}

// write makes operations durable and answers them. When a commit fails, it returns the operations
// that have no answer.
func (d *DB) write(ops []*op) ([]*op, error) {
	spoiled, err := d.attempt(ops)
	if err != nil {
		return ops, err
	}
	for i := 0; spoiled && i < len(ops); i++ {
		if _, err := d.attempt(ops[i : i+1]); err != nil {
			return ops[i:], err
		}
	}
	return nil, nil
}

// attempt runs operations in one transaction. An operation that fails before its first write
// fails alone. One that fails later spoils the transaction: everything is rolled back, and no
// operation gets an answer unless it is the only one. The error is a failed commit.
func (d *DB) attempt(ops []*op) (spoiled bool, err error) {
	if len(ops) == 0 {
		return false, nil
	}
	tx, err := d.bolt.Begin(true)
	if err != nil {
		return false, fmt.Errorf("begin transaction: %w", err)
	}
	// After a commit or rollback this does nothing.
	defer func() { _ = d.guard(tx.Rollback) }()

	b := newBatch(tx, d.leased)
	results := make([]error, len(ops))
	for i, o := range ops {
		b.wrote, o.granted, o.created = false, nil, false
		results[i] = d.guard(func() error { return o.run(b) })
		if results[i] == nil || !b.wrote {
			continue
		}
		d.log.Error("store: operation failed after its first write, rolled back", "error", results[i])
		if len(ops) == 1 {
			o.answer(results[0])
		}
		return len(ops) > 1, nil
	}
	if b.changed {
		if failpoint.Off(failpoint.Journal) {
			answer(ops, results)
			ops = nil
			time.Sleep(failpoint.Lateness)
		}
		n := uint64(tx.ID())
		failpoint.Here(failpoint.StoreCommitting)
		if err := d.guard(func() error { return d.commit(tx) }); err != nil {
			return false, fmt.Errorf("commit: %w", err)
		}
		failpoint.Here(failpoint.StoreCommitted)
		d.reached(n, false)
		b.publish(d.leased)
	}
	answer(ops, results)
	return false, nil
}

func answer(ops []*op, results []error) {
	for i, o := range ops {
		o.answer(results[i])
	}
}

func (d *DB) commit(tx *bbolt.Tx) error {
	if err := d.checkInPlace(); err != nil {
		return err
	}
	if hook := d.hooks.commit.Load(); hook != nil {
		return (*hook)(tx.Commit)
	}
	return tx.Commit()
}

// guard turns a panic into an error, because a bug in one operation must not end the others.
func (d *DB) guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("store: panic", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic in the store: %v", p)
		}
	}()
	return f()
}

// finish serves the operations that are queued and closes the file.
func (d *DB) finish() {
	for {
		select {
		case o := <-d.ops:
			d.serve(d.drain(o))
			continue
		default:
		}
		break
	}
	if d.outage != nil {
		d.resume()
	}
	d.result = errors.Join(d.lostChanges(), d.closeFile())
}

// closeFile closes the file. It waits for readers, because bbolt does.
func (d *DB) closeFile() error {
	d.handle.Lock()
	defer d.handle.Unlock()
	if d.bolt == nil {
		return nil
	}
	bolt := d.bolt
	d.bolt = nil
	if err := bolt.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// view runs a read transaction. It must be short and must not wait for anything. Values from it
// are invalid afterwards.
func (d *DB) view(ctx context.Context, read func(*bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.handle.RLock()
	defer d.handle.RUnlock()
	if d.bolt == nil {
		return fmt.Errorf("%w: the file is not open", pay.ErrUnavailable)
	}
	return d.bolt.View(read)
}
