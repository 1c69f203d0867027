package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Begin decides and writes the payment of one call. A caller that leaves before the committer
// takes its call begins nothing. New payments stop while free disk is short; repeats go on.
func (d *DB) Begin(ctx context.Context, want *pay.Begin) (pay.Begun, error) {
	var begun pay.Begun
	o := &op{}
	o.run = func(b *batch) (err error) {
		var changes []pay.CounterChange
		begun, changes, err = want.Decide(beginView{b, d.noncesOf})
		if err == nil {
			err = d.ask(b, begun, want.Now)
		}
		if err == nil {
			err = pay.WriteNotices(noticeBook{b}, begun.Notices)
		}
		if err != nil || !begun.Leased() {
			return err
		}
		p := begun.Payment
		var was *pay.Payment
		if begun.How == pay.Created {
			if err := d.mayCreate(b, p); err != nil {
				return err
			}
		} else if was, err = b.load(p.ID); err != nil {
			return err
		}
		o.granted, o.created = p, begun.How == pay.Created
		if err := b.savePayment(was, p); err != nil {
			return err
		}
		if o.created {
			if err := d.audit(ctx, b, pay.PaymentBegun(p)); err != nil {
				return err
			}
		}
		return b.count(changes)
	}
	if err := d.do(ctx, o); err != nil {
		return pay.Begun{}, err
	}
	if begun.Payment != nil {
		begun.Payment = begun.Payment.Clone() // the batch keeps its own
	}
	return begun, nil
}

// mayCreate refuses a new payment if disk is short or its id is taken.
func (d *DB) mayCreate(b *batch, p *pay.Payment) error {
	if err := d.disk.checkSpace(); err != nil {
		return err
	}
	if p.ID == "" || b.get(paymentsBucket, []byte(p.ID)) != nil {
		return fmt.Errorf("payment id %q is empty or taken", p.ID)
	}
	return nil
}

// Acquire takes the lease of a payment that no other owner holds.
func (d *DB) Acquire(ctx context.Context, id, owner string, now, until time.Time) (*pay.Payment, error) {
	var p *pay.Payment
	o := &op{}
	o.run = func(b *batch) error {
		was, err := b.load(id)
		if err != nil {
			return err
		}
		if was.Lease.Live(now) {
			return pay.ErrLeaseHeld
		}
		p = was.Clone()
		if p.Lease.Owner != "" {
			p.Lapse()
		}
		p.Grant(owner, until)
		o.granted = p
		return b.savePayment(was, p)
	}
	if err := d.do(ctx, o); err != nil {
		return nil, err
	}
	return p.Clone(), nil
}

// Renew extends a lease. While the store cannot write, it extends the lease in memory, because
// the send goes on. No other owner can take the lease meanwhile: the extension is written before
// anything else.
func (d *DB) Renew(ctx context.Context, id string, fence uint64, until time.Time) error {
	renewed := func(was *pay.Payment) (*pay.Payment, error) {
		if was.Lease.Fence != fence || was.Lease.Owner == "" {
			return nil, pay.ErrLeaseLost
		}
		p := was.Clone()
		p.Extend(until)
		return p, nil
	}
	run := func(b *batch) error {
		was, err := b.load(id)
		if err != nil {
			return err
		}
		p, err := renewed(was)
		if err != nil {
			return err
		}
		return b.savePayment(was, p)
	}
	duringOutage := func(cause error) error {
		was, err := d.lastKnown(id)
		if err != nil {
			return unavailable(cause)
		}
		p, err := renewed(was)
		if err != nil {
			return err
		}
		return d.queueRenewal(p, run)
	}
	return d.do(ctx, &op{run: run, duringOutage: duringOutage})
}

// Record applies an outcome. The outcome is written even if its caller leaves.
func (d *DB) Record(ctx context.Context, out pay.Outcome) (*pay.Payment, pay.Effects, error) {
	var p *pay.Payment
	var fx pay.Effects
	apply := func(b *batch) (*pay.Payment, pay.Effects, error) {
		was, err := b.load(out.PaymentID)
		if err != nil {
			return nil, pay.Effects{}, err
		}
		p, fx, err := b.record(out)
		if err == nil && out.Resolution != nil {
			err = d.audit(ctx, b, pay.PaymentResolved(was, p))
		}
		if err == nil && out.Canceling != nil {
			err = d.audit(ctx, b, pay.PaymentCanceling(was, p))
		}
		return p, fx, err
	}
	run := func(b *batch) (err error) {
		p, fx, err = apply(b)
		return err
	}
	duringOutage := func(cause error) error {
		was, err := d.lastKnown(out.PaymentID)
		if err != nil {
			return unavailable(fmt.Errorf("%w; read payment: %w", cause, err))
		}
		if err := d.claimedWhileDown(was, out); err != nil {
			return err
		}
		p = was.Clone()
		if fx, err = p.Apply(out); err != nil {
			return err
		}
		again := func(b *batch) error {
			_, _, err := apply(b)
			return err
		}
		if _, err := d.queue(p, "outcome "+string(out.Verdict), again); err != nil {
			return err
		}
		return fmt.Errorf("%w: %w", pay.ErrQueued, cause)
	}
	err := d.do(ctx, &op{run: run, duringOutage: duringOutage, outlivesCaller: true})
	switch {
	case err == nil, errors.Is(err, pay.ErrQueued):
		return p.Clone(), fx, err
	default:
		return nil, pay.Effects{}, err
	}
}

// record applies an outcome in the batch. Everything that can fail comes before the first write.
func (b *batch) record(out pay.Outcome) (*pay.Payment, pay.Effects, error) {
	was, err := b.load(out.PaymentID)
	if err != nil {
		return nil, pay.Effects{}, err
	}
	if out.Claims() && claimedIn(b.tx, out) {
		return nil, pay.Effects{}, pay.ErrTransactionKnown
	}
	p := was.Clone()
	fx, err := p.Apply(out)
	if err != nil {
		return nil, pay.Effects{}, err
	}
	var event []byte
	if fx.Event != nil {
		if event, err = b.newEvent(fx.Event); err != nil {
			return nil, pay.Effects{}, err
		}
	}
	if err := b.savePayment(was, p); err != nil {
		return nil, pay.Effects{}, err
	}
	if event != nil {
		if err := b.addEvent(p, fx.Event, event); err != nil {
			return nil, pay.Effects{}, err
		}
	}
	if err := pay.WriteNotices(noticeBook{b}, fx.Notices); err != nil {
		return nil, pay.Effects{}, err
	}
	return p, fx, b.count(fx.Counters)
}

// claimedIn reports whether the claimed transaction is recorded for another payment, and not for
// this one.
func claimedIn(tx *bbolt.Tx, out pay.Outcome) bool {
	bucket, hash := tx.Bucket(transactionsBucket), transactionKey(out.Transaction)
	if hasKey(bucket, joinKey(hash, out.PaymentID)) {
		return false
	}
	k, _ := bucket.Cursor().Seek(keyPrefix(hash))
	return bytes.HasPrefix(k, keyPrefix(hash))
}

// Lapse ends leases that ran out unreleased.
func (d *DB) Lapse(ctx context.Context, now time.Time, held func(string) bool) (int, error) {
	total := 0
	for {
		n := 0
		err := d.do(ctx, &op{run: func(b *batch) error {
			ids := b.leasedIDs(&now, maxBatch, held)
			for _, id := range ids {
				if err := b.lapse(id); err != nil {
					return err
				}
			}
			n = len(ids)
			return nil
		}})
		if err != nil {
			return total, err
		}
		if total += n; n < maxBatch {
			return total, nil
		}
	}
}

func (b *batch) lapse(id string) error {
	was, err := b.load(id)
	if err != nil {
		return err
	}
	p := was.Clone()
	p.Lapse()
	return b.savePayment(was, p)
}

// beginView reads a batch for pay.Begin.Decide.
type beginView struct {
	*batch
	nonces func(keyID, idempotencyKey string) codec.Nonces
}

func (v beginView) ByIdempotencyKey(keyID, idempotencyKey string) (p *pay.Payment, err error) {
	descend(v.tx.Bucket(livingBucket), keyPrefix(keyID, hashed(idempotencyKey)), "", func(id, _ []byte) bool {
		p, err = v.load(string(id))
		return false
	})
	return p, err
}

func (v beginView) VisitAwaited(keyID string, identity pay.Hash, now time.Time, visit func(id string) (bool, error)) error {
	prefix := keyPrefix(keyID, string(identity[:]))
	c := v.tx.Bucket(awaitedBucket).Cursor()
	for k, _ := c.Seek(append(prefix, secondAfter(now)...)); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		if more, err := visit(string(k[len(prefix)+9:])); err != nil || !more {
			return err
		}
	}
	return nil
}

func (v beginView) Payment(id string) (*pay.Payment, error) { return v.load(id) }

func (v beginView) CountUnanswered(keyID, host string, now time.Time, max int) (n int, err error) {
	prefix := keyPrefix(keyID, hashed(host))
	c := v.tx.Bucket(hostsBucket).Cursor()
	for k, _ := c.Seek(append(prefix, secondAfter(now)...)); bytes.HasPrefix(k, prefix) && n < max; k, _ = c.Next() {
		n++
	}
	return n, nil
}

func (v beginView) Pause() (*pay.Pause, error) { return metaIn[pay.Pause](v.tx, pauseKey) }

func (v beginView) PolicyRevision(keyID string) (uint64, error) { return revisionIn(v.tx, keyID) }

func (v beginView) MayUse(keyID, owner, walletID string) (bool, error) {
	live := v.get(liveWalletsBucket, joinKey(owner, walletID)) != nil
	return live && (owner == keyID || v.get(lentWalletsBucket, joinKey(keyID, walletID)) != nil), nil
}

func (v beginView) Plan(orgID string) (pay.PlanName, error) {
	org, _, err := organizationIn(v.tx, orgID)
	return org.Plan, err
}

func (v beginView) Counter(c pay.Counter) (x402.Amount, error) { return counterIn(v.tx, c) }

func (v beginView) VisitCounters(prefix pay.Counter, visit func(pay.Counter, x402.Amount) bool) error {
	return visitCounters(v.tx, prefix, visit)
}

func visitCounters(tx *bbolt.Tx, prefix pay.Counter, visit func(pay.Counter, x402.Amount) bool) error {
	c := tx.Bucket(countersBucket).Cursor()
	for k, text := c.Seek([]byte(prefix)); bytes.HasPrefix(k, []byte(prefix)); k, text = c.Next() {
		amount, err := amountOf(pay.Counter(k), text)
		if err != nil {
			return err
		}
		if !visit(pay.Counter(k), amount) {
			return nil
		}
	}
	return nil
}
