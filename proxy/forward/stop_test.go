package forward

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

func (w *world) stop(do pay.Stop) {
	w.T.Helper()
	if _, err := w.Books.StopKey(context.Background(), w.Key.ID, pay.KeyStop{Do: do}); err != nil {
		w.T.Fatal(err)
	}
}

// Paused, the seller's 402 passes, and what has left already is driven on.
func TestPaused(t *testing.T) {
	t.Parallel()
	for name, switches := range map[string]func(*world) (pause, resume func()){
		"key": func(w *world) (func(), func()) {
			return func() { w.stop(pay.StopPause) }, func() { w.stop(pay.StopResume) }
		},
		"everything": func(w *world) (func(), func()) {
			return func() { _, _ = w.Books.PauseAll(context.Background(), "why") }, func() { _ = w.Books.ResumeAll(context.Background()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := proxytest.NewSeller(t)
			pause, resume := switches(w)
			s.LoseAnswers(1)
			lost := w.get(s.URL + "/lost").Problem(t)
			pause()
			w.get(s.URL+"/new").Declined(t, pay.RulePaused, true)
			w.Closed(lost.Payment.ID)
			if id := w.get(s.URL + "/lost").Paid(t); id != lost.Payment.ID {
				t.Errorf("payment %s after %s", id, lost.Payment.ID)
			}
			if n := len(w.Payments()); n != 1 {
				t.Errorf("%d payments", n)
			}
			resume()
			w.get(s.URL + "/new").Paid(t)
		})
	}
}

// racing pauses right before a payment is journaled, after it was judged.
type racing struct {
	pay.Store
	before atomic.Pointer[func()]
}

func (r *racing) Begin(ctx context.Context, b *pay.Begin) (pay.Begun, error) {
	if f := r.before.Swap(nil); f != nil {
		(*f)()
	}
	return r.Store.Begin(ctx, b)
}

// A payment that was judged before the pause, and would be journaled after it, is not made.
func TestPauseRacesWithPayments(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]func(*world){
		"key":        func(w *world) { w.stop(pay.StopPause) },
		"everything": func(w *world) { _, _ = w.Books.PauseAll(context.Background(), "why") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &racing{}
			w := newWorld(t, func(s *setup) {
				s.store = func(store pay.Store) pay.Store { r.Store = store; return r }
			})
			s := proxytest.NewSeller(t)
			f := func() { pause(w) }
			r.before.Store(&f)
			w.get(s.URL+"/x").Declined(t, pay.RulePaused, true)
			if n := len(w.Payments()); n != 0 {
				t.Errorf("%d payments", n)
			}
		})
	}
}

func TestRevoked(t *testing.T) {
	t.Parallel()
	r := &racing{}
	w := newWorld(t, func(s *setup) {
		s.store = func(store pay.Store) pay.Store { r.Store = store; return r }
	})
	s := proxytest.NewSeller(t)
	w.get(s.URL + "/x").Paid(t)
	revoke := func() { w.stop(pay.StopRevoke) }
	r.before.Store(&revoke)
	w.get(s.URL+"/y").Declined(t, proxy.DeclinedKeyRevoked, false)
	a := w.get(s.URL + "/x")
	if p := a.Problem(t); a.StatusCode != http.StatusProxyAuthRequired || p.Reason != reasonCredentials {
		t.Errorf("%d %+v", a.StatusCode, p)
	}
	if n := len(w.Payments()); n != 1 {
		t.Errorf("%d payments", n)
	}
	s.Expect(2, 1, 1)
}
