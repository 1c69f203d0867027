package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// retryEvery is the pause before the committer tries to write again. Tests lower it.
var retryEvery = time.Second

const (
	// reopenWait bounds the wait for the file lock then; callers wait meanwhile.
	reopenWait = 100 * time.Millisecond
	// maxQueued bounds the memory of an outage.
	maxQueued = 1 << 16
)

// outage lasts from a failed commit until writing works again. New payments are refused. Outcomes
// and renewals wait in memory, because their money has moved and their sends go on. The process
// holds the file lock all along, except while it reopens the file, so no other owner can take a
// lease that is extended in memory.
type outage struct {
	cause  error
	since  time.Time
	queued []*queuedChange
	// rows holds the payments as the queued changes will leave them.
	rows map[string]*pay.Payment
	// renewals holds the queued renewals by payment: one for each lease.
	renewals map[string]*queuedChange
}

// queuedChange is a change that waits in memory.
type queuedChange struct {
	payment string
	what    string // for the log
	run     func(*batch) error
	// promised holds the encoded rows that the caller got; none if no caller did.
	promised codec.Stored
}

// outageStatus is the part of an outage that other goroutines read.
type outageStatus struct {
	cause  error
	since  time.Time
	queued int
}

// Health returns nil while the store takes new payments.
func (d *DB) Health(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-d.finished:
		return errClosed
	default:
	}
	if t := d.health.Load(); t != nil {
		return fmt.Errorf("%w since %s, %d outcomes are queued: %w",
			pay.ErrUnavailable, t.since.UTC().Format(time.RFC3339), t.queued, t.cause)
	}
	return d.disk.checkSpace()
}

// beginOutage starts an outage.
func (d *DB) beginOutage(cause error) {
	d.log.Error("store: cannot write, new payments are refused", "file", d.path, "error", cause)
	d.outage = &outage{
		cause: cause, since: d.clock(), rows: map[string]*pay.Payment{}, renewals: map[string]*queuedChange{},
	}
	d.retry.Reset(0)
	d.publishHealth()
}

func (d *DB) publishHealth() {
	if d.outage == nil {
		d.health.Store(nil)
		return
	}
	d.health.Store(&outageStatus{cause: d.outage.cause, since: d.outage.since, queued: len(d.outage.queued)})
}

// undo queues the end of every lease that a failed commit granted. The commit may have reached
// the disk all the same, but its caller heard of an error. A payment that was created this way
// was never signed.
func (d *DB) undo(ops []*op) {
	for _, o := range ops {
		if o.granted == nil {
			continue
		}
		out := pay.Outcome{PaymentID: o.granted.ID, Fence: o.granted.Lease.Fence, At: d.clock(), Release: true}
		if o.created {
			out.Verdict, out.Reason = pay.VerdictVoid, "the journal could not be written, so nothing was signed"
		}
		owner := o.granted.Lease.Owner
		d.outage.queued = append(d.outage.queued, &queuedChange{payment: out.PaymentID, what: "undo", run: func(b *batch) error {
			p, err := b.Payment(out.PaymentID)
			if err != nil && !errors.Is(err, pay.ErrPaymentNotFound) {
				return err
			}
			if p == nil || p.Lease.Fence != out.Fence || p.Lease.Owner != owner {
				return nil // it did not reach the disk
			}
			_, _, err = storekit.Record(context.Background(), b, out)
			return err
		}})
	}
}

// answerDown answers an operation during an outage.
func (d *DB) answerDown(o *op) {
	if o.duringOutage == nil {
		o.answer(unavailable(d.outage.cause))
		return
	}
	o.answer(d.guard(func() error { return o.duringOutage(d.outage.cause) }))
	d.publishHealth()
}

func unavailable(cause error) error { return fmt.Errorf("%w: %w", pay.ErrUnavailable, cause) }

// lastKnown returns the row of a payment with the queued changes applied.
func (d *DB) lastKnown(id string) (*pay.Payment, error) {
	if p := d.outage.rows[id]; p != nil {
		return p, nil
	}
	if p := d.leased[id]; p != nil {
		return p, nil
	}
	return d.Payment(context.Background(), id)
}

// queue queues a change of a payment that will leave the row p.
func (d *DB) queue(p *pay.Payment, what string, run func(*batch) error) (*queuedChange, error) {
	if len(d.outage.queued) >= maxQueued {
		return nil, unavailable(errors.New("too many outcomes are queued"))
	}
	k := &queuedChange{payment: p.ID, what: what, run: run, promised: codec.Encode(p)}
	d.outage.queued = append(d.outage.queued, k)
	d.outage.rows[p.ID] = p
	return k, nil
}

// resume tries to end the outage. It reopens the file, because after a failed write neither the
// handle nor the pages in memory can be trusted. Then it writes the queued changes and lets
// operations through again.
func (d *DB) resume() {
	out := d.outage
	if err := d.reopen(); err != nil {
		d.stillDown(err)
		return
	}
	if err := d.dropWritten(); err != nil {
		d.stillDown(err)
		return
	}
	now := []byte(strconv.FormatInt(d.clock().Unix(), 10))
	ops := []*op{{
		run:    func(b *batch) error { return b.put(metaBucket, resumedKey, now) },
		answer: func(error) {},
	}}
	for _, k := range out.queued {
		ops = append(ops, &op{run: k.run, answer: func(err error) {
			if err != nil {
				d.log.Error("store: a kept change no longer applies", "payment", k.payment, "change", k.what, "error", err)
			}
		}})
	}
	for len(ops) > 0 {
		n := min(len(ops), maxBatch)
		unwritten, err := d.write(ops[:n])
		if err != nil {
			// Changes that were written are gone from the queue, in order; the rest stays.
			rest := len(unwritten) + len(ops) - n
			out.queued = out.queued[len(out.queued)-min(rest, len(out.queued)):]
			maps.DeleteFunc(out.renewals, func(_ string, k *queuedChange) bool { return !slices.Contains(out.queued, k) })
			d.stillDown(err)
			return
		}
		ops = ops[n:]
	}
	d.retry.Stop()
	d.outage = nil
	d.publishHealth()
	d.log.Info("store: writing again", "file", d.path, "kept", len(out.queued), "after", d.clock().Sub(out.since).String())
}

func (d *DB) stillDown(cause error) {
	d.outage.cause = cause
	d.retry.Reset(retryEvery)
	d.publishHealth()
}

// reopen closes and opens the file, and checks that it is still the same store.
func (d *DB) reopen() error {
	if err := d.closeFiles(); err != nil {
		d.log.Warn("store: closing before reopening", "error", err)
	}
	if d.replaced {
		return errReplaced
	}
	if hook := d.hooks.reopen.Load(); hook != nil {
		if err := (*hook)(); err != nil {
			return fmt.Errorf("reopen: %w", err)
		}
	}
	bolt, err := d.openFile(0, reopenWait)
	if err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	leased := map[string]*pay.Payment{}
	err = d.enter(bolt, func(tx *bbolt.Tx, older string) error {
		if older != "" {
			return fmt.Errorf("%w (%s)", errReplaced, older)
		}
		return d.recognize(tx, leased)
	})
	if err != nil {
		return errors.Join(fmt.Errorf("reopen: %w", err), bolt.Close())
	}
	d.leased = leased
	return nil
}

// recognize checks that the file is the store that was open before, and reads its leased
// payments.
func (d *DB) recognize(tx *bbolt.Tx, leased map[string]*pay.Payment) error {
	meta := tx.Bucket(metaBucket)
	if meta == nil || string(meta.Get(storeIDKey)) != d.id {
		return errors.New("the file at this path is another one now")
	}
	if err := checkSchema(meta); err != nil {
		return err
	}
	if marks, err := marksIn(meta); err != nil || len(marks) != d.marks {
		return errors.Join(errReplaced, err)
	}
	b := newBatch(d, tx)
	for _, id := range b.leasedIDs(nil, 0, nil) {
		p, err := b.Payment(id)
		if err != nil {
			return err
		}
		leased[id] = p
	}
	return nil
}

// dropWritten drops queued changes that a commit wrote although it reported a failure: those of a
// payment up to the last one whose promised row is in the store.
func (d *DB) dropWritten() error {
	out := d.outage
	done := map[string]int{} // payment -> index of its last written change
	err := d.view(context.Background(), func(tx *bbolt.Tx) error {
		for i, k := range out.queued {
			has := storedIn(tx, k.payment)
			if k.promised.Row != nil && bytes.Equal(has.Row, k.promised.Row) && bytes.Equal(has.Payload, k.promised.Payload) {
				done[k.payment] = i
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	rest := out.queued[:0]
	for i, k := range out.queued {
		if last, ok := done[k.payment]; k.promised.Row == nil || !ok || i > last {
			rest = append(rest, k)
		}
	}
	out.queued = rest
	return nil
}

// lostChanges returns an error that counts the changes which closing loses, and logs each.
func (d *DB) lostChanges() error {
	if d.outage == nil || len(d.outage.queued) == 0 {
		return nil
	}
	for _, k := range d.outage.queued {
		d.log.Error("store: lost a change that could not be written", "payment", k.payment, "change", k.what)
	}
	return fmt.Errorf("%d changes of payments could not be written: %w", len(d.outage.queued), d.outage.cause)
}

// queueRenewal queues the renewal of a lease. A later renewal replaces an earlier one.
func (d *DB) queueRenewal(p *pay.Payment, run func(*batch) error) error {
	if k := d.outage.renewals[p.ID]; k != nil {
		k.run = run
		d.outage.rows[p.ID] = p
		return nil
	}
	k, err := d.queue(p, "renewal", run)
	if err != nil {
		return err
	}
	k.promised = codec.Stored{} // writing a renewal twice is harmless
	d.outage.renewals[p.ID] = k
	return nil
}

// claimedWhileDown looks for a claimed transaction among the queued changes and, if the file can
// be read, in the store. The store checks again when the outcome is written.
func (d *DB) claimedWhileDown(was *pay.Payment, out pay.Outcome) error {
	if !out.Claims() || transactionKey(was.Transaction) == transactionKey(out.Transaction) {
		return nil
	}
	for id, p := range d.outage.rows {
		if id != out.PaymentID && transactionKey(p.Transaction) == transactionKey(out.Transaction) {
			return pay.ErrTransactionKnown
		}
	}
	known := false
	err := d.view(context.Background(), func(tx *bbolt.Tx) error {
		var err error
		known, err = storekit.Claimed(transactions{tx}, out)
		return err
	})
	if known {
		return pay.ErrTransactionKnown
	}
	if err != nil && !errors.Is(err, pay.ErrUnavailable) {
		return unavailable(err)
	}
	return nil
}
