package proxy

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/purserpay/purser/pay"
)

func (w *world) stop(do pay.Stop) {
	w.t.Helper()
	if _, err := w.books.StopKey(context.Background(), w.key.ID, do, ""); err != nil {
		w.t.Fatal(err)
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
			return func() { _, _ = w.books.PauseAll(context.Background(), "why") }, func() { _ = w.books.ResumeAll(context.Background()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := newSeller(t)
			pause, resume := switches(w)
			s.paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
				if n == 1 {
					hangUp(rw)
					return
				}
				s.receipt(rw, n)
			}
			lost := w.get(s.URL + "/lost").problem(t)
			pause()
			w.get(s.URL+"/new").declined(t, pay.RulePaused, true)
			w.closed(lost.Payment.ID)
			if id := w.get(s.URL + "/lost").paid(t); id != lost.Payment.ID {
				t.Errorf("payment %s after %s", id, lost.Payment.ID)
			}
			if n := len(w.payments()); n != 1 {
				t.Errorf("%d payments", n)
			}
			resume()
			w.get(s.URL + "/new").paid(t)
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
		"everything": func(w *world) { _, _ = w.books.PauseAll(context.Background(), "why") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &racing{}
			w := newWorld(t, func(s *setup) {
				s.store = func(store pay.Store) pay.Store { r.Store = store; return r }
			})
			s := newSeller(t)
			f := func() { pause(w) }
			r.before.Store(&f)
			w.get(s.URL+"/x").declined(t, pay.RulePaused, true)
			if n := len(w.payments()); n != 0 {
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
	s := newSeller(t)
	w.get(s.URL + "/x").paid(t)
	revoke := func() { w.stop(pay.StopRevoke) }
	r.before.Store(&revoke)
	w.get(s.URL+"/y").declined(t, DeclinedKeyRevoked, true)
	a := w.get(s.URL + "/x")
	if p := a.problem(t); a.StatusCode != http.StatusProxyAuthRequired || p.Reason != reasonCredentials {
		t.Errorf("%d %+v", a.StatusCode, p)
	}
	if n := len(w.payments()); n != 1 {
		t.Errorf("%d payments", n)
	}
	s.expect(2, 1, 1)
}
