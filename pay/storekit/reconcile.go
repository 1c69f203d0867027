package storekit

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Reconciling is a transaction that books what a restored store lacks.
type Reconciling interface {
	Journal
	// PutRestored replaces what is to be reconciled.
	PutRestored(r *pay.Restore) error
}

// Reconcile books payments that the chain has and the books lack, and how far the chain was read. It
// writes nothing if neither has changed.
func Reconcile(tx Reconciling, s pay.ReconcileStep) (booked []*pay.Payment, err error) {
	was, err := Restored(tx)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(was)
	if err != nil {
		return nil, err
	}
	type authorization struct {
		from  x402.Address
		nonce x402.Nonce
	}
	seen := map[authorization]bool{} // twice in one step
	var list []change
	var changes []pay.CounterChange
	for _, p := range s.Found {
		a := authorization{p.Authorization.From, p.Authorization.Nonce}
		known, lacks := tx.KnowsAuthorization(p)
		if err = errors.Join(err, lacks); known || seen[a] {
			continue
		}
		seen[a] = true
		p = p.Clone()
		fx := p.Booking()
		err = errors.Join(err, NewEvent(tx, fx.Event))
		list = append(list, change{is: p, event: fx.Event})
		changes, booked = append(changes, fx.Counters...), append(booked, p)
	}
	counters, lacks := count(tx, changes)
	if err := errors.Join(err, lacks); err != nil {
		return nil, err
	}
	is := new(pay.Restore)
	if err := json.Unmarshal(before, is); err != nil {
		return nil, err
	}
	is.Advance(s, len(booked))
	if after, err := json.Marshal(is); err != nil || bytes.Equal(before, after) && len(booked) == 0 {
		return nil, err
	}
	for _, c := range list {
		if err := c.to(tx); err != nil {
			return nil, err
		}
	}
	if err := putCounters(tx, counters); err != nil {
		return nil, err
	}
	return booked, tx.PutRestored(is)
}

// Restored reads what is to be reconciled: ErrNotReconciling.
func Restored(tx interface{ Restored() (*pay.Restore, error) }) (*pay.Restore, error) {
	r, err := tx.Restored()
	if err == nil && r == nil {
		err = pay.ErrNotReconciling
	}
	return r, err
}

// WriteAgain writes a payment that the store has lost, and that its caller still knows. It reports whether
// the payment, or another one with its authorization, is there: then nothing is written.
func WriteAgain(tx Reconciling, p *pay.Payment) (known bool, err error) {
	fx := p.Again()
	known, err = tx.KnowsAuthorization(p)
	switch _, lost := tx.Payment(p.ID); {
	case lost == nil:
		known = true
	case !errors.Is(lost, pay.ErrPaymentNotFound):
		err = errors.Join(err, lost)
	}
	if known && err == nil {
		return true, nil
	}
	if fx.Event != nil {
		err = errors.Join(err, NewEvent(tx, fx.Event))
	}
	counters, lacks := count(tx, fx.Counters)
	if err := errors.Join(err, lacks); err != nil {
		return false, err
	}
	c := change{is: p.Clone(), event: fx.Event, counters: counters}
	return false, c.to(tx)
}
