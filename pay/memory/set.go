package memory

import (
	"maps"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// SetPayment writes a row past all rules, for tests whose state takes too long to reach.
func (s *Store) SetPayment(p *pay.Payment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows.payments.put(p.ID, p.Clone())
}

// SetCounter writes a counter past all rules, for tests whose state takes too long to reach.
func (s *Store) SetCounter(c pay.Counter, amount x402.Amount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows.counters.put(string(c), amount)
}

// Counters copies all counters above zero.
func (s *Store) Counters() map[string]x402.Amount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.rows.counters.row)
}
