package boltstore

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
)

// maxBatch bounds the operations of one batch.
const maxBatch = 256

var errClosed = fmt.Errorf("%w: store is closed", pay.ErrUnavailable)

// op holds one atomic operation on its way through the committer.
type op struct {
	// run validates first, then writes. What it wrote is undone when it fails.
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
	d.lead()
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

// lead writes what is queued, unless another goroutine is writing: that one sees to it. A caller
// that comes alone so waits for no other goroutine, which saves a tenth of BenchmarkPay with one.
func (d *DB) lead() {
	if failpoint.Off(failpoint.Journal) {
		d.wakeCommitter() // a caller that writes itself would wait for the journal all the same
		return
	}
	if !d.turn.TryLock() {
		return
	}
	defer d.endTurn()
	select {
	case first := <-d.ops:
		d.serve(d.drain(first))
	default:
	}
}

// endTurn leaves to the committer what came meanwhile. An operation that is queued after the look
// finds the turn free.
func (d *DB) endTurn() {
	if p := recover(); p != nil {
		// A server would survive a panic of its caller, with a working set that cannot be trusted.
		d.log.Error("store: panic", "panic", p, "stack", string(debug.Stack()))
		go panic(p)
		select {}
	}
	full := d.full()
	d.turn.Unlock()
	if full || len(d.ops) > 0 {
		d.wakeCommitter()
	}
}

// wakeCommitter makes the committer look at what is queued, soon.
func (d *DB) wakeCommitter() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// commitLoop runs the committer. It writes what callers have left to it, checkpoints and what waits
// for the end of an outage.
func (d *DB) commitLoop() {
	defer close(d.finished)
	for {
		select {
		case <-d.wake:
			d.inTurn(d.serveQueued)
		case answer := <-d.snapshots:
			d.inTurn(func() { answer <- d.takeSnapshot() })
		case <-d.aged.C:
			d.inTurn(d.renew)
		case <-d.retry.C:
			d.inTurn(d.resume)
		case <-d.closing:
			d.turn.Lock() // for ever: nothing is written any more
			d.finish()
			return
		}
	}
}

// inTurn waits for the committer's turn.
func (d *DB) inTurn(f func()) {
	d.turn.Lock()
	defer d.endTurn()
	f()
}

// serveQueued writes until nothing is queued.
func (d *DB) serveQueued() {
	for {
		d.checkpointWhenFull()
		select {
		case first := <-d.ops:
			d.serve(d.drain(first))
		default:
			return
		}
	}
}

// stoppedTimer returns a timer that is to be set.
func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
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

// write makes operations durable and answers them. When that fails, it returns them all: none has
// an answer, and the working set is as it was.
func (d *DB) write(ops []*op) ([]*op, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	d.handle.Lock()
	locked := true
	unlock := func() {
		if locked {
			locked = false
			d.handle.Unlock()
		}
	}
	defer unlock()
	if d.tx == nil {
		return ops, errors.New("there is no working set")
	}
	b := d.batch
	b.begin(d.tx, d.leased)
	results, err := d.run(b, ops)
	if err != nil {
		d.drop()
		return ops, err
	}
	if len(b.changes) == 0 {
		unlock()
		answer(ops, results)
		return nil, nil
	}
	if b.early() {
		unlock()
	}
	if failpoint.Off(failpoint.Journal) {
		unlock()
		answer(ops, results)
		ops = nil
		time.Sleep(failpoint.Lateness)
	}
	failpoint.Here(failpoint.StoreCommitting)
	first := d.journal.used() == 0
	err = d.commit(func() error { return d.appendBatch(b) })
	if err != nil && !locked {
		d.handle.Lock()
		locked = true
	}
	if errors.Is(err, errNoRoom) {
		first = false
		err = d.commit(func() error { return d.checkpoint(false) })
	}
	if err != nil {
		if d.tx != nil {
			if undone := d.guard(func() error { return b.undo(0) }); undone != nil {
				d.drop()
			}
		}
		return ops, fmt.Errorf("commit: %w", err)
	}
	failpoint.Here(failpoint.StoreCommitted)
	b.publish(d.leased)
	unlock()
	if first {
		d.aged.Reset(checkpointEvery())
	}
	answer(ops, results)
	return nil, nil
}

// appendBatch appends a batch to the journal and waits until it is durable.
func (d *DB) appendBatch(b *batch) error {
	r, began := b.encode(), time.Now()
	if err := d.journal.append(r); err != nil {
		return err
	}
	d.meters.flushes.done(began)
	d.meters.journaled.Store(d.journal.used())
	return nil
}

// run runs the operations of a batch, and undoes those that fail. The error tells that undoing has
// failed as well, so that the working set cannot be trusted.
func (d *DB) run(b *batch, ops []*op) (results []error, err error) {
	results = make([]error, len(ops))
	for i, o := range ops {
		from := len(b.changes)
		o.granted, o.created = nil, false
		results[i] = d.guard(func() error { return o.run(b) })
		if results[i] == nil || len(b.changes) == from {
			continue
		}
		d.log.Error("store: operation failed after its first write, undone", "error", results[i])
		if err := d.guard(func() error { return b.undo(from) }); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func answer(ops []*op, results []error) {
	for i, o := range ops {
		o.answer(results[i])
	}
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

// finish serves the operations that are queued and closes the files.
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
	d.aged.Stop()
	d.retry.Stop()
	d.result = errors.Join(d.lostChanges(), d.stop())
}
