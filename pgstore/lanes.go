package pgstore

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// lanes bounds the batches that a node writes at the same time. Operations that decide about the same
	// budget are in one lane, where they wait together instead of for each other.
	lanes = 2
	// maxBatch bounds the operations of one transaction.
	maxBatch = 256
	// maxRounds bounds the round trips in which a batch asks.
	maxRounds = 200
	// maxTries bounds the transactions of a batch that the database ends, or whose answer is lost.
	maxTries = 5
)

// lane queues operations and writes them, one batch after the other.
type lane struct {
	ops chan *op
	// again has operations that the last batch lacked locks for.
	again []*op
	// returning counts the callers that were answered and have not yet received it.
	returning sync.WaitGroup
}

// laneOf chooses the lane of operations with such locks: by the first one, because those that keys share
// come first.
func (d *DB) laneOf(locks []string) *lane {
	if len(locks) == 0 {
		return d.lanes[0]
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(slices.Min(locks))) // it never fails
	return d.lanes[h.Sum32()%lanes]
}

// commit writes what callers have queued, until the store is closed.
func (d *DB) commit() {
	defer close(d.finished)
	var all sync.WaitGroup
	for _, l := range d.lanes {
		all.Go(func() { d.commitLane(context.Background(), l) })
	}
	all.Wait()
}

// commitLane writes the batches of a lane. Each begins once the callers of the one before have their answers. Those that
// come back at once take part from the start.
func (d *DB) commitLane(ctx context.Context, l *lane) {
	for {
		l.returning.Wait()
		if len(l.again) > 0 {
			d.serve(ctx, l, l.drain(nil))
			continue
		}
		select {
		case first := <-l.ops:
			d.serve(ctx, l, l.drain(first))
		case <-d.closing:
			select { // what was queued before is done
			case first := <-l.ops:
				d.serve(ctx, l, l.drain(first))
			default:
				return
			}
		}
	}
}

// drain takes up to maxBatch operations: those that lacked locks, a first one unless it is nil, and what is queued.
func (l *lane) drain(first *op) (ops []*op) {
	list := l.again
	l.again = nil
	if first != nil {
		list = append(list, first)
	}
	for len(list) < maxBatch {
		select {
		case o := <-l.ops:
			list = append(list, o)
			continue
		default:
		}
		break
	}
	for _, o := range list {
		if o.take() {
			ops = append(ops, o)
		}
	}
	return ops
}

// serve makes operations durable and answers them, or keeps their outcomes.
func (d *DB) serve(ctx context.Context, l *lane, ops []*op) {
	if len(ops) == 0 {
		return
	}
	if class := d.outage.down(); class != "" {
		d.answerDown(ctx, ops, class, uuid.Nil)
		return
	}
	began := time.Now()
	b := &batch{DB: d, slot: slices.Index(d.lanes[:], l)}
	err := b.write(ctx, ops)
	d.meters.batches.Add(1)
	d.meters.operations.Add(uint64(len(ops)))
	d.meters.batchTime.Add(int64(time.Since(began)))
	class, mayBe := downClass(err), uuid.Nil
	if lost, is := errors.AsType[*lostCommit](err); is {
		mayBe = lost.batch
		if class == "" { // whatever the database says: the batch may be in it
			class = DownRefused
		}
	}
	if class != "" {
		d.fail(ctx, class, err)
		d.answerDown(ctx, ops, class, mayBe)
		return
	}
	if err != nil && len(ops) > 1 { // the database refuses one of them; the others must not fail with it
		for _, o := range ops {
			d.serve(ctx, l, []*op{o})
		}
		return
	}
	for i, o := range ops {
		switch {
		case err == nil && errors.Is(b.results[i], errLocks):
			o.state.Store(waiting)
			l.again = append(l.again, o) // the next batch takes the locks that it needs
			continue
		case err != nil:
			b.results[i] = unavailable(ctx, err)
		case b.results[i] == nil && o.done != nil:
			o.done()
		}
		l.returning.Add(1)
		o.returning = &l.returning
		o.answer <- b.results[i]
	}
}
