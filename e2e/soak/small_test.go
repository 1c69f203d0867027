package soak

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
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

// results collects how calls ended that are under way.
type results struct {
	all  sync.WaitGroup
	mu   sync.Mutex
	errs map[string]error
}

// start begins a call.
func (r *results) start(name string, do func() error) {
	r.all.Go(func() {
		err := do()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.errs == nil {
			r.errs = map[string]error{}
		}
		r.errs[name] = err
	})
}

// wait returns when all calls have ended. None may have failed, unless it is expected to.
func (r *results) wait(t *testing.T, fails func(name string) bool) {
	t.Helper()
	r.all.Wait()
	for name, err := range r.errs {
		if (err != nil) != fails(name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func nobody(string) bool { return false }

// inFlight has a payment in each stage, and something that takes long at each door. What it returns tells in which.
func (s *small) inFlight(t *testing.T) *results {
	t.Helper()
	ctx, r, n := t.Context(), &results{}, uint64(0)
	stage := func(moment string, calls map[string]func() error) {
		g := s.world.hold(moment)
		for name, do := range calls {
			r.start(moment+": "+name, do)
		}
		g.waits(t, len(calls))
		s.world.gates.Delete(moment) // for later ones; a request that waits goes on waiting
		s.world.gates.Store("held "+moment, g)
	}
	next := func() (k int, serial uint64) { n++; return int(n) % len(s.keys), n }
	pay := func(more string) func() error {
		k, serial := next()
		return func() error { _, err := s.pay(ctx, k, serial, more); return err }
	}
	buy := func(c func() *http.Client, target func(uint64) string, paid bool) func() error {
		k, serial := next()
		return func() error {
			client := c()
			if client == nil {
				client = s.proxied[k]
			}
			got, err := ask(ctx, client, http.MethodGet, target(serial), "")
			return want(got, err, http.StatusOK, paid)
		}
	}
	mine := func() *http.Client { return nil }
	plain := func() *http.Client { return s.plain }
	page := func(scheme, path string) func(uint64) string {
		return func(serial uint64) string { return s.target(scheme, nameGood, path, serial) }
	}
	side := func(serial uint64) string { return fmt.Sprintf("%s/paid?n=%d", s.purser.SidecarURL(), serial) }
	doors := func() map[string]func() error {
		k, serial := next()
		return map[string]func() error{
			"proxy http": buy(mine, page("http", "/paid"), true), "proxy https": buy(mine, page("https", "/paid"), true),
			"sidecar":  buy(plain, side, true),
			"proxy h2": func() error { return s.proxyH2(ctx, k, serial) },
		}
	}
	stage("verify", map[string]func() error{"payer": pay("")})
	stage("settle", map[string]func() error{"payer": pay(""), "payer with a key": pay(`,"idempotencyKey":"drain"`)})
	stage("settled", map[string]func() error{"payer": pay("")})
	stage("asked", doors())
	stage("paid", doors())
	stage("taken", doors())
	// A stream that has begun, and one that is paid for.
	began := make(chan struct{})
	k, _ := next()
	r.start("stream", func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.target("http", nameGood, "/events", 40), http.NoBody)
		if err != nil {
			return err
		}
		res, err := s.proxied[k].Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		close(began)
		text, err := io.ReadAll(res.Body)
		if err == nil && !strings.HasSuffix(string(text), event(39)) {
			err = fmt.Errorf("it ends with %.100q", text[max(0, len(text)-60):])
		}
		return err
	})
	<-began
	return r
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
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, err := ask(t.Context(), &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, http.MethodGet, s.purser.URL("/"), "")
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a new request: %v", err)
		}
	}
}

// ended waits for the process and returns its exit status.
func (p *purser) ended(t *testing.T, within time.Duration) int {
	t.Helper()
	if !p.EndsWithin(within) {
		t.Fatalf("purser has not ended after %s", within)
	}
	return p.Cmd.ProcessState.ExitCode()
}

// sound starts purser again and fails unless the books, once recovery is through, equal the chain. settled and void are how
// many payments have to be so; below zero: any number.
func (s *small) sound(t *testing.T, settled, void int) {
	t.Helper()
	s.purser.Check(t)
	s.purser.Start(t)
	s.passTime(t, func() bool { return s.closed(t) })
	sum, findings := s.audit(t.Context(), append(s.keys, s.side))
	for _, f := range findings {
		t.Error(f)
	}
	if settled >= 0 && sum.Settled != settled || void >= 0 && sum.Void != void || sum.Settled != sum.Transfers {
		t.Errorf("%+v, not %d settled and %d void", sum, settled, void)
	}
	s.purser.End(t)
}
