package boltstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// mergedKeys bounds the keys that one transaction reads side by side. Tests lower it.
var mergedKeys = 250

const (
	// pageViews bounds the transactions of a page, for each mergedKeys keys.
	pageViews = 10
	// idSlack bounds the difference between the time in the id of an event and its Created.
	idSlack = time.Minute
)

// ListSpend lists the keys' events, newest first.
func (d *DB) ListSpend(ctx context.Context, keyIDs []string, q pay.OrganizationSpendQuery) (page pay.SpendPage, err error) {
	if q.Before != "" {
		if err := d.knowsEvent(ctx, keyIDs, q.Before); err != nil {
			return page, err
		}
	}
	if q.Limit < 1 {
		return page, nil
	}
	// The list is complete down to this id, and goes on below it; "" is the end.
	stopped := ""
	for keys := range slices.Chunk(keyIDs, mergedKeys) {
		l := spendList{DB: d, q: q, keys: keys, passed: q.Before, most: q.Limit + 1}
		if err := l.read(ctx); err != nil {
			return pay.SpendPage{}, err
		}
		page.Entries = append(page.Entries, l.entries...)
		if l.more {
			stopped = max(stopped, l.passed)
		}
	}
	slices.SortFunc(page.Entries, func(a, b pay.SpendEntry) int { return strings.Compare(b.ID, a.ID) })
	page.Entries = slices.DeleteFunc(page.Entries, func(e pay.SpendEntry) bool { return e.ID < stopped })
	page.Next = stopped
	if len(page.Entries) > q.Limit {
		page.Entries = page.Entries[:q.Limit]
		page.Next = page.Entries[q.Limit-1].ID
	}
	return page, nil
}

// knowsEvent fails unless one of the keys has the event: pay.ErrEventNotFound.
func (d *DB) knowsEvent(ctx context.Context, keyIDs []string, id string) error {
	for some := range slices.Chunk(keyIDs, scanRows) {
		found := false
		err := d.view(ctx, func(tx *bbolt.Tx) error {
			events := tx.Bucket(eventsBucket)
			found = slices.ContainsFunc(some, func(keyID string) bool { return events.Get(joinKey(keyID, id)) != nil })
			return nil
		})
		if err != nil || found {
			return err
		}
	}
	return pay.ErrEventNotFound
}

// spendList lists events of some keys.
type spendList struct {
	*DB
	q       pay.OrganizationSpendQuery
	keys    []string
	most    int
	entries []pay.SpendEntry
	passed  string // the last id that was looked at
	more    bool   // there is more below it
	// sum hears events in the place of entries; nil: they are listed.
	sum func(e *pay.SpendEvent, undelivered func() bool)
}

// read lists events until the page is full, the events end, or pageViews is reached.
func (l *spendList) read(ctx context.Context) error {
	before, lowest := l.passed, ""
	if !l.q.To.IsZero() {
		if end := idAt(pay.DayOf(l.q.To).AddDate(0, 0, 1).Add(idSlack)); before == "" || end < before {
			before = end
		}
	}
	if !l.q.From.IsZero() {
		lowest = idAt(pay.DayOf(l.q.From).Add(-idSlack))
	}
	for range pageViews {
		err := l.view(ctx, func(tx *bbolt.Tx) error { return l.readIn(tx, before, lowest) })
		if err != nil || !l.more || len(l.entries) == l.most {
			return err
		}
		if before == "" || l.passed < before {
			before = l.passed
		}
	}
	return nil
}

// readIn lists events in one transaction.
func (l *spendList) readIn(tx *bbolt.Tx, before, lowest string) error {
	l.more = false
	m := merge{tx: tx}
	for _, keyID := range l.keys {
		m.begin(keyID, before, l.indexes(keyID)...)
	}
	for {
		r := m.newest()
		if r == nil || string(r.id) < lowest {
			return nil
		}
		if m.rows >= scanRows-4 || len(l.entries) == l.most {
			l.more = true
			return nil
		}
		id := string(r.id)
		if r.sure {
			m.rows += 2
			if err := l.add(tx, r.keyID, id); err != nil {
				return err
			}
			m.next(r)
		} else if m.intersect(r); string(r.id) == id {
			continue
		}
		l.passed = id
	}
}

// indexes returns the indexes that must all have an event of a key.
func (l *spendList) indexes(keyID string) (list []idIndex) {
	if l.q.Host != "" {
		list = append(list, idIndex{hostEventsBucket, keyPrefix(keyID, hashed(l.q.Host))})
	}
	if l.q.Task != "" {
		list = append(list, idIndex{taskEventsBucket, keyPrefix(keyID, l.q.Task)})
	}
	if list == nil {
		list = append(list, idIndex{eventsBucket, keyPrefix(keyID)})
	}
	return list
}

// add lists an event if the query wants it.
func (l *spendList) add(tx *bbolt.Tx, keyID, id string) error {
	key := joinKey(keyID, id)
	event, err := decodeEvent(key, tx.Bucket(eventsBucket).Get(key))
	if err != nil {
		return fmt.Errorf("spend event %s: %w", id, err)
	}
	if !l.q.Wants(&event) {
		return nil
	}
	if l.q.Payee != nil {
		brief, err := codec.DecodeBrief(tx.Bucket(paymentsBucket).Get([]byte(event.PaymentID)))
		if err != nil {
			return fmt.Errorf("spend event %s: %w", id, err)
		}
		if brief.PayTo != *l.q.Payee {
			return nil
		}
	}
	if l.sum != nil {
		l.sum(&event, func() bool { return tx.Bucket(labelsBucket).Get(joinKey(keyID, "undelivered", event.PaymentID)) != nil })
		return nil
	}
	p, err := paymentIn(tx, event.PaymentID)
	if err != nil {
		return fmt.Errorf("spend event %s: %w", id, err)
	}
	l.entries = append(l.entries, p.Entry(event))
	return nil
}
