package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

// small is a purser with a few keys, in a world that does not fail by itself.
type small struct {
	*load
	side key
}

// startSmall starts one whose configuration is edited.
func startSmall(t *testing.T, keys int, edit ...string) *small {
	t.Helper()
	w := startWorld(t)
	w.calm.Store(true)
	t.Cleanup(func() { // before the servers are closed, who would wait for those that are held
		w.gates.Range(func(moment, _ any) bool { w.release(moment.(string)); return true })
	})
	p := newPurser(t, w, edit...)
	p.Start(t)
	s := &small{side: p.newKey(t, w, 0)}
	var all []key
	for i := range keys {
		all = append(all, p.newKey(t, w, i+1))
	}
	p.End(t)
	p.Settings = append(p.Settings, "PURSER_KEY="+s.side.secret)
	p.Start(t)
	s.load = newLoad(t, w, p, all)
	return s
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start begins a call, which must end well.
func start(t *testing.T, all *sync.WaitGroup, name string, do func() error) {
	t.Helper()
	all.Go(func() {
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
}

// inFlight has a payment in each stage, and something that takes long at each door. All of them must end well.
func (s *small) inFlight(t *testing.T) *sync.WaitGroup {
	t.Helper()
	ctx, all, n := t.Context(), new(sync.WaitGroup), uint64(0)
	next := func(do func(ctx context.Context, k int, n uint64) error) func() error {
		n++
		k, serial := int(n)%len(s.keys), n
		return func() error { return do(ctx, k, serial) }
	}
	pay := func(more string) func() error {
		return next(func(ctx context.Context, k int, n uint64) error { _, err := s.pay(ctx, k, n, more); return err })
	}
	doors := func() map[string]func() error {
		return map[string]func() error{
			"proxy http": next(s.proxyHTTP), "proxy https": next(s.proxyHTTPS), "proxy h2": next(s.proxyH2), "sidecar": next(s.sidecar),
		}
	}
	stage := func(moment string, calls map[string]func() error) {
		g := s.world.hold(moment)
		for name, do := range calls {
			start(t, all, moment+": "+name, do)
		}
		g.waits(t, len(calls))
		s.world.gates.Delete(moment) // for later ones; a request that waits goes on waiting
		s.world.gates.Store("held "+moment, g)
	}
	stage("verify", map[string]func() error{"payer": pay("")})
	stage("settle", map[string]func() error{"payer": pay(""), "payer with a key": pay(`,"idempotencyKey":"drain"`)})
	stage("settled", map[string]func() error{"payer": pay("")})
	for _, moment := range []string{"asked", "paid", "taken"} {
		stage(moment, doors())
	}
	// A stream that has begun, and one that is paid for.
	began := make(chan struct{})
	wire := s.proxiedWire("stream", s.keys[0])
	start(t, all, "stream", func() error {
		defer wire.close()
		res, err := wire.open(ctx, http.MethodGet, s.target("http", nameGood, "/events", 40), "")
		close(began)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(res.Body)
		if err == nil && !strings.HasSuffix(string(text), event(39)) {
			err = fmt.Errorf("it ends with %.100q", text[max(0, len(text)-60):])
		}
		return err
	})
	<-began
	return all
}

// letGo lets everybody go on.
func (w *world) letGo() {
	w.gates.Range(func(moment, g any) bool {
		close(g.(*gate).open)
		w.gates.Delete(moment)
		return true
	})
}

// refusesNew fails unless purser's address refuses new connections.
func (s *small) refusesNew(t *testing.T) {
	t.Helper()
	process.Eventually(t, 10*time.Second, func() string {
		if _, err := ask(t.Context(), process.Client(nil, nil), http.MethodGet, s.purser.URL("/"), ""); !errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Sprintf("a new request: %v", err)
		}
		return ""
	})
}

// sound starts purser again and fails unless the books, once recovery is through, equal the chain. settled and void are how
// many payments have to be so; below zero: any number.
func (s *small) sound(t *testing.T, settled, void int) {
	t.Helper()
	s.purser.Check(t)
	s.purser.Start(t)
	sum := s.requireBooks(t, append(s.keys, s.side))
	if settled >= 0 && sum.Settled != settled || void >= 0 && sum.Void != void {
		t.Errorf("%+v, not %d settled and %d void", sum, settled, void)
	}
	s.purser.End(t)
}
