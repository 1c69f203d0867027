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

const (
	// listViews bounds the transactions of a page of payments, sumViews those of a sum.
	listViews, sumViews = 5, 10
	// paymentSlack bounds the time between the naming of a payment and its Created: a person may have
	// been asked in between.
	paymentSlack = 2 * time.Hour
)

// paymentScan looks at payments, newest first.
type paymentScan struct {
	*DB
	f      pay.PaymentFilter
	keys   []string // mergedKeys at most
	wanted byte     // filters the rows of a label without an index, which is one of the first eight
	spared byte     // rows with one of these labels, of the first eight, are left out
	passed string   // the last id that was looked at; "": none
	more   bool     // there is more below it
	enough bool     // the visitor wants no more
}

// ListPayments lists the keys' payments, newest first.
func (d *DB) ListPayments(ctx context.Context, keyIDs []string, f pay.PaymentFilter) (page pay.PaymentPage, err error) {
	if f.Limit < 1 || f.Label != "" && codec.LabelBits(f.Label) == 0 {
		return page, nil
	}
	stopped := "" // the list is complete down to this id
	for _, keys := range chunks(keyIDs, f.All) {
		s := paymentScan{DB: d, f: f, keys: keys, passed: f.Before}
		n := 0
		err := s.read(ctx, listViews, func(tx *bbolt.Tx, id string, _ codec.Brief) (bool, error) {
			p, err := paymentIn(tx, id)
			if err == nil {
				page.Payments, n = append(page.Payments, p), n+1
			}
			return n <= f.Limit, err
		})
		if err != nil {
			return pay.PaymentPage{}, err
		}
		if s.more {
			stopped = max(stopped, s.passed)
		}
	}
	slices.SortFunc(page.Payments, func(a, b *pay.Payment) int { return strings.Compare(b.ID, a.ID) })
	page.Payments = slices.DeleteFunc(page.Payments, func(p *pay.Payment) bool { return p.ID < stopped })
	page.Next = stopped
	if len(page.Payments) > f.Limit {
		page.Payments = page.Payments[:f.Limit]
		page.Next = page.Payments[f.Limit-1].ID
	}
	return page, nil
}

// SumPayments adds up the keys' payments.
func (d *DB) SumPayments(ctx context.Context, keyIDs []string, f pay.PaymentFilter) (t pay.Totals, err error) {
	if f.Label != "" && codec.LabelBits(f.Label) == 0 {
		return t, nil
	}
	with, without := f.Summed()
	f.Label = with
	parts := chunks(keyIDs, f.All)
	for _, keys := range parts {
		s := paymentScan{DB: d, f: f, keys: keys, spared: byte(codec.LabelBits(without))}
		err := s.read(ctx, max(1, sumViews/len(parts)), func(_ *bbolt.Tx, _ string, r codec.Brief) (bool, error) {
			a, err := r.Moved()
			t.Row(r.Currency, pay.IsWithdrawal(r.Host, r.RequestURL), pay.Sum{Count: 1, Amount: a}, r.Created.Time())
			return true, err
		})
		if err != nil {
			return pay.Totals{}, err
		}
		t.Partial = t.Partial || s.more
	}
	return t, nil
}

// chunks divides keys into those that one transaction reads side by side. All keys are one.
func chunks(keyIDs []string, all bool) [][]string {
	if all {
		return [][]string{nil}
	}
	return slices.Collect(slices.Chunk(keyIDs, mergedKeys))
}

// read visits the payments that the filter selects until the visitor has enough, they end, or a
// number of transactions is over.
func (s *paymentScan) read(ctx context.Context, views int, visit func(tx *bbolt.Tx, id string, r codec.Brief) (more bool, err error)) error {
	before, lowest := s.passed, ""
	if !s.f.To.IsZero() {
		if end := idAt(pay.DayOf(s.f.To).AddDate(0, 0, 1).Add(paymentSlack)); before == "" || end < before {
			before = end
		}
	}
	if !s.f.From.IsZero() {
		lowest = idAt(pay.DayOf(s.f.From).Add(-paymentSlack))
	}
	for range views {
		err := s.view(ctx, func(tx *bbolt.Tx) error { return s.readIn(tx, before, lowest, visit) })
		if err != nil || !s.more || s.enough {
			return err
		}
		if before == "" || s.passed < before {
			before = s.passed
		}
	}
	return nil
}

// begin starts a merge of the rows with the filter's label.
func (s *paymentScan) begin(tx *bbolt.Tx, before string) *merge {
	m := &merge{tx: tx}
	if s.f.All {
		var with uint16
		if s.f.Label != "" {
			with = codec.LabelBits(s.f.Label)
		}
		for _, set := range labelSets(tx, with, uint16(s.spared)) {
			m.begin("", before, idIndex{labelledBucket, setPrefix(set)})
		}
		return m
	}
	for _, keyID := range s.keys {
		x := idIndex{keyPaymentsBucket, keyPrefix(keyID)}
		switch {
		case slices.Contains(indexed, s.f.Label):
			x = idIndex{labelsBucket, keyPrefix(keyID, s.f.Label)}
		case s.f.Label != "":
			s.wanted = byte(codec.LabelBits(s.f.Label))
		}
		m.begin(keyID, before, x)
	}
	return m
}

// takes reports whether a row has the labels that are wanted. A damaged row has: what reads it says so.
func (s *paymentScan) takes(encoded []byte) bool {
	if len(encoded) < 2 {
		return s.wanted == 0
	}
	return (s.wanted == 0 || encoded[1]&s.wanted != 0) && encoded[1]&s.spared == 0
}

// readIn visits the payments of one transaction.
func (s *paymentScan) readIn(tx *bbolt.Tx, before, lowest string, visit func(tx *bbolt.Tx, id string, r codec.Brief) (bool, error)) error {
	s.more = false
	rows := tx.Bucket(paymentsBucket)
	m := s.begin(tx, before)
	for looked := 0; ; looked++ {
		r := m.newest()
		if r == nil || string(r.id) < lowest {
			return nil
		}
		if looked >= scanRows {
			s.more = true
			return nil
		}
		id := string(r.id)
		encoded := rows.Get(r.id)
		m.next(r)
		if s.takes(encoded) {
			brief, err := codec.DecodeBrief(encoded)
			if err != nil {
				return fmt.Errorf("payment %s: %w", id, err)
			}
			if s.f.WantsOf(brief.Host, brief.RequestURL, brief.Task, brief.PayTo, brief.Created.Time()) {
				more, err := visit(tx, id, brief)
				if err != nil {
					return err
				}
				if !more {
					s.more, s.enough = true, true
					return nil
				}
			}
		}
		s.passed = id
	}
}

// SumSpend adds up the events that ListSpend lists.
func (d *DB) SumSpend(ctx context.Context, keyIDs []string, q pay.OrganizationSpendQuery) (t pay.Totals, err error) {
	q.Before, q.Limit = "", maxSummed
	for keys := range slices.Chunk(keyIDs, mergedKeys) {
		l := spendList{DB: d, q: q, keys: keys, most: maxSummed, sum: t.Event}
		if err := l.read(ctx); err != nil {
			return pay.Totals{}, err
		}
		t.Partial = t.Partial || l.more
	}
	return t, nil
}

// maxSummed bounds the events of a sum; pageViews bounds the rows.
const maxSummed = 1 << 30
