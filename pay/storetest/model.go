package storetest

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// model is a store without files, indexes or neighbours: it walks all it has. It lets
// package pay decide, as every store does.
type model struct {
	rows     map[string]*pay.Payment
	counters map[pay.Counter]x402.Amount
	events   []pay.SpendEvent
	policies map[string]uint64 // key id -> how often its policy was set
	restore  *pay.Restore
	// nonce is what the store derived for the payment that is begun: its secret is its own.
	nonce x402.Nonce
}

func newModel() *model {
	return &model{rows: map[string]*pay.Payment{}, counters: map[pay.Counter]x402.Amount{}, policies: map[string]uint64{}}
}

// sorted are the rows that a condition holds for, oldest first.
func (m *model) sorted(which func(*pay.Payment) bool) (list []*pay.Payment) {
	for _, p := range m.rows {
		if which(p) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pay.Payment) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func (m *model) ByIdempotencyKey(keyID, idempotencyKey string) (*pay.Payment, error) {
	list := m.sorted(func(p *pay.Payment) bool {
		return p.KeyID == keyID && p.IdempotencyKey == idempotencyKey && p.Lives() && !p.Retired
	})
	if len(list) == 0 {
		return nil, nil
	}
	return list[len(list)-1], nil
}

func (m *model) VisitAwaited(keyID string, identity pay.Hash, now time.Time, visit func(id string) (bool, error)) error {
	list := m.sorted(func(p *pay.Payment) bool {
		return p.KeyID == keyID && p.Identity == identity && p.Awaited() && !p.Retired &&
			p.ValidBefore().Add(pay.RepeatGrace).After(now)
	})
	slices.SortStableFunc(list, func(a, b *pay.Payment) int { return a.ValidBefore().Compare(b.ValidBefore()) })
	for _, p := range list {
		if more, err := visit(p.ID); err != nil || !more {
			return err
		}
	}
	return nil
}

func (m *model) Payment(id string) (*pay.Payment, error) {
	if p := m.rows[id]; p != nil {
		return p, nil
	}
	return nil, pay.ErrPaymentNotFound
}

func (m *model) CountUnanswered(keyID, host string, now time.Time, _ int) (int, error) {
	return len(m.sorted(func(p *pay.Payment) bool {
		return p.KeyID == keyID && p.Host == host && p.HoldsHost() && p.ValidBefore().After(now)
	})), nil
}

func (m *model) Counter(c pay.Counter) (x402.Amount, error) { return m.counters[c], nil }

func (m *model) VisitCounters(prefix pay.Counter, visit func(pay.Counter, x402.Amount) bool) error {
	for c, amount := range m.counters {
		if strings.HasPrefix(string(c), string(prefix)) && !amount.IsZero() && !visit(c, amount) {
			break
		}
	}
	return nil
}

func (m *model) PolicyRevision(keyID string) (uint64, error) { return m.policies[keyID], nil }

// The model's keys are unclaimed.
func (m *model) Plan(string) (pay.PlanName, error) { return pay.PlanFree, nil }

func (m *model) Restored() (*pay.Restore, error) { return m.restore, nil }

func (m *model) Attempts(keyID, idempotencyKey string) (n uint64, err error) {
	for _, p := range m.rows {
		if p.KeyID == keyID && p.IdempotencyKey == idempotencyKey {
			n = max(n, p.Attempt)
		}
	}
	return n, nil
}

func (m *model) Pause() (*pay.Pause, error) { return nil, nil }

func (m *model) Nonce(string, string, uint64) x402.Nonce { return m.nonce }

func (m *model) Reconciled(string, string) (*pay.Payment, uint64, error) { return nil, 0, nil }

func (m *model) count(changes []pay.CounterChange) {
	for _, c := range changes {
		if c.Set {
			m.counters[c.Counter] = c.Amount
		} else if c.Add {
			m.counters[c.Counter], _ = m.counters[c.Counter].Add(c.Amount)
		} else if less, under := m.counters[c.Counter].Sub(c.Amount); under {
			m.counters[c.Counter] = x402.Amount{}
		} else {
			m.counters[c.Counter] = less
		}
	}
}

func (m *model) begin(b *pay.Begin) (pay.Begun, error) {
	begun, changes, err := b.Decide(m)
	if err == nil && begun.Leased() {
		m.rows[begun.Payment.ID] = begun.Payment
		m.count(changes)
	}
	return begun, err
}

func (m *model) record(o pay.Outcome) (*pay.Payment, error) {
	was, err := m.Payment(o.PaymentID)
	if err != nil {
		return nil, err
	}
	if o.ClaimedTransaction && o.Verdict == pay.VerdictSettled && o.Transaction != "" && was.Transaction != o.Transaction {
		if others := m.sorted(func(p *pay.Payment) bool { return p.Transaction == o.Transaction }); others != nil {
			return nil, pay.ErrTransactionKnown
		}
	}
	p := was.Clone()
	fx, err := p.Apply(o)
	if err != nil {
		return nil, err
	}
	m.rows[p.ID] = p
	m.count(fx.Counters)
	if fx.Event != nil {
		m.events = append(m.events, *fx.Event)
	}
	return p, nil
}

func (m *model) acquire(id, owner string, now, until time.Time) (*pay.Payment, error) {
	was, err := m.Payment(id)
	if err != nil {
		return nil, err
	}
	if was.Lease.Live(now) {
		return nil, pay.ErrLeaseHeld
	}
	p := was.Clone()
	if p.Lease.Owner != "" {
		p.Lapse()
	}
	p.Grant(owner, until)
	m.rows[id] = p
	return p, nil
}

func (m *model) renew(id string, fence uint64, until time.Time) error {
	was, err := m.Payment(id)
	if err != nil {
		return err
	}
	if was.Lease.Owner == "" || was.Lease.Fence != fence {
		return pay.ErrLeaseLost
	}
	p := was.Clone()
	p.Lease.Until = until
	m.rows[id] = p
	return nil
}

func (m *model) lapse(now time.Time) int {
	list := m.sorted(func(p *pay.Payment) bool { return p.Lease.Owner != "" && !p.Lease.Live(now) })
	for _, was := range list {
		p := was.Clone()
		p.Lapse()
		m.rows[p.ID] = p
	}
	return len(list)
}

// alike reports whether two errors mean the same to a caller.
func alike(got, want error) bool {
	if got == nil || want == nil {
		return got == nil && want == nil
	}
	for _, class := range []error{pay.ErrLeaseLost, pay.ErrLeaseHeld, pay.ErrTransactionKnown, pay.ErrPaymentNotFound} {
		if errors.Is(want, class) {
			return errors.Is(got, class)
		}
	}
	return got.Error() == want.Error()
}
