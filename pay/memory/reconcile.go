package memory

import (
	"context"
	"encoding/json"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// Restore puts the store into reconcile mode, as opening a backup does. It ends all leases,
// sessions and approvals.
func (s *Store) Restore(restore pay.Restore) {
	s.Reopen()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows.sessions = table[pay.Session]{}
	_ = s.rows.PutRestored(&restore) // memory does not fail
	for id, a := range s.rows.approvals.ascending("") {
		s.rows.approvals.put(id, a.Restored())
	}
}

// Restored says what is to be reconciled.
func (s *Store) Restored(ctx context.Context) (*pay.Restore, error) {
	return read(ctx, s, func(r *rows) (*pay.Restore, error) { return r.Restored() })
}

// Reconcile books what the chain told of.
func (s *Store) Reconcile(ctx context.Context, step pay.ReconcileStep) (booked []*pay.Payment, err error) {
	err = s.do(ctx, func(r *rows) error {
		booked, err = storekit.Reconcile(r, step)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, p := range booked {
		booked[i] = p.Clone()
	}
	return booked, nil
}

// PutRestored replaces what is to be reconciled.
func (r *rows) PutRestored(restore *pay.Restore) error {
	text, err := json.Marshal(restore)
	if err != nil {
		return err
	}
	return r.PutSetting(storekit.Restoring, text)
}

// KnowsAuthorization reports whether a payment has the same authorization.
func (r *rows) KnowsAuthorization(p *pay.Payment) (bool, error) {
	for id, q := range r.payments.ascending("") {
		if id == p.ID || q.Authorization.From == p.Authorization.From && q.Authorization.Nonce == p.Authorization.Nonce {
			return true, nil
		}
	}
	return false, nil
}

// EndReconciling lets payments begin again.
func (s *Store) EndReconciling(ctx context.Context, _ time.Time) error {
	return s.do(ctx, func(r *rows) error {
		if _, err := storekit.Restored(r); err != nil {
			return err
		}
		return r.PutSetting(storekit.Restoring, nil)
	})
}
