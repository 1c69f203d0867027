package memory

import (
	"maps"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// SetPayment writes a row past all rules, for tests whose state takes too long to reach.
func (s *Store) SetPayment(p *pay.Payment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows.payments.put(p.ID, p.Clone())
}

// SetCounter writes a counter past all rules, for tests whose state takes too long to reach.
func (s *Store) SetCounter(c pay.Counter, amount money.Amount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows.counters.put(string(c), amount)
}

// Counters copies all counters above zero.
func (s *Store) Counters() map[string]money.Amount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.rows.counters.row)
}
