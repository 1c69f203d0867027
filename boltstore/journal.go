package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// Begin decides and writes the payment of one call. A caller that leaves before the committer
// takes its call begins nothing. New payments stop while free disk is short; repeats go on.
func (d *DB) Begin(ctx context.Context, want *pay.Begin) (pay.Begun, error) {
	var begun pay.Begun
	o := &op{}
	o.run = func(b *batch) (err error) {
		begun, err = storekit.Begin(ctx, b, want)
		if err == nil && begun.Leased() {
			o.granted, o.created = begun.Payment, begun.How == pay.Created
		}
		return err
	}
	if err := d.do(ctx, o); err != nil {
		return pay.Begun{}, err
	}
	if begun.Payment != nil {
		begun.Payment = begun.Payment.Clone() // the batch keeps its own
	}
	return begun, nil
}

// Acquire takes the lease of a payment that no other owner holds.
func (d *DB) Acquire(ctx context.Context, id, owner string, now, until time.Time) (*pay.Payment, error) {
	var p *pay.Payment
	o := &op{}
	o.run = func(b *batch) (err error) {
		if p, err = storekit.Acquire(b, id, owner, now, until); err == nil {
			o.granted = p
		}
		return err
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
	run := func(b *batch) error { return storekit.Renew(b, id, fence, until) }
	duringOutage := func(cause error) error {
		was, err := d.lastKnown(id)
		if err != nil {
			return unavailable(cause)
		}
		p, err := storekit.Renewed(was, fence, until)
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
	run := func(b *batch) (err error) {
		p, fx, err = storekit.Record(ctx, b, out)
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
			_, _, err := storekit.Record(ctx, b, out)
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

// HasTransaction reports whether a payment, "" for any, has a transaction.
func (b *batch) HasTransaction(hash, paymentID string) (bool, error) {
	return transactions{b.tx}.HasTransaction(hash, paymentID)
}

// transactions finds payments by their transactions.
type transactions struct{ tx *bbolt.Tx }

// HasTransaction reports whether a payment, "" for any, has a transaction.
func (t transactions) HasTransaction(hash, paymentID string) (bool, error) {
	bucket, key := t.tx.Bucket(transactionsBucket), transactionKey(hash)
	if paymentID != "" {
		return hasKey(bucket, joinKey(key, paymentID)), nil
	}
	k, _ := bucket.Cursor().Seek(keyPrefix(key))
	return bytes.HasPrefix(k, keyPrefix(key)), nil
}

// Lapse ends leases that ran out unreleased.
func (d *DB) Lapse(ctx context.Context, now time.Time, held func(string) bool) (int, error) {
	total := 0
	for {
		n := 0
		err := d.do(ctx, &op{run: func(b *batch) error {
			ids := b.leasedIDs(&now, maxBatch, held)
			for _, id := range ids {
				if _, err := storekit.Lapse(b, id, &now); err != nil {
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

func (b *batch) ByIdempotencyKey(keyID, idempotencyKey string) (p *pay.Payment, err error) {
	descend(b.tx.Bucket(livingBucket), keyPrefix(keyID, hashed(idempotencyKey)), "", func(id, _ []byte) bool {
		p, err = b.Payment(string(id))
		return false
	})
	return p, err
}

func (b *batch) VisitAwaited(keyID string, identity pay.Hash, now time.Time, visit func(id string) (bool, error)) error {
	prefix := keyPrefix(keyID, string(identity[:]))
	c := b.tx.Bucket(awaitedBucket).Cursor()
	for k, _ := c.Seek(append(prefix, secondAfter(now)...)); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		if more, err := visit(string(k[len(prefix)+9:])); err != nil || !more {
			return err
		}
	}
	return nil
}

func (b *batch) CountUnanswered(keyID, host string, now time.Time, max int) (n int, err error) {
	prefix := keyPrefix(keyID, hashed(host))
	c := b.tx.Bucket(hostsBucket).Cursor()
	for k, _ := c.Seek(append(prefix, secondAfter(now)...)); bytes.HasPrefix(k, prefix) && n < max; k, _ = c.Next() {
		n++
	}
	return n, nil
}

func (b *batch) Pause() (*pay.Pause, error) { return metaIn[pay.Pause](b.tx, pauseKey) }

func (b *batch) PolicyRevision(keyID string) (uint64, error) { return revisionIn(b.tx, keyID) }

func (b *batch) MayUse(keyID, owner, walletID string) (bool, error) {
	live := b.get(liveWalletsBucket, joinKey(owner, walletID)) != nil
	return live && (owner == keyID || b.get(lentWalletsBucket, joinKey(keyID, walletID)) != nil), nil
}

func (b *batch) Plan(orgID string) (pay.PlanName, error) {
	org, _, err := organizationIn(b.tx, orgID)
	return org.Plan, err
}

func (b *batch) Counter(c pay.Counter) (money.Amount, error) { return counterIn(b.tx, c) }

func (b *batch) VisitCounters(prefix pay.Counter, visit func(pay.Counter, money.Amount) bool) error {
	return visitCounters(b.tx, prefix, visit)
}

func visitCounters(tx *bbolt.Tx, prefix pay.Counter, visit func(pay.Counter, money.Amount) bool) error {
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
