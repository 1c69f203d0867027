package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// KeyTag marks the nonces of a key.
func (d *DB) KeyTag(keyID string, seed pay.NonceSeed) pay.NonceSeed {
	return codec.KeyTag(d.vault.Derive, keyID, seed)
}

// habit names the calls whose decisions ask alike.
func habit(b *pay.Begin) string {
	if b.New == nil {
		return b.KeyID
	}
	return b.KeyID + "\x00" + b.New.Host + "\x00" + b.New.Task + "\x00" + b.New.Created.UTC().Format(time.DateOnly)
}

// expect asks what the decision will ask.
func (d *DB) expect(s *state, b *pay.Begin) {
	s.want(question{askKey, b.KeyID, ""}, question{askSetting, settingPause, ""}, question{askSetting, settingRestored, ""}, question{askSetting, settingMinimum, ""})
	if b.IdempotencyKey != "" {
		hash := hashed(b.IdempotencyKey)
		s.want(ofKey(askLiving, b.KeyID, hash), question{askAttempts, b.KeyID, hash},
			question{askReconciled, string(codec.NoncesOf(d.vault.Derive, b.KeyID, b.IdempotencyKey).Prefix()), ""})
	} else {
		s.want(ofKey(askAwaited, b.KeyID, string(b.Identity[:])))
	}
	if b.OrganizationID != "" {
		s.want(question{askPlan, b.OrganizationID, ""})
	}
	if b.Place.Counter != "" {
		s.want(question{askCounter, string(b.Place.Counter), ""})
	}
	for _, l := range b.Limits {
		s.want(question{askCounter, string(l.Counter), ""})
		if moved := l.Moved(); l.Max != nil && moved != "" {
			s.want(question{askCounter, string(moved), ""})
		}
	}
	for _, name := range b.Redirects.Marks() {
		s.want(question{askMark, name, ""})
	}
	if p := b.New; p != nil {
		if b.MaxUnanswered > 0 {
			s.want(ofKey(askHost, b.KeyID, hashed(p.Host)))
		}
		if b.WalletOwner != "" {
			s.want(question{askUse, p.WalletID, b.KeyID})
		}
	}
	if known, ok := d.habits.Get(habit(b)); ok {
		for _, text := range known {
			s.want(question{kind(text[0]), text[1:], ""})
		}
	}
}

// learn remembers the questions that expect did not foresee.
func (d *DB) learn(s *state, b *pay.Begin) {
	name := habit(b)
	known, _ := d.habits.Get(name)
	list := known[:len(known):len(known)]
	for _, q := range slices.Collect(maps.Keys(s.missing)) {
		if q.kind == askCounter || q.kind == askCounters || q.kind == askMark {
			for _, name := range monthOf(q) {
				s.missing[question{q.kind, name, ""}] = true
				list = append(list, string(rune(q.kind))+name)
			}
		}
	}
	if len(list) > len(known) && len(list) < maxHabits {
		d.habits.Add(name, list)
	}
}

// maxHabits bounds the questions that are remembered for similar calls.
const maxHabits = 200

var dated = regexp.MustCompile(`/\d{4}-\d{2}-\d{2}/`)

// monthOf returns the names that are asked for together: budgets of a month ask for one day after the
// other.
func monthOf(q question) []string {
	at := dated.FindStringIndex(q.a)
	if q.kind != askCounters || at == nil {
		return []string{q.a}
	}
	day, err := time.Parse("/"+time.DateOnly+"/", q.a[at[0]:at[1]])
	if err != nil {
		return []string{q.a}
	}
	names := []string{}
	for d := day.AddDate(0, 0, 1-day.Day()); d.Month() == day.Month(); d = d.AddDate(0, 0, 1) {
		names = append(names, q.a[:at[0]]+d.Format("/"+time.DateOnly+"/")+q.a[at[1]:])
	}
	return names
}

// Begin decides and writes the payment of one call.
func (d *DB) Begin(ctx context.Context, want *pay.Begin) (pay.Begun, error) {
	var begun pay.Begun
	shared := []pay.Counter{want.Place.Counter}
	for _, l := range want.Limits {
		shared = append(shared, l.Counter)
	}
	o := &op{
		locks: locksOf(want.KeyID, shared),
		wants: func(s *state) { d.expect(s, want) },
	}
	o.run = func(s *state) (err error) {
		begun, err = d.begin(ctx, s, want)
		if len(s.missing) > 0 {
			d.learn(s, want)
		}
		return err
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
	want, err = d.admit(ctx, s, want)
	if err != nil {
		return pay.Begun{}, err
	}
	begun, changes, err := want.Decide(view{s, d.vault.Derive})
	if len(s.unlocked) > 0 {
		return pay.Begun{}, errLocks
	}
	if err != nil || len(s.missing) > 0 {
		return pay.Begun{}, err
	}
	notes := newBook(s)
	if err := errors.Join(s.mayAsk(begun), pay.WriteNotices(notes, begun.Notices)); err != nil {
		return pay.Begun{}, err
	}
	if !begun.Leased() {
		s.askFor(begun, want.Now)
		notes.merge()
		return begun, nil
	}
	p, created := begun.Payment, begun.How == pay.Created
	var entry *pay.AuditEntry
	if created {
		if err := s.mayCreate(p); err != nil {
			return pay.Begun{}, err
		}
		if entry, err = pay.PaymentBegun(p).Entry(ctx, d.clock()); err != nil {
			return pay.Begun{}, err
		}
	}
	if err := s.count(changes); err != nil {
		return pay.Begun{}, err
	}
	s.askFor(begun, want.Now)
	notes.merge()
	s.enter(entry)
	s.save(p, created)
	d.scopes.Add(p.ID, scopeOf(p))
	return begun, nil
}

// mayCreate refuses a new payment whose id is taken.
func (s *state) mayCreate(p *pay.Payment) error {
	if _, own := s.payments[p.ID]; p.ID == "" || own && s.payments[p.ID] != nil {
		return fmt.Errorf("payment id %q is empty or taken", p.ID)
	}
	if !s.careful {
		return nil
	}
	switch _, err := s.payment(p.ID); {
	case errors.Is(err, pay.ErrPaymentNotFound):
		return nil
	case err == nil:
		return fmt.Errorf("payment id %q is taken", p.ID)
	default:
		return err
	}
}

func (s *state) enter(e *pay.AuditEntry) {
	if e != nil {
		s.audit = append(s.audit, e)
	}
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

// claiming adds the lock of the transaction that an outcome claims: payments of different keys must not claim
// one at the same time.
func (o *op) claiming(out pay.Outcome) *op {
	if !out.Claims() {
		return o
	}
	hash := hashed(transactionKey(out.Transaction))
	name := transactionLock(int(hash[0])<<4 | int(hash[1])>>4)
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
		was, err := s.payment(id)
		if err != nil {
			return err
		}
		if was.Lease.Live(now) {
			return pay.ErrLeaseHeld
		}
		if p = was.Clone(); p.Lease.Owner != "" {
			p.Lapse()
		}
		p.Grant(owner, until)
		s.save(p, false)
		return nil
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
		was, err := s.payment(id)
		if err != nil {
			return err
		}
		if was.Lease.Fence != fence || was.Lease.Owner == "" {
			return pay.ErrLeaseLost
		}
		p := was.Clone()
		p.Extend(until)
		s.save(p, false)
		return nil
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
		s.expectDay(of.key, out.At)
	}
}

func (d *DB) record(ctx context.Context, s *state, out pay.Outcome) (*pay.Payment, pay.Effects, error) {
	was, err := s.payment(out.PaymentID)
	if err != nil {
		return nil, pay.Effects{}, err
	}
	if out.Claims() {
		q, err := s.ask(askTransaction, transactionKey(out.Transaction), "")
		if err != nil {
			return nil, pay.Effects{}, err
		}
		if set := s.sets[q]; len(set) > 0 && !set[out.PaymentID] {
			return nil, pay.Effects{}, pay.ErrTransactionKnown
		}
	}
	p := was.Clone()
	fx, err := p.Apply(out)
	if err != nil {
		return nil, pay.Effects{}, err
	}
	var changes []*pay.AuditEntry
	for _, c := range []struct {
		made   bool
		change func() pay.Change
	}{
		{out.Resolution != nil, func() pay.Change { return pay.PaymentResolved(was, p) }},
		{out.Canceling != nil, func() pay.Change { return pay.PaymentCanceling(was, p) }},
	} {
		if c.made {
			e, err := c.change().Entry(ctx, d.clock())
			if err != nil {
				return nil, pay.Effects{}, err
			}
			changes = append(changes, e)
		}
	}
	notes := newBook(s)
	if err := s.write(p, fx, notes); err != nil {
		return nil, pay.Effects{}, err
	}
	for _, e := range changes {
		s.enter(e)
	}
	return p, fx, nil
}

// write saves a payment with the effects of a change.
func (s *state) write(p *pay.Payment, fx pay.Effects, notes *book) error {
	if fx.Event != nil {
		if err := errors.Join(s.mayBook(p, fx.Event), s.prepare(fx.Event)); err != nil {
			return err
		}
	}
	if err := pay.WriteNotices(notes, fx.Notices); err != nil {
		return err
	}
	if err := s.count(fx.Counters); err != nil {
		return err
	}
	if fx.Event != nil {
		s.event(p, fx.Event)
	}
	notes.merge()
	s.save(p, false)
	return nil
}

// mayBook refuses an event without an id. One that is taken fails in the database.
func (s *state) mayBook(p *pay.Payment, e *pay.SpendEvent) error {
	for _, other := range s.events {
		if other.ID == e.ID {
			return fmt.Errorf("payment %s: spend event id %q is taken", p.ID, e.ID)
		}
	}
	if e.ID == "" {
		return fmt.Errorf("payment %s: spend event id %q is empty", p.ID, e.ID)
	}
	if !s.careful {
		return nil
	}
	q, err := s.ask(askEvent, e.ID, "")
	if err == nil && s.eventIDs[q.a] {
		err = fmt.Errorf("payment %s: spend event id %q is taken", p.ID, e.ID)
	}
	return err
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
		n = 0
		was, err := s.payment(id)
		if err != nil || was.Lease.Owner == "" || was.Lease.Live(now) {
			return err
		}
		p := was.Clone()
		p.Lapse()
		s.save(p, false)
		n = 1
		return nil
	}))
	return n, err
}
