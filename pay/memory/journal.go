package memory

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
	"github.com/purserpay/purser/x402"
)

// PutPayment writes a row.
func (r *rows) PutPayment(_, is *pay.Payment) error {
	r.payments.put(is.ID, is)
	return nil
}

// HasPayment reports whether an id is taken.
func (r *rows) HasPayment(id string) (bool, error) { return r.payments.has(id), nil }

// HasEvent reports whether the id of a spend event is taken.
func (r *rows) HasEvent(e *pay.SpendEvent) (bool, error) { return r.events.has(e.ID), nil }

// PutEvent writes a spend event, and counts it in the day of its wallet.
func (r *rows) PutEvent(p *pay.Payment, e *pay.SpendEvent) error {
	r.events.put(e.ID, *e)
	of := dayOf(p.WalletID, e.Created)
	day, _ := r.left.get(of)
	day.Day = pay.DayOf(e.Created)
	day.Event(p, e)
	r.left.put(of, day)
	return nil
}

// PutCounter writes a counter.
func (r *rows) PutCounter(c pay.Counter, _, is money.Amount) error {
	if is.IsZero() {
		r.counters.delete(string(c))
	} else {
		r.counters.put(string(c), is)
	}
	return nil
}

// HasTransaction reports whether a payment has a transaction.
func (r *rows) HasTransaction(hash, paymentID string) (bool, error) {
	for id, p := range r.payments.ascending("") {
		if strings.EqualFold(p.Transaction, hash) && (paymentID == "" || paymentID == id) {
			return true, nil
		}
	}
	return false, nil
}

// Begin decides and writes one call's payment.
func (s *Store) Begin(ctx context.Context, want *pay.Begin) (begun pay.Begun, err error) {
	err = s.do(ctx, func(r *rows) error {
		begun, err = storekit.Begin(ctx, r, want)
		return err
	})
	if err != nil {
		return pay.Begun{}, err
	}
	if begun.Payment != nil {
		begun.Payment = begun.Payment.Clone()
	}
	return begun, nil
}

// Acquire takes the lease of a payment that no other owner holds.
func (s *Store) Acquire(ctx context.Context, id, owner string, now, until time.Time) (p *pay.Payment, err error) {
	err = s.do(ctx, func(r *rows) error {
		p, err = storekit.Acquire(r, id, owner, now, until)
		return err
	})
	if err != nil {
		return nil, err
	}
	return p.Clone(), nil
}

// Renew extends a lease.
func (s *Store) Renew(ctx context.Context, id string, fence uint64, until time.Time) error {
	return s.do(ctx, func(r *rows) error { return storekit.Renew(r, id, fence, until) })
}

// Record applies an outcome, even if its caller has left.
func (s *Store) Record(ctx context.Context, o pay.Outcome) (p *pay.Payment, fx pay.Effects, err error) {
	err = s.do(context.WithoutCancel(ctx), func(r *rows) error {
		p, fx, err = storekit.Record(ctx, r, o)
		return err
	})
	if err != nil {
		return nil, pay.Effects{}, err
	}
	return p.Clone(), fx, nil
}

// Lapse ends leases that ran out unreleased.
func (s *Store) Lapse(ctx context.Context, now time.Time, held func(string) bool) (n int, err error) {
	err = s.do(ctx, func(r *rows) error { return r.lapse(&now, held, &n) })
	return n, err
}

// lapse ends leases that ran out by now, nil: all, but those that are held, and counts them.
func (r *rows) lapse(now *time.Time, held func(string) bool, n *int) error {
	for id := range r.payments.ascending("") {
		if held != nil && held(id) {
			continue
		}
		did, err := storekit.Lapse(r, id, now)
		if err != nil {
			return err
		}
		if did {
			*n++
		}
	}
	return nil
}

// What follows makes the rows a storekit.Journal. Decide clones what it changes.

func (r *rows) ByIdempotencyKey(keyID, idempotencyKey string) (*pay.Payment, error) {
	for _, p := range r.payments.descending("") {
		if of, name, ok := p.LivesUnder(); ok && of == keyID && name == idempotencyKey {
			return p, nil
		}
	}
	return nil, nil
}

func (r *rows) VisitAwaited(keyID string, identity pay.Hash, now time.Time, visit func(id string) (bool, error)) error {
	var awaited []*pay.Payment
	for _, p := range r.payments.ascending("") {
		if p.KeyID == keyID && p.Identity == identity && p.Awaited() && !p.Retired && p.AwaitedUntil().After(now) {
			awaited = append(awaited, p)
		}
	}
	slices.SortStableFunc(awaited, func(a, b *pay.Payment) int {
		return a.AwaitedUntil().Compare(b.AwaitedUntil())
	})
	for _, p := range awaited {
		if more, err := visit(p.ID); err != nil || !more {
			return err
		}
	}
	return nil
}

// Payment finds a payment.
func (r *rows) Payment(id string) (*pay.Payment, error) {
	return r.payments.find(id, pay.ErrPaymentNotFound)
}

func (r *rows) CountUnanswered(keyID, host string, now time.Time, _ int) (n int, err error) {
	for _, p := range r.payments.ascending("") {
		if p.KeyID == keyID && p.Host == host && p.HoldsHost() && p.ValidBefore().After(now) {
			n++
		}
	}
	return n, nil
}

func (r *rows) Pause() (*pay.Pause, error) { return storekit.Setting[*pay.Pause](r, storekit.Paused) }

func (r *rows) PolicyRevision(keyID string) (uint64, error) {
	return r.keys.row[keyID].PolicyRevision, nil
}

func (r *rows) MayUse(keyID, owner, walletID string) (bool, error) {
	w, err := r.liveWallet(walletID)
	return err == nil && w.KeyID == owner && (owner == keyID || slices.Contains(r.lent, loan{keyID, walletID})), nil
}

func (r *rows) Plan(orgID string) (pay.PlanName, error) {
	org, _, err := r.OrganizationOf(orgID)
	return org.Plan, err
}

func (r *rows) Counter(c pay.Counter) (money.Amount, error) { return r.counters.row[string(c)], nil }

func (r *rows) VisitCounters(prefix pay.Counter, visit func(pay.Counter, money.Amount) bool) error {
	for c, amount := range r.counters.ascending("") {
		if strings.HasPrefix(c, string(prefix)) && !visit(pay.Counter(c), amount) {
			break
		}
	}
	return nil
}

func (r *rows) Restored() (*pay.Restore, error) {
	return storekit.Setting[*pay.Restore](r, storekit.Restoring)
}

func (r *rows) Attempts(keyID, idempotencyKey string) (n uint64, err error) {
	n = r.attempts[attemptsOf(keyID, idempotencyKey)]
	for _, p := range r.payments.ascending("") {
		if p.KeyID == keyID && p.IdempotencyKey == idempotencyKey {
			n = max(n, p.Attempt)
		}
	}
	return n, nil
}

// NonceTag marks the nonces of a key or of a withdrawal.
func (s *Store) NonceTag(of string, seed pay.NonceSeed) pay.NonceSeed {
	tag := pay.HashOf(s.rows.secret, "key tag", of, string(seed[:]))
	return pay.NonceSeed(tag[:len(seed)])
}

// Nonce derives the nonce of an attempt. It begins with the attempt's number, so that Reconciled
// can tell which attempt a nonce belongs to.
func (r *rows) Nonce(keyID, idempotencyKey string, attempt uint64) x402.Nonce {
	n := x402.Nonce(pay.HashOf(r.secret, keyID, idempotencyKey, fmt.Sprint(attempt)))
	binary.BigEndian.PutUint64(n[:], attempt)
	return n
}

func (r *rows) Reconciled(keyID, idempotencyKey string) (last *pay.Payment, attempt uint64, err error) {
	for _, p := range r.payments.ascending("") {
		n := binary.BigEndian.Uint64(p.Authorization.Nonce[:])
		if p.Reconciled && n > attempt && p.Authorization.Nonce == r.Nonce(keyID, idempotencyKey, n) {
			last, attempt = p, n
		}
	}
	return last, attempt, nil
}
