package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
)

// The database fails over to a synchronous standby under load. Each payment that a caller heard of is there,
// and each outcome is written once, also those that were kept meanwhile.
func TestFailover(t *testing.T) {
	t.Parallel()
	const callers, payments = 16, 600
	first := pgtest.Start(t)
	second := first.Standby(t)
	url := strings.Replace(fresh(t, first), first.URL, first.With(second), 1)
	nodes := []*pgstore.DB{node(t, pgstore.Options{URL: url, Dir: t.TempDir()}), node(t, pgstore.Options{URL: url, Dir: t.TempDir()})}
	k := keyOn(t, nodes[0])
	var mu sync.Mutex
	var paid []*pay.Payment
	half := make(chan struct{})
	var all sync.WaitGroup
	for i := range callers {
		d := nodes[i%len(nodes)]
		all.Go(func() {
			for {
				begun, err := insist(t.Context(), func() (pay.Begun, error) { return d.Begin(t.Context(), callOf(k, d.Now())) })
				if err != nil {
					t.Error(err)
					return
				}
				_, _, err = d.Record(context.WithoutCancel(t.Context()), settledOf(begun.Payment))
				if err != nil && !errors.Is(err, pay.ErrQueued) {
					t.Error(err)
					return
				}
				mu.Lock()
				paid = append(paid, begun.Payment)
				n := len(paid)
				mu.Unlock()
				if n == payments/2 {
					close(half)
				}
				if n >= payments {
					return
				}
			}
		})
	}
	<-half
	first.Stop(t)
	second.Promote(t)
	all.Wait()
	for _, d := range nodes {
		wait(t, "writing again", func() bool { return d.Stats().Down == "" && d.Stats().Queued == 0 })
	}
	n := 0
	for _, p := range paid {
		is, err := nodes[0].Payment(t.Context(), p.ID)
		if err != nil || is.State != pay.Settled || is.Lease.Owner != "" || len(is.Notes) != 1 {
			t.Errorf("payment %s: %+v, %v", p.ID, is, err)
		}
		n++
	}
	settled, err := nodes[1].CountOpen(t.Context(), string(pay.Settled))
	if err != nil || settled != n {
		t.Errorf("%d payments are settled, and callers know %d, %v", settled, n, err)
	}
	if err := nodes[0].Check(t.Context()); err != nil {
		t.Error(err)
	}
}
