package storekit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// Journal is a transaction on payments, approvals, spend events and counters. Rules change no row that it
// returns, and it owns the rows that are put.
type Journal interface {
	Tx
	pay.BeginView
	Transactions

	// HasPayment reports whether an id is taken. A store that finds out when it writes may report false.
	HasPayment(id string) (bool, error)
	// KnowsAuthorization reports whether a payment has the same id, or the same payer and nonce. Except for
	// [Reconcile], a store may know only the nonces of payments that are Bound or Reconciled.
	KnowsAuthorization(p *pay.Payment) (bool, error)
	// HasEvent reports whether the id of a spend event is taken, like HasPayment. It is asked before PutEvent.
	HasEvent(e *pay.SpendEvent) (bool, error)
	// ApprovalByID finds an approval: ErrApprovalNotFound. A new one may be reported so, like HasPayment.
	ApprovalByID(id string) (pay.Approval, error)
	// ApprovalsOf lists the ids of a key's approvals, oldest first.
	ApprovalsOf(keyID string) ([]string, error)

	// PutPayment replaces a row and its index entries. was is the row before, nil for a new one.
	PutPayment(was, is *pay.Payment) error
	// PutEvent writes the event of a payment, and counts it in the sums of its day.
	PutEvent(p *pay.Payment, e *pay.SpendEvent) error
	// PutCounter replaces the amount of a counter.
	PutCounter(c pay.Counter, was, is money.Amount) error
	// PutApproval replaces a row and its index entries: was nil for a new one, is nil for one that goes.
	PutApproval(was, is *pay.Approval) error
}

// Transactions finds payments by their transactions.
type Transactions interface {
	// HasTransaction reports whether a payment, "" for any, has a transaction. Upper and lower case are alike.
	HasTransaction(hash, paymentID string) (bool, error)
}

// change holds the writes of a rule on one payment, in this order: row, event, approvals,
// notices, audit, counters.
type change struct {
	was, is   *pay.Payment
	event     *pay.SpendEvent
	approvals []approval
	writing
	counters []counter
}

type approval struct{ was, is *pay.Approval }

type counter struct {
	name    pay.Counter
	was, is money.Amount
}

func (c *change) to(tx Journal) error {
	if c.is != nil {
		if err := tx.PutPayment(c.was, c.is); err != nil {
			return err
		}
	}
	if c.event != nil {
		if err := tx.PutEvent(c.is, c.event); err != nil {
			return err
		}
	}
	for _, a := range c.approvals {
		if err := tx.PutApproval(a.was, a.is); err != nil {
			return err
		}
	}
	if err := c.writing.to(tx); err != nil {
		return err
	}
	return putCounters(tx, c.counters)
}

func putCounters(tx Journal, list []counter) error {
	for _, c := range list {
		if err := tx.PutCounter(c.name, c.was, c.is); err != nil {
			return err
		}
	}
	return nil
}

// count reads counters and applies changes to them. It asks for all of them, even if the store lacks one.
func count(tx Journal, changes []pay.CounterChange) (list []counter, lacks error) {
	list = make([]counter, 0, len(changes))
next:
	for _, c := range changes {
		if c.Amount.IsZero() && !c.Set {
			continue
		}
		for i := range list {
			if list[i].name == c.Counter {
				is, err := c.Apply(list[i].is)
				if err != nil {
					return nil, err
				}
				list[i].is = is
				continue next
			}
		}
		was, err := tx.Counter(c.Counter)
		if err != nil {
			lacks = errors.Join(lacks, err)
			continue
		}
		is, err := c.Apply(was)
		if err != nil {
			return nil, err
		}
		list = append(list, counter{c.Counter, was, is})
	}
	return list, lacks
}

// NewEvent refuses an event whose id is empty or taken.
func NewEvent(tx Journal, e *pay.SpendEvent) error {
	taken, err := tx.HasEvent(e)
	if err == nil && (taken || e.ID == "") {
		err = fmt.Errorf("payment %s: spend event id %q is empty or taken", e.PaymentID, e.ID)
	}
	return err
}

// Begin decides one call's payment, and writes what the caller got.
func Begin(ctx context.Context, tx Journal, b *pay.Begin) (pay.Begun, error) {
	begun, changes, err := b.Decide(tx)
	if err != nil {
		return pay.Begun{}, err
	}
	var c change
	if err := errors.Join(free(tx, b.Made(begun)), c.ask(tx, begun, b.Now), c.tell(tx, begun.Notices)); err != nil {
		return pay.Begun{}, err
	}
	if begun.Leased() {
		if err := c.lease(ctx, tx, begun, changes); err != nil {
			return pay.Begun{}, err
		}
	}
	if err := c.to(tx); err != nil {
		return pay.Begun{}, err
	}
	return begun, nil
}

// free refuses a new payment whose nonce the challenge chose, if any payment of the wallet has it, even a void
// one: the chain cannot tell apart payments with one nonce. nil is free.
func free(tx Journal, p *pay.Payment) error {
	if p == nil || !p.Bound {
		return nil
	}
	taken, err := tx.KnowsAuthorization(p)
	if err == nil && taken {
		err = pay.ErrChallengeTaken
	}
	return err
}

// lease prepares the row that Begin leases to its caller.
func (c *change) lease(ctx context.Context, tx Journal, begun pay.Begun, changes []pay.CounterChange) (err error) {
	if c.is = begun.Payment; begun.How != pay.Created {
		c.was, err = tx.Payment(c.is.ID)
	} else if err = NewPayment(tx, c.is.ID); err == nil {
		err = c.enter(ctx, tx, pay.PaymentBegun(c.is))
	}
	if err == nil {
		c.counters, err = count(tx, changes)
	}
	return err
}

// NewPayment refuses a payment while there is no room, or if its id is empty or taken.
func NewPayment(tx Journal, id string) error {
	if err := tx.Room(); err != nil {
		return err
	}
	taken, err := tx.HasPayment(id)
	if err == nil && (taken || id == "") {
		err = fmt.Errorf("payment id %q is empty or taken", id)
	}
	return err
}

// Acquire takes the lease of a payment that no other owner has. If an earlier one was lost, it lapses first.
func Acquire(tx Journal, id, owner string, now, until time.Time) (*pay.Payment, error) {
	was, err := tx.Payment(id)
	if err != nil {
		return nil, err
	}
	if was.Lease.Live(now) {
		return nil, pay.ErrLeaseHeld
	}
	p := was.Clone()
	if p.Lease.Owner != "" {
		p.Lapse()
	}
	p.Grant(owner, until)
	return p, tx.PutPayment(was, p)
}

// Renewed returns a payment with an extended lease: ErrLeaseLost if the fence is not current.
func Renewed(was *pay.Payment, fence uint64, until time.Time) (*pay.Payment, error) {
	if was.Lease.Owner == "" || was.Lease.Fence != fence {
		return nil, pay.ErrLeaseLost
	}
	p := was.Clone()
	p.Extend(until)
	return p, nil
}

// Renew extends a lease.
func Renew(tx Journal, id string, fence uint64, until time.Time) error {
	was, err := tx.Payment(id)
	if err != nil {
		return err
	}
	p, err := Renewed(was, fence, until)
	if err != nil {
		return err
	}
	return tx.PutPayment(was, p)
}

// Lapse ends the lease of a payment if it has run out unreleased by now; nil: in any case. It reports
// whether it did.
func Lapse(tx Journal, id string, now *time.Time) (bool, error) {
	was, err := tx.Payment(id)
	if err != nil || was.Lease.Owner == "" || now != nil && was.Lease.Live(*now) {
		return false, err
	}
	p := was.Clone()
	p.Lapse()
	return true, tx.PutPayment(was, p)
}

// Record applies an outcome.
func Record(ctx context.Context, tx Journal, out pay.Outcome) (*pay.Payment, pay.Effects, error) {
	was, err := tx.Payment(out.PaymentID)
	if err != nil {
		return nil, pay.Effects{}, err
	}
	if known, err := Claimed(tx, out); err != nil || known {
		if err == nil {
			err = pay.ErrTransactionKnown
		}
		return nil, pay.Effects{}, err
	}
	p := was.Clone()
	fx, err := p.Apply(out)
	if err != nil {
		return nil, pay.Effects{}, err
	}
	c := change{was: was, is: p, event: fx.Event}
	if out.Resolution != nil {
		err = c.enter(ctx, tx, pay.PaymentResolved(was, p))
	}
	if out.Canceling != nil {
		err = errors.Join(err, c.enter(ctx, tx, pay.PaymentCanceling(was, p)))
	}
	if fx.Event != nil {
		err = errors.Join(err, NewEvent(tx, fx.Event))
	}
	counters, lacks := count(tx, fx.Counters)
	c.counters = counters
	if err := errors.Join(err, lacks, c.tell(tx, fx.Notices)); err != nil {
		return nil, pay.Effects{}, err
	}
	return p, fx, c.to(tx)
}

// Claimed reports whether an outcome claims a transaction that another payment has, and its own has not.
func Claimed(tx Transactions, out pay.Outcome) (bool, error) {
	if !out.Claims() {
		return false, nil
	}
	if own, err := tx.HasTransaction(out.Transaction, out.PaymentID); err != nil || own {
		return false, err
	}
	return tx.HasTransaction(out.Transaction, "")
}
