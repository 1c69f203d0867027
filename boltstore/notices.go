package boltstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// staleMarks bounds the expired marks that are removed when one is written.
const staleMarks = 8

// markIn decodes a mark; zero: there is none.
func markIn(tx *bbolt.Tx, name string) (m pay.NoticeMark, err error) {
	switch encoded := tx.Bucket(marksBucket).Get([]byte(name)); {
	case encoded == nil:
		return m, nil
	case len(encoded) != 16:
		return m, fmt.Errorf("mark %q has %d bytes", name, len(encoded))
	default:
		m.Until = time.Unix(0, int64(decodeNumber(encoded))).UTC() //nolint:gosec // written by encodeTime
		m.Count = binary.BigEndian.Uint64(encoded[8:])
		return m, nil
	}
}

// Mark finds a mark.
func (b *batch) Mark(name string) (pay.NoticeMark, error) { return markIn(b.tx, name) }

// SetMark replaces a mark, and removes some that have expired.
func (b *batch) SetMark(name string, m pay.NoticeMark, now time.Time) error {
	if err := b.dropMark(name); err != nil {
		return err
	}
	var stale []string
	c := b.tx.Bucket(marksExpiryBucket).Cursor()
	for k, _ := c.First(); k != nil && len(stale) < staleMarks && string(k[:8]) <= encodeTime(now); k, _ = c.Next() {
		stale = append(stale, string(k[9:]))
	}
	for _, old := range stale {
		if err := b.dropMark(old); err != nil {
			return err
		}
	}
	until := encodeTime(m.Until)
	if err := b.put(marksBucket, []byte(name), binary.BigEndian.AppendUint64([]byte(until), m.Count)); err != nil {
		return err
	}
	return b.put(marksExpiryBucket, joinKey(until, name), nil)
}

// dropMark removes a mark, if it is there.
func (b *batch) dropMark(name string) error {
	encoded := b.get(marksBucket, []byte(name))
	if len(encoded) < 8 {
		return nil
	}
	until := string(encoded[:8])
	if err := b.delete(marksBucket, []byte(name)); err != nil {
		return err
	}
	return b.delete(marksExpiryBucket, joinKey(until, name))
}

// Append numbers and keeps a notice, and removes the one that is too old.
func (b *batch) Append(n pay.Notice) error {
	kept := b.tx.Bucket(noticesBucket)
	if at, _ := last(kept, kept.Cursor()); at != nil {
		n.Number = decodeNumber(at)
	}
	n.Number++
	row, err := encodeRow(n)
	if err != nil {
		return err
	}
	if n.Number > pay.NoticesKept {
		if err := b.delete(noticesBucket, []byte(encodeNumber(int64(n.Number-pay.NoticesKept)))); err != nil {
			return err
		}
	}
	return b.put(noticesBucket, []byte(encodeNumber(int64(n.Number))), row)
}

func (b *batch) Paid(keyID, host string, dialed bool) (paid bool, err error) {
	looked := 0
	descend(b.tx.Bucket(hostEventsBucket), keyPrefix(keyID, hashed(host)), "", func(id, _ []byte) bool {
		if paid = !dialed; paid {
			return false
		}
		var e pay.SpendEvent
		var p *pay.Payment
		key := joinKey(keyID, string(id))
		if e, err = decodeEvent(key, b.tx.Bucket(eventsBucket).Get(key)); err == nil {
			p, err = b.Payment(e.PaymentID)
		}
		if err != nil {
			return false
		}
		paid, looked = p.Dialed(), looked+1
		return !paid && looked < pay.PaidLooked
	})
	return paid, err
}

// Mark finds a mark.
func (d *DB) Mark(ctx context.Context, name string) (m pay.NoticeMark, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		m, err = markIn(tx, name)
		return err
	})
	return m, err
}

// SetMarks replaces marks.
func (d *DB) SetMarks(ctx context.Context, _ string, marks map[string]pay.NoticeMark, now time.Time) error {
	return d.do(ctx, &op{run: func(b *batch) (err error) {
		for name, m := range marks {
			if m.Until.IsZero() {
				err = b.dropMark(name)
			} else {
				err = b.SetMark(name, m, now)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}})
}

// AddNotices writes notices.
func (d *DB) AddNotices(ctx context.Context, list []pay.Notice) error {
	return d.do(ctx, &op{run: func(b *batch) error { return storekit.WriteNotices(b, list) }})
}

// ForgetNotice forgets a Once.
func (d *DB) ForgetNotice(ctx context.Context, once string) error {
	return d.do(ctx, &op{run: func(b *batch) error { return b.dropMark(pay.MarkName(once)) }})
}

// Notices lists notices, newest first.
func (d *DB) Notices(ctx context.Context, q pay.NoticeQuery) (list []pay.Notice, err error) {
	before := q.Before
	if before == 0 {
		before = math.MaxInt64
	}
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(noticesBucket)
		c := bucket.Cursor()
		k, row := below(bucket, c, []byte(encodeNumber(int64(min(before, math.MaxInt64)))))
		for ; k != nil && len(list) < min(q.Limit, maxPage); k, row = previous(bucket, c, k) {
			n, err := noticeIn(k, row)
			if err != nil {
				return err
			}
			list = append(list, n)
		}
		return nil
	})
	return list, err
}

// NoticesAfter lists notices with higher numbers, oldest first.
func (d *DB) NoticesAfter(ctx context.Context, number uint64, limit int) (list []pay.Notice, err error) {
	if number >= math.MaxInt64 {
		return nil, nil
	}
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(noticesBucket).Cursor()
		for k, row := c.Seek([]byte(encodeNumber(int64(number + 1)))); k != nil && len(list) < min(limit, maxPage); k, row = c.Next() {
			n, err := noticeIn(k, row)
			if err != nil {
				return err
			}
			list = append(list, n)
		}
		return nil
	})
	return list, err
}

func noticeIn(at, row []byte) (n pay.Notice, err error) {
	if err := decodeRow(row, &n); err != nil {
		return n, fmt.Errorf("notice %x: %w", at, err)
	}
	return n, nil
}

// Deliveries lists the destinations that are known, by name.
func (d *DB) Deliveries(ctx context.Context) ([]pay.Delivery, error) {
	return page[pay.Delivery](ctx, d, deliveriesBucket, "", maxPage)
}

// noticeClaims holds the ends of claims by destination. They are in memory, because one process has the
// file: the claims of one that was killed must not hold up the next one.
type noticeClaims struct {
	sync.Mutex
	until map[string]time.Time
}

// ClaimDelivery claims a destination that has no claim.
func (d *DB) ClaimDelivery(ctx context.Context, is pay.Delivery) (mine bool, err error) {
	d.claims.Lock()
	defer d.claims.Unlock()
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		return unchanged(tx.Bucket(deliveriesBucket).Get([]byte(is.Destination)), is)
	})
	if errors.Is(err, pay.ErrDeliveryChanged) {
		return false, nil
	}
	now := d.clock()
	if err != nil || d.claims.until[is.Destination].After(now) {
		return false, err
	}
	if d.claims.until == nil {
		d.claims.until = map[string]time.Time{}
	}
	d.claims.until[is.Destination] = now.Add(pay.NoticeClaimTime)
	return true, nil
}

// unchanged fails if a row is not that of a delivery's version.
func unchanged(row []byte, is pay.Delivery) error {
	var kept pay.Delivery
	if row != nil {
		if err := decodeRow(row, &kept); err != nil {
			return err
		}
	}
	if kept.Version != is.Version {
		return pay.ErrDeliveryChanged
	}
	return nil
}

// SetDelivery replaces what is known of a destination, if it has not changed, and ends its claim.
func (d *DB) SetDelivery(ctx context.Context, is pay.Delivery) error {
	next := is
	next.Version++
	row, err := encodeRow(next)
	if err != nil {
		return err
	}
	err = d.do(ctx, &op{run: func(b *batch) error {
		if err := unchanged(b.get(deliveriesBucket, []byte(is.Destination)), is); err != nil {
			return err
		}
		return b.put(deliveriesBucket, []byte(is.Destination), row)
	}})
	if err == nil {
		d.claims.Lock()
		defer d.claims.Unlock()
		delete(d.claims.until, is.Destination)
	}
	return err
}

// ForgetDelivery removes what is known of a destination.
func (d *DB) ForgetDelivery(ctx context.Context, destination string) error {
	return d.do(ctx, &op{run: func(b *batch) error { return b.delete(deliveriesBucket, []byte(destination)) }})
}

// notices checks the notices, marks and deliveries.
func (c *checker) notices(ctx context.Context) error {
	kept := 0
	err := c.each(ctx, noticesBucket, func(at, row []byte) {
		kept++
		n, err := noticeIn(at, row)
		switch {
		case err != nil:
			c.fault("%v", err)
		case len(at) != 8 || n.Number != decodeNumber(at):
			c.fault("notice %d is stored as %x", n.Number, at)
		}
	})
	if err != nil {
		return err
	}
	if kept > pay.NoticesKept {
		c.fault("%d notices are kept", kept)
	}
	listed := 0
	err = c.each(ctx, marksBucket, func(name, encoded []byte) {
		listed++
		switch _, err := markIn(c.tx, string(name)); {
		case err != nil:
			c.fault("%v", err)
		case !c.has(marksExpiryBucket, joinKey(string(encoded[:8]), string(name))):
			c.fault("mark %q is not listed by its expiry", name)
		}
	})
	if err == nil {
		err = c.each(ctx, marksExpiryBucket, func(_, _ []byte) { listed-- })
	}
	if err != nil {
		return err
	}
	if listed < 0 {
		c.fault("the list of marks has %d entries too many", -listed)
	}
	return c.each(ctx, deliveriesBucket, func(name, row []byte) {
		var d pay.Delivery
		if err := decodeRow(row, &d); err != nil || d.Destination != string(name) {
			c.fault("delivery %q is stored as %q: %v", d.Destination, name, err)
		}
	})
}
