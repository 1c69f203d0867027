package pgstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// maxBatch bounds the operations of one transaction.
	maxBatch = 256
	// maxRounds bounds the round trips in which a batch asks.
	maxRounds = 200
	// maxTries bounds the transactions of a batch that the database ends, or whose answer is lost.
	maxTries = 5
)

// queue holds the operations that wait for the next batch.
type queue struct {
	ops chan *op
	// again has operations that the last batch lacked locks for.
	again []*op
	// returning counts the callers that were answered and have not yet received it.
	returning sync.WaitGroup
}

// commit writes what callers have queued, one batch after the other, until the store is closed. A batch begins once the
// callers of the one before have their answers. Callers that come back at once take part from the start.
func (d *DB) commit() {
	defer close(d.finished)
	ctx := context.Background()
	for {
		d.queue.returning.Wait()
		if len(d.queue.again) > 0 {
			d.serve(ctx, d.queue.drain(nil))
			continue
		}
		select {
		case first := <-d.queue.ops:
			d.serve(ctx, d.queue.drain(first))
		case <-d.closing:
			select { // what was queued before is done
			case first := <-d.queue.ops:
				d.serve(ctx, d.queue.drain(first))
			default:
				return
			}
		}
	}
}

// drain takes up to maxBatch operations: those that lacked locks, a first one unless it is nil, and what is queued.
func (q *queue) drain(first *op) (ops []*op) {
	list := q.again
	q.again = nil
	if first != nil {
		list = append(list, first)
	}
	for len(list) < maxBatch {
		select {
		case o := <-q.ops:
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
func (d *DB) serve(ctx context.Context, ops []*op) {
	if len(ops) == 0 {
		return
	}
	if class := d.outage.down(); class != "" {
		d.answerDown(ctx, ops, class, uuid.Nil)
		return
	}
	began := time.Now()
	b := &batch{DB: d, slot: batchSlot}
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
			d.serve(ctx, []*op{o})
		}
		return
	}
	for i, o := range ops {
		switch {
		case err == nil && errors.Is(b.results[i], errLocks):
			o.state.Store(waiting)
			d.queue.again = append(d.queue.again, o) // the next batch takes the locks that it needs
			continue
		case err != nil:
			b.results[i] = unavailable(ctx, err)
		case b.results[i] == nil && o.done != nil:
			o.done()
		}
		d.queue.returning.Add(1)
		o.returning = &d.queue.returning
		o.answer <- b.results[i]
	}
}
