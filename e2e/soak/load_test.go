package soak

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/x402"
)

// load runs clients at all doors, without pause.
type load struct {
	world  *world
	purser *purser
	keys   []key

	trust    *x509.CertPool // purser's root and the sellers'
	plain    *http.Client   // of the REST API and the sidecar
	proxied  []*http.Client // by key
	opened   []*http.Client // the same, but over HTTP/2 inside tunnels
	tight    *http.Client   // with a task whose budget is spent
	tunnel   *http.Client   // a connection for each request, not opened
	serial   atomic.Uint64
	failures chan error // of those that must not fail

	mu    sync.Mutex
	kinds map[string]*tally
}

// tally counts the results of one kind of client since it was last taken.
type tally struct {
	times  []time.Duration
	done   int // as it should be
	other  int // refused, cut, or given up, where that may be
	failed int
}

// kind is a kind of client.
type kind struct {
	name  string
	count int           // how many work at a time
	pause time.Duration // after each request
	// do makes one request. Only those that are must succeed; measured are those whose latency is judged.
	do             func(l *load, ctx context.Context, k int, n uint64) error
	must, measured bool
}

// kinds are all that go on at the same time. The pauses keep those that leave payments open, and the sidecar, whose one key has
// 150,000 payments a month, from being most of the load.
var kinds = []kind{
	{name: "proxy http", count: 6, do: (*load).proxyHTTP, must: true, measured: true},
	{name: "proxy https", count: 4, do: (*load).proxyHTTPS, must: true, measured: true},
	{name: "proxy https h2", count: 2, do: (*load).proxyH2, must: true, measured: true},
	{name: "pay as payer", count: 4, do: (*load).payPayer, measured: true},
	{name: "pay as seller", count: 3, do: (*load).paySeller, must: true, measured: true},
	{name: "sidecar", count: 1, pause: 30 * time.Millisecond, do: (*load).sidecar, must: true, measured: true},
	{name: "pass-through", count: 2, pause: time.Millisecond, do: (*load).free, must: true, measured: true},
	{name: "stream", count: 1, do: (*load).stream, must: true},
	{name: "blind tunnel", count: 1, pause: 5 * time.Millisecond, do: (*load).blind, must: true},
	{name: "repeated", count: 1, pause: 5 * time.Millisecond, do: (*load).repeated},
	{name: "failing seller", count: 2, pause: 10 * time.Millisecond, do: (*load).failing},
	{name: "client leaves", count: 2, pause: 10 * time.Millisecond, do: (*load).leaves},
	{name: "budget spent", count: 1, pause: 5 * time.Millisecond, do: (*load).spent},
	{name: "books", count: 1, pause: 20 * time.Millisecond, do: (*load).reads, must: true},
}

func newLoad(t *testing.T, w *world, p *purser, keys []key) *load {
	t.Helper()
	l := &load{world: w, purser: p, keys: keys, failures: make(chan error, 100), kinds: map[string]*tally{}}
	got, err := ask(t.Context(), http.DefaultClient, http.MethodGet, p.URL("/ca.crt"), "")
	if err != nil || got.Status != http.StatusOK {
		t.Fatalf("/ca.crt: %d %v", got.Status, err)
	}
	trust := w.certificates.Pool.Clone()
	trust.AppendCertsFromPEM([]byte(got.Body))
	l.trust, l.plain = trust, client(nil, trust, false)
	for _, k := range keys {
		l.proxied = append(l.proxied, client(p.proxy(k, ""), trust, false))
		l.opened = append(l.opened, client(p.proxy(k, ""), trust, true))
	}
	l.tight = client(p.proxy(keys[0], tightTask), trust, false)
	l.tunnel = client(p.proxy(keys[0], ""), trust, false)
	l.tunnel.Transport.(*http.Transport).DisableKeepAlives = true
	for _, k := range kinds {
		l.kinds[k.name] = &tally{}
	}
	return l
}

func (p *purser) proxy(k key, task string) *url.URL {
	return &url.URL{Scheme: "http", Host: p.Host(), User: url.UserPassword(k.secret, task)}
}

func client(proxy *url.URL, trust *x509.CertPool, h2 bool) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		Proxy: http.ProxyURL(proxy), MaxIdleConnsPerHost: 64, DisableCompression: true, ForceAttemptHTTP2: h2,
		TLSClientConfig: tlsTrusting(trust), IdleConnTimeout: 30 * time.Second,
	}}
}

func tlsTrusting(trust *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}
}

// run has all clients work until ctx ends, and returns when the last of them has its answer.
func (l *load) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, k := range kinds {
		for range k.count {
			all.Go(func() {
				for ctx.Err() == nil {
					l.one(k)
					if k.pause > 0 {
						time.Sleep(k.pause)
					}
				}
			})
		}
	}
	all.Wait()
	for _, c := range append(slices.Concat(l.proxied, l.opened), l.plain, l.tight, l.tunnel, http.DefaultClient) {
		c.CloseIdleConnections()
	}
}

// one makes one request, which the end of the load does not cut off.
func (l *load) one(k kind) {
	n := l.serial.Add(1)
	began := time.Now()
	err := k.do(l, context.Background(), int(n%uint64(len(l.keys))), n)
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.kinds[k.name]
	switch {
	case err == nil:
		t.done++
		if k.measured {
			t.times = append(t.times, took)
		}
	case k.must:
		t.failed++
		select {
		case l.failures <- fmt.Errorf("%s: %w", k.name, err):
		default: // there are enough
		}
	default:
		t.other++
	}
}

// take returns what happened since it was called last.
func (l *load) take() map[string]tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := map[string]tally{}
	for name, t := range l.kinds {
		taken[name] = *t
		*t = tally{}
	}
	return taken
}

// want checks an answer.
func want(got answer, err error, status int, paid bool) error {
	switch {
	case err != nil:
		return err
	case got.Status != status:
		return fmt.Errorf("status %d, %q: %.200s", got.Status, got.Header.Get("Purser-Declined"), got.Body)
	case paid && got.Header.Get("Purser-Payment") == "":
		return errors.New("nothing was paid")
	}
	return nil
}

func (l *load) target(scheme, name, page string, n uint64) string {
	return l.world.url(scheme, name, page) + "?n=" + strconv.FormatUint(n, 10)
}

// buy requests something that costs money. A seller may close a connection just as it is used
// again. The outcome of the payment is then unknown: purser says so, and buy repeats the request.
func buy(ctx context.Context, c *http.Client, target string) error {
	got, err := ask(ctx, c, http.MethodGet, target, "")
	if err == nil && got.Status == http.StatusBadGateway && strings.Contains(got.Body, `"payment-open"`) {
		got, err = ask(ctx, c, http.MethodGet, target, "")
	}
	return want(got, err, http.StatusOK, true)
}

func (l *load) proxyHTTP(ctx context.Context, k int, n uint64) error {
	return buy(ctx, l.proxied[k], l.target("http", nameGood, "/paid", n))
}

func (l *load) proxyHTTPS(ctx context.Context, k int, n uint64) error {
	return buy(ctx, l.proxied[k], l.target("https", nameGood, "/paid", n))
}

func (l *load) proxyH2(ctx context.Context, k int, n uint64) error {
	return buy(ctx, l.opened[k], l.target("https", nameGood, "/paid", n))
}

func (l *load) stream(ctx context.Context, k int, n uint64) error {
	return buy(ctx, l.proxied[k], l.target("http", nameGood, "/stream", n))
}

func (l *load) sidecar(ctx context.Context, _ int, n uint64) error {
	return buy(ctx, l.plain, fmt.Sprintf("%s/paid?n=%d", l.purser.SidecarURL(), n))
}

func (l *load) free(ctx context.Context, k int, n uint64) error {
	scheme := "http"
	if n%2 == 0 {
		scheme = "https"
	}
	got, err := ask(ctx, l.proxied[k], http.MethodGet, l.target(scheme, nameGood, "/free", n), "")
	return want(got, err, http.StatusOK, false)
}

// blind opens a connection through purser that it does not look into.
func (l *load) blind(ctx context.Context, _ int, n uint64) error {
	got, err := ask(ctx, l.tunnel, http.MethodGet, l.target("https", nameTunnel, "/free", n), "")
	return want(got, err, http.StatusOK, false)
}

// paidREST is a 200 of POST /v1/pay.
type paidREST struct {
	PaymentSignature string
	Payment          struct{ ID string }
}

func (l *load) pay(ctx context.Context, k int, n uint64, more string) (paid paidREST, err error) {
	// Many hosts, because a key may have only so many unanswered payments for one.
	body := fmt.Sprintf(`{"paymentRequiredHeader":%q,"requestUrl":"http://h%d.soak.test/paid?n=%d"%s}`, l.world.challenge, n/uint64(len(l.keys))%64, n, more)
	got, err := ask(ctx, l.plain, http.MethodPost, l.purser.URL("/v1/pay"), body, "X-Api-Key", l.keys[k].secret)
	if err = want(got, err, http.StatusOK, false); err == nil {
		err = json.Unmarshal([]byte(got.Body), &paid)
	}
	return paid, err
}

// payPayer may fail, because the facilitator does.
func (l *load) payPayer(ctx context.Context, k int, n uint64) error {
	_, err := l.pay(ctx, k, n, "")
	return err
}

// paySeller gets the payload, sends it, and posts the receipt, three times in four. Recovery has the rest.
func (l *load) paySeller(ctx context.Context, k int, n uint64) error {
	paid, err := l.pay(ctx, k, n, `,"settlement":"seller"`)
	if err != nil {
		return err
	}
	target := fmt.Sprintf("http://127.0.0.1:%s/paid?n=%d", l.world.http, n)
	got, err := ask(ctx, l.plain, http.MethodGet, target, "", x402.HeaderSignature, paid.PaymentSignature)
	if err := want(got, err, http.StatusOK, false); err != nil || n%4 == 0 {
		return err
	}
	receipt, err := json.Marshal(map[string]string{"receipt": got.Header.Get(x402.HeaderResponse)})
	if err != nil {
		return err
	}
	got, err = ask(ctx, l.plain, http.MethodPost, l.purser.URL("/v1/payments/"+paid.Payment.ID+"/receipt"), string(receipt),
		"X-Api-Key", l.keys[k].secret)
	return want(got, err, http.StatusOK, false)
}

// repeated asks twice under one idempotency key.
func (l *load) repeated(ctx context.Context, k int, n uint64) error {
	more := fmt.Sprintf(`,"idempotencyKey":"soak-%d"`, n)
	first, err := l.pay(ctx, k, n, more)
	if err != nil {
		return err
	}
	again, err := l.pay(ctx, k, n, more)
	if err == nil && again.PaymentSignature != first.PaymentSignature {
		l.failures <- fmt.Errorf("repeated: %s and then %s", first.Payment.ID, again.Payment.ID)
	}
	return err
}

// failing is served by the bad seller, mostly badly.
func (l *load) failing(ctx context.Context, k int, n uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	got, err := ask(ctx, l.proxied[k], http.MethodGet, l.target("http", nameBad, "/paid", n), "")
	return want(got, err, http.StatusOK, true)
}

// leaves hangs up before or while it is served.
func (l *load) leaves(ctx context.Context, k int, n uint64) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(n%4)*time.Millisecond+200*time.Microsecond)
	defer cancel()
	if n%2 == 0 {
		_, err := l.pay(ctx, k, n, "")
		return err
	}
	got, err := ask(ctx, l.proxied[k], http.MethodGet, l.target("http", nameBad, "/paid", n*6+5), "")
	return want(got, err, http.StatusOK, true)
}

// spent is refused once the task has spent its budget.
func (l *load) spent(ctx context.Context, _ int, n uint64) error {
	got, err := ask(ctx, l.tight, http.MethodGet, l.target("http", nameGood, "/paid", n), "")
	if err == nil && got.Status == http.StatusPaymentRequired && got.Header.Get("Purser-Declined") != "" {
		return nil
	}
	return want(got, err, http.StatusOK, true)
}

// reads asks what was spent.
func (l *load) reads(ctx context.Context, k int, n uint64) error {
	path := "/v1/spend?limit=100"
	if n%2 == 0 {
		path = "/v1/payments?state=settled&limit=100"
	}
	got, err := ask(ctx, l.plain, http.MethodGet, l.purser.URL(path), "", "X-Api-Key", l.keys[k].secret)
	return want(got, err, http.StatusOK, false)
}
