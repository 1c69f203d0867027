package soak

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

// with is the configuration with further options of the app.
func (p *purser) with(t *testing.T, options string) string {
	t.Helper()
	text, err := os.ReadFile(p.Config)
	mustDo(t, err)
	return strings.Replace(string(text), process.AppBlock, process.AppBlock+options+"\n", 1)
}

// reloads reloads with `purser reload`, as an operator does.
func (p *purser) reloads(t *testing.T, config string) (said string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Caddyfile")
	mustDo(t, os.WriteFile(path, []byte(config), 0o600))
	return p.Command(t, "reload", "--config", path, "--adapter", "caddyfile", "--address", p.Admin(), "--force")
}

func (p *purser) mustReload(t *testing.T, config string) {
	t.Helper()
	if said, err := p.reloads(t, config); err != nil {
		t.Fatalf("reload: %v\n%s", err, said)
	}
}

// Once connections of before have been closed, which takes a moment after a reload has returned, everything is paid by the new
// limits; until it is called, by the old ones.
func TestReloadChangesPolicy(t *testing.T) {
	t.Parallel()
	s := startSmall(t, 4)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// Even numbers: nothing may be paid. A reload is under way while the number is changed twice.
	var allowed atomic.Bool
	var generation atomic.Int64
	allowed.Store(true)
	var all sync.WaitGroup
	var paid, declined atomic.Int64
	for i, w := range []*wire{
		s.proxiedWire("proxy http", s.keys[0]), s.inside("proxy https", s.keys[1], nameGood),
		s.proxiedWire("proxy http 2", s.keys[2]), direct("sidecar", strconv.Itoa(s.purser.Sidecar)),
	} {
		w.repeats = true
		start(t, &all, w.name, func() error {
			defer w.close()
			for n := uint64(0); ctx.Err() == nil; n++ {
				target := s.target([]string{"http", "https", "http", "http"}[i], nameGood, "/paid", n*10+uint64(i))
				if w.name == "sidecar" {
					target = fmt.Sprintf("%s/paid?n=%d", s.purser.SidecarURL(), n)
				}
				before, may := generation.Load(), allowed.Load()
				got, err := w.ask(context.Background(), http.MethodGet, target, "")
				if err != nil {
					return err
				}
				if got.Status == http.StatusOK {
					paid.Add(1)
				} else {
					declined.Add(1)
				}
				if before%2 == 0 && generation.Load() == before && (got.Status == http.StatusOK) != may {
					return fmt.Errorf("allowed %t, and status %d", may, got.Status)
				}
			}
			return nil
		})
	}
	for range 6 {
		time.Sleep(200 * time.Millisecond)
		limit := "max_payment 0.00001"
		if !allowed.Load() {
			limit = "max_payment 1"
		}
		generation.Add(1)
		if err := s.purser.reload(t.Context(), s.purser.with(t, limit)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		allowed.Store(!allowed.Load())
		generation.Add(1)
	}
	time.Sleep(100 * time.Millisecond)
	cancel()
	all.Wait()
	if paid.Load() < 20 || declined.Load() < 20 {
		t.Errorf("%d paid, %d declined", paid.Load(), declined.Load())
	}
	t.Logf("%d paid, %d declined", paid.Load(), declined.Load())
	s.purser.End(t)
	s.sound(t, int(paid.Load()), 0)
}

// The facilitator and the ports of the sites change while payments are in flight. A settlement ends at the facilitator where it
// began, and what is in flight at the old ports ends there, before they are closed. A request after the reload comes to
// the new ones.
func TestReloadMoves(t *testing.T) {
	t.Parallel()
	s := startSmall(t, 6)
	var calls atomic.Int64
	honest := s.world.facilitator()
	other := "http://" + serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		honest.ServeHTTP(rw, r)
	}), nil)
	all := s.inFlight(t)
	old, moved := s.purser.Port, process.Ports(t, 1)[0]
	config := s.purser.with(t, "facilitator http {\nurl "+other+"\n}")
	s.purser.mustReload(t, strings.ReplaceAll(config, "http://:{$PURSER_PORT:8402}", fmt.Sprintf("http://:%d", moved)))
	if calls.Load() != 0 {
		t.Error("what was in flight went to the new one")
	}
	s.refusesNew(t)
	s.purser.Port = moved
	_, err := s.pay(t.Context(), 0, 1, "")
	mustDo(t, err)
	s.world.letGo()
	all.Wait()
	if calls.Load() != 2 {
		t.Errorf("%d calls of the new one, not /verify and /settle of one payment", calls.Load())
	}
	s.purser.End(t)
	s.purser.Port = old
	s.sound(t, 17, 0)
}

// A reload to another data directory is refused, while payments are in flight. They end, and all goes on in the store that
// has them.
func TestReloadKeepsStore(t *testing.T) {
	t.Parallel()
	s := startSmall(t, 6)
	open, err := s.pay(t.Context(), 0, 77, `,"settlement":"seller"`) // never sent
	mustDo(t, err)
	idle := s.inside("proxy https", s.keys[0], nameGood)
	mustDo(t, idle.buy(t.Context(), s.target("https", nameGood, "/paid", 5)))
	all := s.inFlight(t)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if said, err := s.purser.reloads(t, s.purser.with(t, "data_dir "+elsewhere)); err == nil || !strings.Contains(said, "with a restart only") {
		t.Errorf("reloaded: %v, %s", err, said)
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("the other folder was made")
	}
	s.world.letGo()
	all.Wait()
	mustDo(t, idle.buy(t.Context(), s.target("https", nameGood, "/paid", 7)))
	got, err := ask(t.Context(), s.plain, http.MethodGet, s.purser.URL("/v1/payments/"+open.Payment.ID), "", "X-Api-Key", s.keys[0].secret)
	if err := want(got, err, http.StatusOK, false); err != nil {
		t.Errorf("the payment that was open: %v", err)
	}
	s.purser.End(t)
	s.sound(t, 18, 1)
}

// An identical request that comes by the new configuration while the first one is still served by the old waits for it. Then it
// is a purchase of its own, or, if it came more than a second later, has the end of the first: as without a reload.
func TestIdenticalRequestAcrossReload(t *testing.T) {
	t.Parallel()
	s := startSmall(t, 1)
	target := s.target("http", nameGood, "/paid", 1)
	g := s.world.hold("paid")
	var all sync.WaitGroup
	start(t, &all, "first", func() error { return buy(t.Context(), s.proxied[0], target) })
	g.waits(t, 1)
	s.purser.mustReload(t, s.purser.with(t, ""))
	second := make(chan error, 1)
	all.Go(func() { second <- buy(t.Context(), client(s.purser.proxy(s.keys[0], ""), s.trust, false), target) })
	time.Sleep(time.Second)
	if n := len(g.came); n > 1 {
		t.Errorf("%d payloads at the seller", n+1)
	}
	s.world.letGo()
	all.Wait()
	s.purser.End(t)
	switch err := <-second; {
	case err == nil:
		s.sound(t, 2, 0)
	case strings.Contains(err.Error(), "paid-before"):
		s.sound(t, 1, 0)
	default:
		t.Errorf("second: %v", err)
	}
}

// A reload and the end of the process at the same time: it ends cleanly, whichever comes first.
func TestReloadRacesTheEnd(t *testing.T) {
	t.Parallel()
	s := startSmall(t, 4)
	n := uint64(0)
	for round := range 6 {
		var all sync.WaitGroup // any of them may find no server
		for i := range 4 {
			n++
			serial := n
			all.Go(func() {
				_ = buy(t.Context(), client(s.purser.proxy(s.keys[i], ""), s.trust, false), s.target("http", nameGood, "/paid", serial))
			})
		}
		all.Go(func() { _ = s.purser.reload(t.Context(), s.purser.with(t, fmt.Sprintf("max_payment %d", round+1))) })
		time.Sleep(time.Duration(round) * 8 * time.Millisecond)
		if err := s.purser.Stop(syscall.SIGTERM); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		all.Wait()
		s.purser.Start(t)
	}
	s.purser.End(t)
	s.sound(t, -1, -1)
}
