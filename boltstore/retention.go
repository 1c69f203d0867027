package boltstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// removedKey names the time of noteRemoval in the meta bucket, as JSON. Sums of earlier days
// have payments that are gone.
var removedKey = []byte("removed")

// closedSlack bounds the difference between the time in the id of a payment and its Created.
const closedSlack = 24 * time.Hour

// closedScan walks payments, oldest first, by their ids.
type closedScan struct {
	before  time.Time // of their ends; zero is no bound
	without byte      // label bits of payments that are skipped, of the first eight labels
	after   string    // the last id that was looked at
}

// read visits payments in one transaction until visit returns false. more reports that others may
// follow. A payment that cannot be read is left to purser check.
func (s *closedScan) read(tx *bbolt.Tx, visit func(p *pay.Payment) bool) (more bool) {
	end := ""
	if !s.before.IsZero() {
		end = idAt(s.before.Add(closedSlack))
	}
	c := tx.Bucket(paymentsBucket).Cursor()
	id, encoded := c.Seek([]byte(s.after))
	if s.after != "" && string(id) == s.after {
		id, encoded = c.Next()
	}
	for rows := 0; id != nil && (end == "" || string(id) < end); id, encoded = c.Next() {
		if rows++; rows > scanRows {
			return true
		}
		s.after = string(id)
		if len(encoded) < 2 || encoded[1]&s.without != 0 {
			continue
		}
		if p, err := paymentIn(tx, s.after); err == nil && !visit(p) {
			return true
		}
	}
	return false
}

// ClosedPayments lists payments with their spend events, oldest first.
func (d *DB) ClosedPayments(ctx context.Context, q pay.ClosedQuery) (page pay.ClosedPage, err error) {
	s := closedScan{before: q.Before, after: q.After}
	limit := min(q.Limit, maxPage)
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		var wrong error
		more := s.read(tx, func(p *pay.Payment) bool {
			if !q.Wants(p) {
				return true
			}
			closed := pay.ClosedPayment{Payment: p}
			if p.EventID != "" {
				e, err := eventOf(tx, p)
				if err != nil {
					wrong = fmt.Errorf("spend event %s: %w", p.EventID, err)
					return false
				}
				closed.Events = append(closed.Events, e)
			}
			page.Payments = append(page.Payments, closed)
			return len(page.Payments) < limit
		})
		if more {
			page.Next = s.after
		}
		return wrong
	})
	for i := 0; err == nil && i < len(page.Payments); i++ {
		if p := &page.Payments[i]; p.Disputed {
			err = d.addCorrection(ctx, p)
		}
	}
	if err != nil {
		return pay.ClosedPage{}, err
	}
	return page, nil
}

// eventOf reads the spend event of a settled payment.
func eventOf(tx *bbolt.Tx, p *pay.Payment) (pay.SpendEvent, error) {
	key := joinKey(p.KeyID, p.EventID)
	return decodeEvent(key, tx.Bucket(eventsBucket).Get(key))
}

// addCorrection adds the event that takes back that of a disputed payment. There are few of these,
// and it mostly follows soon.
func (d *DB) addCorrection(ctx context.Context, p *pay.ClosedPayment) error {
	prefix, after := keyPrefix(p.KeyID), p.EventID
	for more := true; more; {
		err := d.view(ctx, func(tx *bbolt.Tx) error {
			c := tx.Bucket(eventsBucket).Cursor()
			from := append(slices.Clone(prefix), after...)
			k, encoded := c.Seek(from)
			for rows := 0; ; k, encoded = c.Next() {
				if more = len(k) > len(prefix) && string(k[:len(prefix)]) == string(prefix); !more || rows == scanRows {
					return nil
				}
				rows++
				after = string(k[len(prefix):]) + "\x00"
				e, err := decodeEvent(k, encoded)
				if err != nil {
					return fmt.Errorf("spend event %q: %w", k, err)
				}
				if e.Corrects == p.EventID {
					p.Events, more = append(p.Events, e), false
					return nil
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// RemovePayments removes payments whose time is over. It looks for them in a read transaction
// first, so that finding none is cheap, and looks again in the one that writes.
func (d *DB) RemovePayments(ctx context.Context, r pay.Removal) (done pay.Removed, err error) {
	s := closedScan{before: r.Before, without: byte(codec.LabelBits("reconciled")), after: r.After}
	var old []pay.ClosedPayment
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		if err := refuseReconciling(tx); err != nil {
			return err
		}
		more := s.read(tx, func(p *pay.Payment) bool {
			if r.Removes(p) {
				old = append(old, pay.ClosedPayment{Payment: p})
			}
			return len(old) < r.Limit
		})
		if more {
			done.Next = s.after
		}
		return nil
	})
	for i := 0; err == nil && i < len(old); i++ {
		if p := &old[i]; p.Disputed {
			err = d.addCorrection(ctx, p)
		}
	}
	if err != nil || len(old) == 0 {
		return done, err
	}
	err = d.do(ctx, &op{run: func(b *batch) error {
		done.Count = 0
		if err := refuseReconciling(b.tx); err != nil {
			return err
		}
		if err := b.noteRemoval(r.Before); err != nil {
			return err
		}
		for _, p := range old {
			removed, err := b.removePayment(p, r)
			if err != nil {
				return err
			}
			if removed {
				done.Count++
			}
		}
		return nil
	}})
	if err != nil {
		return pay.Removed{}, err
	}
	d.meters.removed.Add(uint64(done.Count))
	return done, nil
}

func refuseReconciling(tx *bbolt.Tx) error {
	r, err := metaIn[pay.Restore](tx, reconcilingKey)
	if err == nil && r != nil {
		err = r.Refusal()
	}
	return err
}

// removedIn reads the latest pay.Removal.Before; zero: no payment was ever removed.
func removedIn(tx *bbolt.Tx) (time.Time, error) {
	before, err := metaIn[time.Time](tx, removedKey)
	if before == nil {
		return time.Time{}, err
	}
	return *before, err
}

// noteRemoval notes that spend events from before a time may be gone. Those that correct an earlier one may be
// younger than the time at which their payment was closed.
func (b *batch) noteRemoval(before time.Time) error {
	was, err := removedIn(b.tx)
	if err != nil || !was.Before(before) {
		return err
	}
	return b.putMeta(map[string]any{string(removedKey): before.UTC()})
}

// removePayment removes a payment and its spend events with all index entries. It keeps a payment
// that changed meanwhile, and one of which an event is missing.
func (b *batch) removePayment(closed pay.ClosedPayment, r pay.Removal) (bool, error) {
	id, corrections := closed.ID, closed.Events
	p, err := b.Payment(id)
	if errors.Is(err, pay.ErrPaymentNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var e pay.SpendEvent
	if p.EventID != "" {
		if e, err = eventOf(b.tx, p); err != nil {
			return false, nil //nolint:nilerr // see above
		}
	}
	if !r.Removes(p) || p.Disputed && len(corrections) == 0 {
		return false, nil
	}
	for _, bucket := range [][]byte{paymentsBucket, payloadsBucket} {
		if err := b.delete(bucket, []byte(id)); err != nil {
			return false, err
		}
	}
	delete(b.rows, id)
	if err := b.reindex(p, nil); err != nil {
		return false, err
	}
	if p.Attempt > 0 {
		if err := b.keepAttempt(p); err != nil {
			return false, err
		}
	}
	if p.EventID == "" {
		return true, nil
	}
	for i := range corrections {
		if err := b.removeEvent(&corrections[i]); err != nil {
			return false, err
		}
		if err := b.noteRemoval(corrections[i].Created.Add(1)); err != nil {
			return false, err
		}
	}
	return true, b.removeEvent(&e)
}

// keepAttempt keeps the number of a removed attempt unless there is a later one: no nonce under an
// idempotency key is derived twice. The entry has no payment id.
func (b *batch) keepAttempt(p *pay.Payment) error {
	prefix := keyPrefix(p.KeyID, hashed(p.IdempotencyKey))
	var last []byte
	descend(b.tx.Bucket(attemptsBucket), prefix, "", func(rest, _ []byte) bool {
		last = slices.Clone(rest)
		return false
	})
	if len(last) >= 8 && decodeNumber(last) >= p.Attempt {
		return nil
	}
	if isKeptAttempt(last) {
		if err := b.delete(attemptsBucket, append(slices.Clone(prefix), last...)); err != nil {
			return err
		}
	}
	return b.put(attemptsBucket, append(prefix, joinKey(encodeNumber(int64(p.Attempt)), "")...), nil)
}

// isKeptAttempt reports whether an entry of the attempts, or the rest of its key, is that of
// keepAttempt: it ends where the others have the id of their payment.
func isKeptAttempt(key []byte) bool { return len(key) >= 9 && key[len(key)-1] == 0 }

// removeEvent removes a spend event and its index entries. The sums of its day stay.
func (b *batch) removeEvent(e *pay.SpendEvent) error {
	for _, entry := range []struct {
		indexEntry
		made bool
	}{
		{indexEntry{eventsBucket, joinKey(e.KeyID, e.ID)}, true},
		{indexEntry{taskEventsBucket, joinKey(e.KeyID, e.Task, e.ID)}, e.Task != ""},
		{indexEntry{hostEventsBucket, hostEventKey(e)}, e.Host != ""},
	} {
		if entry.made {
			if err := b.delete(entry.bucket, entry.key); err != nil {
				return err
			}
		}
	}
	return nil
}
