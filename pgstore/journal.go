package pgstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// NonceTag marks the nonces of a key or of a withdrawal.
func (d *DB) NonceTag(of string, seed pay.NonceSeed) pay.NonceSeed {
	return codec.NonceTag(d.vault.Derive, of, seed)
}

// rehearse asks what a decision will ask: it decides on books that have nothing, and writes nothing.
func (d *DB) rehearse(ctx context.Context, s *state, want *pay.Begin) {
	s.rehearsed = want
	defer func() { s.rehearsed = nil }()
	_, _ = s.ask(askSetting, settingMinimum, "")
	_ = guard(func() error {
		_, err := storekit.Begin(ctx, d.work(s), want)
		return err
	})
}

// Begin decides and writes the payment of one call.
func (d *DB) Begin(ctx context.Context, want *pay.Begin) (pay.Begun, error) {
	var begun pay.Begun
	shared := []pay.Counter{want.Place.Counter}
	for _, l := range want.Limits {
		shared = append(shared, l.Counter)
	}
	locks := locksOf(want.KeyID, shared)
	if want.Parent != nil {
		locks = append(locks, keyLock(want.Parent.KeyID))
	}
	o := &op{
		locks: locks,
		wants: func(s *state) { d.rehearse(ctx, s, want) },
		run: func(s *state) (err error) {
			begun, err = d.begin(ctx, s, want)
			return err
		},
	}
	if p := want.New; p != nil && p.Bound { // keys may share the wallet
		o.locks = append(o.locks, hashLock(string(p.Authorization.Nonce[:])))
	}
	o.granted = func() (*pay.Payment, bool) {
		if !begun.Leased() {
			return nil, false
		}
		return begun.Payment, begun.How == pay.Created
	}
	o.done = func() {
		if begun.Leased() {
			d.outage.hold(begun.Payment)
		}
	}
	if err := d.do(ctx, o); err != nil {
		return pay.Begun{}, err
	}
	if begun.Payment != nil {
		begun.Payment = begun.Payment.Clone() // the batch has its own
	}
	return begun, nil
}

func (d *DB) begin(ctx context.Context, s *state, want *pay.Begin) (begun pay.Begun, err error) {
	if want, err = d.admit(ctx, s, want); err != nil {
		return pay.Begun{}, err
	}
	err = d.decide(s, func(w *work) error {
		begun, err = storekit.Begin(ctx, w, want)
		return err
	})
	if err != nil {
		return pay.Begun{}, err
	}
	if begun.Leased() {
		d.scopes.Add(begun.Payment.ID, scopeOf(begun.Payment))
	}
	return begun, nil
}

// scope holds what the outcomes of a payment decide about. It never changes.
type scope struct {
	locks        []string
	key          string
	reservations []pay.Reservation
}

func scopeOf(p *pay.Payment) scope {
	of := scope{key: p.KeyID, reservations: slices.Clone(p.Reservations)}
	counters := make([]pay.Counter, 0, len(p.Reservations))
	for _, r := range p.Reservations {
		counters = append(counters, r.Counter)
	}
	of.locks = locksOf(p.KeyID, counters)
	return of
}

// on returns an operation on a payment.
func (d *DB) on(id string, run func(*state) error) *op {
	o := &op{run: run, wants: func(s *state) { s.want(question{askPayment, id, ""}) }}
	if known, ok := d.scopes.Get(id); ok {
		o.locks = known.locks
		return o
	}
	o.find = func(ctx context.Context) ([]string, error) {
		p, err := d.Payment(ctx, id)
		if err != nil {
			return nil, err
		}
		of := scopeOf(p)
		d.scopes.Add(id, of)
		return of.locks, nil
	}
	return o
}

// hashLock names the lock of the transactions and of the bound nonces whose hashes begin alike.
func hashLock(text string) string {
	hash := hashed(text)
	return transactionLock(int(hash[0])<<4 | int(hash[1])>>4)
}

// claiming adds the lock of the transaction that an outcome claims: payments of different keys must not claim
// one at the same time.
func (o *op) claiming(out pay.Outcome) *op {
	if !out.Claims() {
		return o
	}
	name := hashLock(transactionKey(out.Transaction))
	if find := o.find; find != nil {
		o.find = func(ctx context.Context) ([]string, error) {
			names, err := find(ctx)
			return slices.Concat(names, []string{name}), err
		}
	}
	if o.locks != nil {
		o.locks = slices.Concat(o.locks, []string{name})
	}
	return o
}

// Acquire takes the lease of a payment that no other owner holds.
func (d *DB) Acquire(ctx context.Context, id, owner string, now, until time.Time) (p *pay.Payment, err error) {
	o := d.on(id, func(s *state) error {
		return d.decide(s, func(w *work) error {
			p, err = storekit.Acquire(w, id, owner, now, until)
			return err
		})
	})
	o.granted, o.done = func() (*pay.Payment, bool) { return p, false }, func() { d.outage.hold(p) }
	if err := d.do(ctx, o); err != nil {
		return nil, err
	}
	return p.Clone(), nil
}

// Renew extends a lease, but not while the database cannot be written: another node may take it.
func (d *DB) Renew(ctx context.Context, id string, fence uint64, until time.Time) error {
	return d.do(ctx, d.on(id, func(s *state) error {
		return d.decide(s, func(w *work) error { return storekit.Renew(w, id, fence, until) })
	}))
}

// Record applies an outcome. The outcome is written even if its caller leaves. While the database cannot
// be written, it is kept: pay.ErrQueued.
func (d *DB) Record(ctx context.Context, out pay.Outcome) (p *pay.Payment, fx pay.Effects, err error) {
	o := d.on(out.PaymentID, func(s *state) (err error) {
		p, fx, err = d.record(ctx, s, out)
		return err
	})
	o.claiming(out)
	o.wants, o.outlivesCaller = d.wantOutcome(out), true
	o.done = func() { d.wrote(p) }
	o.keep = func(ctx context.Context) (*pay.Payment, pay.Outcome, error) {
		p, fx, err = d.keepOutcome(ctx, out)
		return p, out, err
	}
	switch err := d.do(ctx, o); {
	case err == nil, errors.Is(err, pay.ErrQueued):
		return p.Clone(), fx, err
	default:
		return nil, pay.Effects{}, err
	}
}

// wrote takes note of the row that an outcome has left.
func (d *DB) wrote(p *pay.Payment) {
	if d.outage.hold(p); p.Lease.Owner == "" {
		d.scopes.Remove(p.ID) // most payments have no further outcome
		d.bell.leaseEnded(p.ID)
	}
}

// wantOutcome asks what an outcome will ask.
func (d *DB) wantOutcome(out pay.Outcome) func(*state) {
	return func(s *state) {
		s.want(question{askPayment, out.PaymentID, ""})
		d.expectOutcome(s, out)
		if out.Claims() {
			s.want(question{askTransaction, transactionKey(out.Transaction), ""})
		}
	}
}

// expectOutcome asks what closing a payment will ask.
func (d *DB) expectOutcome(s *state, out pay.Outcome) {
	of, known := d.scopes.Get(out.PaymentID)
	if !known || out.Verdict == pay.Unclear && !out.Evident {
		return
	}
	for _, r := range of.reservations {
		given := out.Verdict == pay.VerdictSettled && r.Release&pay.AtSettled != 0 || out.Evident && r.Release&pay.AtEvidence != 0
		if given || out.Verdict != pay.VerdictSettled {
			s.want(question{askCounter, string(r.Counter), ""})
		}
		if moved := r.Moved(); given && moved != "" {
			s.want(question{askCounter, string(moved), ""})
		}
	}
	if out.EventID != "" {
		s.want(dayQuestion(of.key, dayNumber(out.At)))
	}
}

func (d *DB) record(ctx context.Context, s *state, out pay.Outcome) (p *pay.Payment, fx pay.Effects, err error) {
	err = d.decide(s, func(w *work) error {
		p, fx, err = storekit.Record(ctx, w, out)
		return err
	})
	return p, fx, err
}

// Lapse ends leases that ran out unreleased.
func (d *DB) Lapse(ctx context.Context, now time.Time, held func(string) bool) (int, error) {
	total, after, afterID := 0, int64(-1), ""
	for {
		ids, read := []string{}, 0
		err := d.each(ctx, func(r pgx.Rows) error {
			if err := r.Scan(&afterID, &after); err != nil {
				return err
			}
			if read++; held == nil || !held(afterID) {
				ids = append(ids, afterID)
			}
			return nil
		}, `SELECT id, leased FROM payments WHERE leased <= $1 AND (leased, id) > ($2, $3) ORDER BY leased, id LIMIT $4`, nanoseconds(now), after, afterID, maxBatch)
		if err != nil {
			return total, err
		}
		for _, id := range ids {
			did, err := d.lapse(ctx, id, now)
			if err != nil {
				return total, err
			}
			total += did
		}
		if read < maxBatch {
			return total, nil
		}
	}
}

func (d *DB) lapse(ctx context.Context, id string, now time.Time) (n int, err error) {
	err = d.do(ctx, d.on(id, func(s *state) error {
		return d.decide(s, func(w *work) error {
			did, err := storekit.Lapse(w, id, &now)
			if n = 0; did {
				n = 1
			}
			return err
		})
	}))
	return n, err
}
