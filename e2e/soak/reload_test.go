package soak

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/purserpay/purser/e2e/internal/process"
)

// reload gives purser a configuration by its admin endpoint, as `purser reload --force` does, and returns what it says to it.
func (p *purser) reload(ctx context.Context, config string) error {
	got, err := ask(ctx, process.AdminClient(p.Socket()), http.MethodPost, "http://127.0.0.1/load", config,
		"Content-Type", "text/caddyfile", "Cache-Control", "must-revalidate")
	return want(got, err, http.StatusOK, false)
}

// steady is work that goes on while purser is reloaded: clients each with a connection of its own.
type steady struct {
	*load

	all     sync.WaitGroup
	done    atomic.Int64
	bought  atomic.Int64
	mu      sync.Mutex
	errs    []error
	wires   []*wire
	counted map[string]int
}

func (s *steady) fail(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, fmt.Errorf("%s: %w", name, err))
}

// work has a wire do something again and again until ctx ends.
func (s *steady) work(ctx context.Context, w *wire, rest time.Duration, do func(context.Context, *wire, uint64) error) {
	w.repeats = true
	s.wires = append(s.wires, w)
	s.all.Go(func() {
		defer w.close()
		for ctx.Err() == nil {
			if err := do(context.Background(), w, s.serial.Add(1)); err != nil {
				s.fail(w.name, err)
			}
			s.done.Add(1)
			s.mu.Lock()
			s.counted[w.name]++
			s.mu.Unlock()
			pause(ctx, rest)
		}
	})
}

// buys counts what a purchase brings.
func (s *steady) buys(do func(context.Context, *wire, uint64) error) func(context.Context, *wire, uint64) error {
	return func(ctx context.Context, w *wire, n uint64) error {
		err := do(ctx, w, n)
		if err == nil {
			s.bought.Add(1)
		}
		return err
	}
}

// Ten reloads, 300 ms apart, while every door is used: every client that repeats what a closed connection cut off gets its
// answer, what is under way is not cut, and every purchase is in the books and on the chain exactly once.
func TestReloadUnderLoad(t *testing.T) {
	w := startWorld(t)
	w.calm.Store(true)
	p := newPurser(t, w)
	p.Start(t)
	side := p.newKey(t, w, 0)
	var keys []key
	for i := range 8 {
		keys = append(keys, p.newKey(t, w, i+1))
	}
	p.End(t)
	p.Start(t, "PURSER_KEY="+side.secret)
	s := &steady{load: newLoad(t, w, p, keys), counted: map[string]int{}}
	config, err := os.ReadFile(p.Config)
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.begin(ctx)
	lasting := s.lasting(t, ctx)
	for n := range 10 {
		pause(t.Context(), 300*time.Millisecond)
		before := s.done.Load()
		if err := p.reload(t.Context(), string(config)+fmt.Sprintf("\n# %d\n", n)); err != nil {
			t.Errorf("reload %d: %v", n, err)
		}
		if s.done.Load() == before && n > 0 {
			t.Logf("reload %d: nothing was done meanwhile", n)
		}
	}
	pause(t.Context(), 500*time.Millisecond)
	cancel()
	s.all.Wait()
	lasting()

	t.Logf("%d requests: %v", s.done.Load(), s.counted)
	for i, err := range s.errs {
		if i == 20 {
			break
		}
		t.Error(err)
	}
	if len(s.errs) > 0 {
		t.Errorf("%d of %d requests failed", len(s.errs), s.done.Load())
	}
	cut := 0
	for _, w := range s.wires {
		if cut += w.cut; w.dials > 1 && w.name == "blind tunnel" { // the grace period is not over
			t.Errorf("%s: %d connections", w.name, w.dials)
		}
	}
	t.Logf("%d purchases, %d requests cut off and repeated", s.bought.Load(), cut)
	// A request that was cut off before its payment was signed leaves that void. Its repeat is paid for by another.
	if sum := s.requireBooks(t, append(keys, side)); sum.Settled != int(s.bought.Load()) || sum.Void > cut {
		t.Errorf("%+v for %d purchases", sum, s.bought.Load())
	}
	p.End(t)
}

// requireBooks waits until recovery is through and compares the books with the chain.
func (l *load) requireBooks(t *testing.T, keys []key) totals {
	t.Helper()
	l.world.clock.Until(t, 4*time.Minute, func() string { // a look that the RPC did not answer comes again later
		if !l.closed(t) {
			return "payments are open"
		}
		return ""
	})
	sum, findings := l.audit(t.Context(), keys)
	t.Logf("%+v", sum)
	for _, f := range findings {
		t.Error(f)
	}
	if sum.Payments == 0 || sum.Settled != sum.Transfers {
		t.Errorf("%+v", sum)
	}
	return sum
}

// begin puts the load on.
func (s *steady) begin(ctx context.Context) {
	good := func(page string) func(context.Context, *wire, uint64) error {
		return s.buys(func(ctx context.Context, w *wire, n uint64) error {
			return w.buy(ctx, s.target("http", nameGood, page, n))
		})
	}
	secure := s.buys(func(ctx context.Context, w *wire, n uint64) error {
		return w.buy(ctx, s.target("https", nameGood, "/paid", n))
	})
	free := func(ctx context.Context, w *wire, n uint64) error {
		got, err := w.ask(ctx, http.MethodPost, s.target("http", nameGood, "/echo", n), fmt.Sprint(n))
		if err == nil && got.Body != fmt.Sprint(n) {
			err = fmt.Errorf("%d came back as %s", n, got.Body)
		}
		return want(got, err, http.StatusOK, false)
	}
	for i, k := range s.keys {
		api := []string{"X-Api-Key", k.secret}
		settlement := []string{"payer", "seller"}[i%2]
		s.work(ctx, direct("POST /v1/pay "+settlement, strconv.Itoa(s.purser.Port), api...), 0, s.buys(func(ctx context.Context, w *wire, n uint64) error {
			return w.payREST(ctx, s.load, n, settlement)
		}))
		s.work(ctx, s.proxiedWire("proxy http", k), 0, good("/paid"))
		s.work(ctx, s.inside("proxy https", k, nameGood), 0, secure)
	}
	for i, k := range s.keys[:4] {
		s.work(ctx, s.proxiedWire("pass-through", k), 0, free)
		s.work(ctx, direct("books", strconv.Itoa(s.purser.Port), "X-Api-Key", k.secret), 0, func(ctx context.Context, w *wire, _ uint64) error {
			got, err := w.ask(ctx, http.MethodGet, s.purser.URL("/v1/spend?limit=2"), "")
			return want(got, err, http.StatusOK, false)
		})
		// Idle most of the time, each a little out of step with the reloads.
		rest := time.Duration(250+35*i) * time.Millisecond
		s.work(ctx, s.proxiedWire("idle http", k), rest, free)
		s.work(ctx, s.inside("idle https", k, nameGood), rest, secure)
		s.work(ctx, s.inside("blind tunnel", k, nameTunnel), rest, func(ctx context.Context, w *wire, n uint64) error {
			got, err := w.ask(ctx, http.MethodGet, s.target("https", nameTunnel, "/free", n), "")
			return want(got, err, http.StatusOK, false)
		})
	}
	s.work(ctx, s.proxiedWire("stream", s.keys[0]), 0, good("/stream"))
	for range 2 {
		s.work(ctx, direct("sidecar", strconv.Itoa(s.purser.Sidecar)), 0, s.buys(func(ctx context.Context, w *wire, n uint64) error {
			return w.buy(ctx, fmt.Sprintf("%s/paid?n=%d", s.purser.SidecarURL(), n))
		}))
		s.work(ctx, &wire{name: "proxy https h2"}, 0, s.buys(func(ctx context.Context, w *wire, n uint64) error {
			err := s.proxyH2(ctx, int(n)%len(s.keys), n)
			for tries := 0; err != nil && tries < 3; tries++ {
				w.cut++
				err = s.proxyH2(ctx, int(n)%len(s.keys), n)
			}
			return err
		}))
	}
}

// lasting starts what lasts longer than all reloads together. The returned function waits for the end of it, and
// checks it.
func (s *steady) lasting(t *testing.T, ctx context.Context) (wait func()) {
	t.Helper()
	const events, megabytes = 70, 35
	long := func(w *wire, target string, length int) {
		s.all.Go(func() {
			defer w.close()
			res, err := w.open(context.Background(), http.MethodGet, target, "")
			if err != nil {
				s.fail(w.name, err)
				return
			}
			n, err := io.Copy(io.Discard, res.Body)
			if err != nil || int(n) != length {
				s.fail(w.name, fmt.Errorf("%d bytes of %d: %w", n, length, err))
			}
		})
	}
	eventsLength := 0
	for i := range events {
		eventsLength += len(event(i))
	}
	k := s.keys[0]
	for _, scheme := range []string{"http", "https"} {
		make := func(name string) *wire {
			if scheme == "https" {
				return s.inside(name+" "+scheme, k, nameGood)
			}
			return s.proxiedWire(name+" "+scheme, k)
		}
		long(make("events"), s.target(scheme, nameGood, "/events", events), eventsLength)
		long(make("download"), s.target(scheme, nameGood, "/download", megabytes), megabytes<<20)
	}
	long(direct("sidecar events", strconv.Itoa(s.purser.Sidecar)), fmt.Sprintf("%s/events?n=%d", s.purser.SidecarURL(), events), eventsLength)
	for _, scheme := range []string{"ws", "wss"} {
		s.all.Go(func() {
			if err := s.chat(ctx, scheme, k); err != nil {
				s.fail("WebSocket "+scheme, err)
			}
		})
	}
	return s.all.Wait
}

// chat sends messages over a WebSocket and expects each back, until ctx ends.
func (s *steady) chat(ctx context.Context, scheme string, k key) error {
	proxy := &url.URL{Scheme: "http", Host: s.purser.Host(), User: url.UserPassword(k.secret, "")}
	dialer := websocket.Dialer{Proxy: http.ProxyURL(proxy), TLSClientConfig: tlsTrusting(s.trust)}
	target := strings.Replace(s.world.url(map[string]string{"ws": "http", "wss": "https"}[scheme], nameGood, "/chat"), "http", "ws", 1)
	conn, _, err := dialer.Dial(target, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	for n := 0; ctx.Err() == nil; n++ {
		text := fmt.Sprint("message ", n)
		if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
			return err
		}
		_, got, err := conn.ReadMessage()
		if err != nil || string(got) != text {
			return fmt.Errorf("%q came back as %q: %w", text, got, err)
		}
		pause(ctx, 20*time.Millisecond)
	}
	return nil
}

func event(i int) string { return fmt.Sprintf("id: %d\ndata: event %d\n\n", i, i) }

// lastingPages adds the pages that the seller serves slowly.
func lastingPages(mux *http.ServeMux) {
	number := func(r *http.Request) (n int) {
		_, _ = fmt.Sscan(r.URL.Query().Get("n"), &n)
		return n
	}
	mux.HandleFunc("GET /events", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		out := bufio.NewWriter(rw)
		for i := range number(r) {
			_, _ = out.WriteString(event(i))
			_ = out.Flush()
			_ = http.NewResponseController(rw).Flush()
			pause(r.Context(), 75*time.Millisecond)
		}
	})
	mux.HandleFunc("GET /download", func(rw http.ResponseWriter, r *http.Request) {
		part := bytes.Repeat([]byte("purser"), 1<<20/6+1)[:1<<20]
		rw.Header().Set("Content-Length", fmt.Sprint(number(r)<<20))
		for range number(r) {
			_, _ = rw.Write(part)
			pause(r.Context(), 150*time.Millisecond)
		}
	})
	mux.HandleFunc("POST /echo", func(rw http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		_, _ = rw.Write(text)
	})
	mux.HandleFunc("GET /chat", func(rw http.ResponseWriter, r *http.Request) {
		conn, err := (&websocket.Upgrader{}).Upgrade(rw, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			kind, text, err := conn.ReadMessage()
			if err != nil {
				return
			}
			if err := conn.WriteMessage(kind, text); err != nil {
				return
			}
		}
	})
}
