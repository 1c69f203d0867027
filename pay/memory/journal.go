package memory

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// payment finds a payment.
func (r *rows) payment(id string) (*pay.Payment, error) {
	return r.payments.find(id, pay.ErrPaymentNotFound)
}

// lapsed returns a payment whose lease has ended unreleased.
func lapsed(p *pay.Payment) *pay.Payment {
	p = p.Clone()
	p.Lapse()
	return p
}

// counted applies changes to copies of the counters.
func (r *rows) counted(changes []pay.CounterChange) (map[pay.Counter]x402.Amount, error) {
	values := map[pay.Counter]x402.Amount{}
	for _, c := range changes {
		have, ok := values[c.Counter]
		if !ok {
			have, _ = r.counters.get(string(c.Counter))
		}
		value, err := c.Apply(have)
		if err != nil {
			return nil, err
		}
		values[c.Counter] = value
	}
	return values, nil
}

// write writes a payment with the counters and the spend event that go with it. It writes
// nothing if it fails.
func (r *rows) write(p *pay.Payment, changes []pay.CounterChange, event *pay.SpendEvent) error {
	counters, err := r.counted(changes)
	if err != nil {
		return err
	}
	if event != nil {
		if _, taken := r.events.get(event.ID); taken || event.ID == "" {
			return fmt.Errorf("payment %s: spend event id %q is empty or taken", p.ID, event.ID)
		}
		r.events.put(event.ID, *event)
		of := dayOf(p.WalletID, event.Created)
		day, _ := r.left.get(of)
		day.Day = pay.DayOf(event.Created)
		day.Event(p, event)
		r.left.put(of, day)
	}
	for c, value := range counters {
		if value.IsZero() {
			r.counters.delete(string(c))
		} else {
			r.counters.put(string(c), value)
		}
	}
	r.payments.put(p.ID, p.Clone())
	return nil
}

// Begin decides and writes one call's payment.
func (s *Store) Begin(ctx context.Context, want *pay.Begin) (begun pay.Begun, err error) {
	err = s.change(ctx, func(r *rows) (c pay.Change, err error) {
		var changes []pay.CounterChange
		if begun, changes, err = want.Decide(view{r}); err != nil {
			return c, err
		}
		if !begun.Leased() {
			if err := r.ask(begun, want.Now); err != nil {
				return c, err
			}
			return c, pay.WriteNotices(noticeBook{r}, begun.Notices)
		}
		if begun.How == pay.Created {
			if _, taken := r.payments.get(begun.Payment.ID); taken || begun.Payment.ID == "" {
				return c, fmt.Errorf("payment id %q is empty or taken", begun.Payment.ID)
			}
			c = pay.PaymentBegun(begun.Payment)
		}
		if err := r.write(begun.Payment, changes, nil); err != nil {
			return c, err
		}
		if err := r.ask(begun, want.Now); err != nil {
			return c, err
		}
		return c, pay.WriteNotices(noticeBook{r}, begun.Notices)
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
		if p, err = r.payment(id); err != nil {
			return err
		}
		if p.Lease.Live(now) {
			return pay.ErrLeaseHeld
		}
		if p = p.Clone(); p.Lease.Owner != "" {
			p.Lapse()
		}
		p.Grant(owner, until)
		return r.write(p, nil, nil)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Renew extends a lease.
func (s *Store) Renew(ctx context.Context, id string, fence uint64, until time.Time) error {
	return s.do(ctx, func(r *rows) error {
		p, err := r.payment(id)
		if err != nil {
			return err
		}
		if p.Lease.Owner == "" || p.Lease.Fence != fence {
			return pay.ErrLeaseLost
		}
		p = p.Clone()
		p.Extend(until)
		return r.write(p, nil, nil)
	})
}

// Record applies an outcome, even if its caller has left.
func (s *Store) Record(ctx context.Context, o pay.Outcome) (p *pay.Payment, fx pay.Effects, err error) {
	err = s.change(context.WithoutCancel(ctx), func(r *rows) (c pay.Change, err error) {
		was, err := r.payment(o.PaymentID)
		if err != nil {
			return c, err
		}
		if o.Claims() && r.claimed(o) {
			return c, pay.ErrTransactionKnown
		}
		p = was.Clone()
		if fx, err = p.Apply(o); err != nil {
			return c, err
		}
		if o.Resolution != nil {
			c = pay.PaymentResolved(was, p)
		}
		if o.Canceling != nil {
			c = pay.PaymentCanceling(was, p)
		}
		if err := r.write(p, fx.Counters, fx.Event); err != nil {
			return c, err
		}
		return c, pay.WriteNotices(noticeBook{r}, fx.Notices)
	})
	if err != nil {
		return nil, pay.Effects{}, err
	}
	return p, fx, nil
}

// claimed reports whether the claimed transaction is recorded for another payment, and not for
// this one.
func (r *rows) claimed(o pay.Outcome) (others bool) {
	for id, p := range r.payments.ascending("") {
		if strings.EqualFold(p.Transaction, o.Transaction) {
			if id == o.PaymentID {
				return false
			}
			others = true
		}
	}
	return others
}

// Lapse ends leases that ran out unreleased.
func (s *Store) Lapse(ctx context.Context, now time.Time, held func(string) bool) (n int, err error) {
	err = s.do(ctx, func(r *rows) error {
		for id, p := range r.payments.ascending("") {
			if p.Lease.Owner != "" && !p.Lease.Live(now) && (held == nil || !held(id)) {
				r.payments.put(id, lapsed(p))
				n++
			}
		}
		return nil
	})
	return n, err
}

// view is the rows as pay.BeginView. Decide clones what it changes.
type view struct{ *rows }

func (v view) ByIdempotencyKey(keyID, idempotencyKey string) (*pay.Payment, error) {
	for _, p := range v.payments.descending("") {
		if p.KeyID == keyID && p.IdempotencyKey == idempotencyKey && p.Lives() && !p.Retired {
			return p, nil
		}
	}
	return nil, nil
}

func (v view) VisitAwaited(keyID string, identity pay.Hash, now time.Time, visit func(id string) (bool, error)) error {
	var awaited []*pay.Payment
	for _, p := range v.payments.ascending("") {
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

func (v view) Payment(id string) (*pay.Payment, error) { return v.payment(id) }

func (v view) CountUnanswered(keyID, host string, now time.Time, _ int) (n int, err error) {
	for _, p := range v.payments.ascending("") {
		if p.KeyID == keyID && p.Host == host && p.HoldsHost() && p.ValidBefore().After(now) {
			n++
		}
	}
	return n, nil
}

func (v view) Pause() (*pay.Pause, error) { return v.pause, nil }

func (v view) PolicyRevision(keyID string) (uint64, error) {
	return v.keys.row[keyID].PolicyRevision, nil
}

func (v view) MayUse(keyID, owner, walletID string) (bool, error) {
	w, err := v.liveWallet(walletID)
	return err == nil && w.KeyID == owner && (owner == keyID || slices.Contains(v.lent, loan{keyID, walletID})), nil
}

func (v view) Plan(orgID string) (pay.PlanName, error) {
	org, _, _ := v.organization(orgID)
	return org.Plan, nil
}

func (v view) Counter(c pay.Counter) (x402.Amount, error) { return v.counters.row[string(c)], nil }

func (v view) VisitCounters(prefix pay.Counter, visit func(pay.Counter, x402.Amount) bool) error {
	for c, amount := range v.counters.ascending("") {
		if strings.HasPrefix(c, string(prefix)) && !visit(pay.Counter(c), amount) {
			break
		}
	}
	return nil
}

func (v view) Restored() (*pay.Restore, error) { return v.restore, nil }

func (v view) Attempts(keyID, idempotencyKey string) (n uint64, err error) {
	n = v.attempts[attemptsOf(keyID, idempotencyKey)]
	for _, p := range v.payments.ascending("") {
		if p.KeyID == keyID && p.IdempotencyKey == idempotencyKey {
			n = max(n, p.Attempt)
		}
	}
	return n, nil
}

// Nonce derives the nonce of an attempt. It begins with the attempt's number, so that Reconciled
// can tell which attempt a nonce belongs to.
// KeyTag marks the nonces of a key.
func (s *Store) KeyTag(keyID string, seed pay.NonceSeed) pay.NonceSeed {
	tag := pay.HashOf(s.rows.secret, "key tag", keyID, string(seed[:]))
	return pay.NonceSeed(tag[:len(seed)])
}

func (v view) Nonce(keyID, idempotencyKey string, attempt uint64) x402.Nonce {
	n := x402.Nonce(pay.HashOf(v.secret, keyID, idempotencyKey, fmt.Sprint(attempt)))
	binary.BigEndian.PutUint64(n[:], attempt)
	return n
}

func (v view) Reconciled(keyID, idempotencyKey string) (last *pay.Payment, attempt uint64, err error) {
	for _, p := range v.payments.ascending("") {
		n := binary.BigEndian.Uint64(p.Authorization.Nonce[:])
		if p.Reconciled && n > attempt && p.Authorization.Nonce == v.Nonce(keyID, idempotencyKey, n) {
			last, attempt = p, n
		}
	}
	return last, attempt, nil
}
