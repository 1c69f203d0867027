package pay_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// countedUses counts what is written of the use of keys.
type countedUses struct {
	pay.Store
	written atomic.Int64
}

func (c *countedUses) NoteUse(ctx context.Context, u pay.Use) error {
	c.written.Add(1)
	return c.Store.NoteUse(ctx, u)
}

// However many requests come, a use is written once per key and door in ten minutes.
func TestUsesAreWrittenSeldom(t *testing.T) {
	t.Parallel()
	var store countedUses
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	w := newWorld(t, func(o *pay.Options) {
		store.Store, o.Store, o.Clock = o.Store, &store, func() time.Time { return now }
	})
	for range 3 {
		for range 100 {
			w.payer.NoteUse(w.key.ID, policy.DoorProxy)
			w.payer.NoteUse(w.key.ID, policy.DoorAPI)
			w.payer.NoteUse("", policy.DoorAPI)
		}
		now = now.Add(pay.UseEvery - time.Minute)
	}
	w.restart() // the old one ends what it has begun
	if n := store.written.Load(); n != 4 {
		t.Errorf("%d writes", n)
	}
	if k := must(w.store.Key(t.Context(), w.key.ID)); len(k.Used) != 2 || k.Used[policy.DoorProxy].IsZero() {
		t.Errorf("used %v", k.Used)
	}
}
