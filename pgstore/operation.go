package pgstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/purserpay/purser/pay"
)

var errClosed = fmt.Errorf("%w: store is closed", pay.ErrUnavailable)

// op holds one atomic operation on its way through the committer.
type op struct {
	// locks names what the operation decides about. If they are not known, find asks the database for them,
	// outside of the transaction.
	locks []string
	find  func(ctx context.Context) ([]string, error)
	// wants asks, before the first round trip, what run will ask.
	wants func(s *state)
	// run decides and changes the state. It asks for everything before its first change: errAsk.
	run func(s *state) error
	// outlivesCaller keeps the operation in the queue after its caller has left.
	outlivesCaller bool
	// keep applies an outcome while nothing can be written; nil: the operation then fails. It is called with
	// the lock of the outage held.
	keep func(ctx context.Context) (*pay.Payment, pay.Outcome, error)
	// granted returns the payment whose lease run has granted, or nil.
	granted func() (p *pay.Payment, created bool)
	// done, if any, is called once the operation is durable.
	done func()

	state  atomic.Int32
	answer chan error
	// returning is that of the queue; nil: no batch waits for this caller.
	returning *sync.WaitGroup
}

// States of an op. A caller can leave only before the committer has taken it.
const (
	waiting int32 = iota
	taken
	left
)

// take reports whether the committer may run the operation, because its caller has not left.
func (o *op) take() bool { return o.state.CompareAndSwap(waiting, taken) }

// ask asks what the operation is known to ask.
func (o *op) ask(s *state) {
	for _, name := range o.locks {
		if hasSheet(name) {
			s.want(question{askSheet, name, ""})
		}
	}
	if o.wants != nil {
		o.wants(s)
	}
}

// lockNames returns the locks, which it may have to find.
func (o *op) lockNames(ctx context.Context) ([]string, error) {
	if o.locks != nil || o.find == nil {
		return o.locks, nil
	}
	names, err := o.find(ctx)
	if err == nil {
		o.locks = names
	}
	return names, err
}

// received tells the queue that the caller has the answer, and returns it.
func (o *op) received(err error) error {
	if o.returning != nil {
		o.returning.Done()
	}
	return err
}

// do queues an operation and waits until it is durable.
func (d *DB) do(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil && !o.outlivesCaller {
		return err
	}
	o.answer = make(chan error, 1)
	leaves, look := ctx.Done(), ctx
	if o.outlivesCaller {
		leaves, look = nil, context.WithoutCancel(ctx) // the queue is never full for long
	}
	if d.outage.down() == "" { // else the committer knows what to do without the database
		if _, err := o.lockNames(look); err != nil && downClass(err) == "" {
			return err
		}
	}
	select {
	case d.queue.ops <- o:
	case <-leaves:
		return ctx.Err()
	case <-d.finished:
		return errClosed
	}
	select {
	case err := <-o.answer:
		return o.received(err)
	case <-d.finished:
	case <-leaves:
		if o.state.CompareAndSwap(waiting, left) {
			return ctx.Err()
		}
		select {
		case err := <-o.answer:
			return o.received(err)
		case <-d.finished:
		}
	}
	select {
	case err := <-o.answer:
		return o.received(err)
	default:
		return errClosed
	}
}
