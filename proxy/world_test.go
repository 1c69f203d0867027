package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/signer"
	"github.com/purserpay/purser/x402"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a forward proxy with a store in memory and a real signer, reached over loopback.
type world struct {
	t       *testing.T
	payer   *pay.Payer
	books   *books.Books
	forward *Forward
	server  *httptest.Server
	key     pay.Key
	secret  string
	wallet  pay.Wallet
	logs    *logBook
}

// setup changes what a world is made of.
type setup struct {
	pay     pay.Options
	store   func(pay.Store) pay.Store // what the payer gets instead of the real store
	forward ForwardOptions
	guard   guard.Options
	next    http.Handler // what is not proxy traffic
	wrap    func(http.Handler) http.Handler
}

func usdc(units uint64) *pay.Cap { return pay.CapOf(x402.NewAmount(units * 1_000_000)) }

func newWorld(t *testing.T, change ...func(*setup)) *world {
	t.Helper()
	w := &world{t: t, logs: &logBook{}}
	ctx := context.Background()
	store := memory.New(memory.Options{})
	var err error
	logger := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := &setup{
		pay:   pay.Options{DefaultPolicy: pay.Policy{MaxPayment: usdc(1), DailyBudget: usdc(10)}, RepeatWait: 5 * time.Second},
		store: func(s pay.Store) pay.Store { return s },
		guard: guard.Options{AllowLoopback: true},
		next:  http.NotFoundHandler(),
		wrap:  func(h http.Handler) http.Handler { return h },
	}
	for _, f := range change {
		f(s)
	}
	s.pay.Store, s.pay.Wallets, s.pay.Logger = s.store(store), signer.NewLocal(store), logger
	if w.payer, err = pay.New(s.pay); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.payer.Close(ctx); err != nil {
			t.Errorf("closing the payer: %v", err)
		}
	})
	if w.books, err = books.New(books.Options{Store: s.pay.Store, Wallets: s.pay.Wallets, Logger: logger}); err != nil {
		t.Fatal(err)
	}
	if w.key, w.secret, err = w.books.CreateKey(ctx, books.KeyRequest{Label: "agent"}); err != nil {
		t.Fatal(err)
	}
	if w.wallet, err = w.books.CreateWallet(ctx, w.key, "base"); err != nil {
		t.Fatal(err)
	}
	s.forward.Payer, s.forward.Dialer, s.forward.Logger = w.payer, guard.NewDialer(s.guard), logger
	if s.forward.StandIn == "own" {
		s.forward.StandIn = w.secret
	}
	if w.forward, err = NewForward(s.forward); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := w.forward.Close(ctx); err != nil {
			t.Errorf("closing the proxy: %v", err)
		}
	})
	next := s.next
	w.server = httptest.NewServer(s.wrap(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Server", "front")
		w.forward.ServeHTTP(rw, r, next)
	})))
	t.Cleanup(w.server.Close)
	return w
}

func (w *world) addr() string { return w.server.Listener.Addr().String() }

// client is an agent that knows nothing of payments. user is its proxy login, "" for none.
func (w *world) client(user *url.Userinfo) *http.Client {
	w.t.Helper()
	proxy := &url.URL{Scheme: "http", Host: w.addr(), User: user}
	tr := &http.Transport{Proxy: http.ProxyURL(proxy), DisableCompression: true}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{
		Transport: tr, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (w *world) agent() *http.Client { return w.client(url.User(w.secret)) }

// answer is a response read to its end.
type answer struct {
	*http.Response
	body string
}

func (w *world) do(c *http.Client, r *http.Request) answer {
	w.t.Helper()
	a, err := do(c, r)
	if err != nil {
		w.t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return a
}

func do(c *http.Client, r *http.Request) (answer, error) {
	resp, err := c.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp, string(b)}, err
}

func (w *world) get(rawURL string, header ...string) answer {
	w.t.Helper()
	return w.do(w.agent(), request(w.t, "GET", rawURL, nil, header...))
}

func request(t *testing.T, method, rawURL string, body io.Reader, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, rawURL, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// paid checks that an answer is a paid 200 and returns the payment's id.
func (a answer) paid(t *testing.T) string {
	t.Helper()
	if a.StatusCode != http.StatusOK || a.Header.Get(HeaderPayment) == "" {
		t.Fatalf("not a paid answer: %d %v %s", a.StatusCode, a.Header, a.body)
	}
	return a.Header.Get(HeaderPayment)
}

// declined checks that an answer is a 402 for this reason, and whether a client could
// still find a challenge in it.
func (a answer) declined(t *testing.T, reason string, challenge bool) {
	t.Helper()
	if a.StatusCode != http.StatusPaymentRequired || a.Header.Get(HeaderDeclined) != reason {
		t.Fatalf("got %d %q, want a 402 declined for %q: %s", a.StatusCode, a.Header.Get(HeaderDeclined), reason, a.body)
	}
	if _, found, _ := x402.FromResponse(a.Header, []byte(a.body)); found != challenge {
		t.Fatalf("challenge in the 402: %t, want %t: %v %s", found, challenge, a.Header, a.body)
	}
}

// problem reads an answer of ours.
func (a answer) problem(t *testing.T) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Error == "" || p.Reason == "" {
		t.Fatalf("not an answer of ours: %d %q (%v)", a.StatusCode, a.body, err)
	}
	return p
}

// payments are all payments of the world's key, newest first.
func (w *world) payments() []*pay.Payment {
	w.t.Helper()
	list, err := w.books.Payments(context.Background(), w.key, "", 100, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// closed waits until the payment's call is over in the books.
func (w *world) closed(id string) *pay.Payment {
	w.t.Helper()
	var p *pay.Payment
	eventually(w.t, "the lease of "+id+" is released", func() bool {
		var err error
		if p, err = w.payer.Payment(context.Background(), w.key, id); err != nil {
			w.t.Fatal(err)
		}
		return p.Lease.Owner == ""
	})
	return p
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// raw sends bytes to the proxy and reads one response.
func (w *world) raw(text, method string) (answer, net.Conn, *bufio.Reader) {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.addr())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(15 * time.Second))
	if _, err := io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		w.t.Fatal(err)
	}
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		w.t.Fatalf("reading the answer to %q: %v", text, err)
	}
	if method == http.MethodConnect && resp.StatusCode == http.StatusOK {
		return answer{Response: resp}, conn, br
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{resp, string(b)}, conn, br
}
