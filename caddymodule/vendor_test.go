package caddymodule

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// delivery answers requests with a good payload; n counts them from 1.
type delivery func(w http.ResponseWriter, r *http.Request, n int)

// vendor is an x402 seller that checks what it is paid with, and counts.
type vendor struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	paid   delivery
	unpaid int
	bought int
	nonces map[string]bool
	last   *http.Request
}

func newVendor(t *testing.T, change ...func(*vendor)) *vendor {
	t.Helper()
	v := &vendor{t: t, nonces: map[string]bool{}}
	v.paid = func(w http.ResponseWriter, r *http.Request, n int) {
		body, _ := io.ReadAll(r.Body)
		v.receipt(w, n)
		fmt.Fprintf(w, "%s %s of %s: %s", r.Method, r.RequestURI, r.Host, body)
	}
	v.Server = httptest.NewUnstartedServer(http.HandlerFunc(v.serve))
	for _, f := range change {
		f(v)
	}
	if v.TLS == nil {
		v.Start()
	} else {
		v.StartTLS()
	}
	t.Cleanup(v.Close)
	return v
}

func (v *vendor) serve(w http.ResponseWriter, r *http.Request) {
	value := r.Header.Get(x402.HeaderSignature)
	v.mu.Lock()
	if value == "" {
		v.unpaid++
	}
	v.last = r
	v.mu.Unlock()
	if value == "" {
		w.Header().Set(x402.HeaderRequired, challenge(10_000))
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	a, err := proxytest.Check(value)
	if err != nil || a.Value != money.New(10_000) {
		v.t.Errorf("a bad payload: %+v, %v", a, err)
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	v.mu.Lock()
	v.bought++
	v.nonces[a.Nonce.String()] = true
	n, deliver := v.bought, v.paid
	v.mu.Unlock()
	deliver(w, r, n)
}

// delivers changes what is delivered.
func (v *vendor) delivers(d delivery) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.paid = d
}

// counts are the unpaid and paid requests, and the distinct payments among those.
func (v *vendor) counts() (unpaid, bought, distinct int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.unpaid, v.bought, len(v.nonces)
}

// protocol is that of the last request.
func (v *vendor) protocol() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last.Proto
}

func (v *vendor) receipt(w http.ResponseWriter, n int) {
	new(proxytest.Seller).Receipt(w, n)
}

// expect compares what was asked for unpaid, sent with a payment, and the distinct payments.
func (v *vendor) expect(unpaid, bought, distinct int) {
	v.t.Helper()
	if u, b, d := v.counts(); u != unpaid || b != bought || d != distinct {
		v.t.Errorf("the seller saw %d unpaid, %d paid requests, %d payments; want %d, %d, %d", u, b, d, unpaid, bought, distinct)
	}
}

// newSidecar is a site that leads to the vendor through reverse_proxy; more are options of
// reverse_proxy, own those of the transport.
func newSidecar(t *testing.T, v *vendor, more, own string) *site {
	t.Helper()
	t.Setenv("PURSER_KEY", "pk_deployment")
	s := newSite(t)
	s.route = fmt.Sprintf("reverse_proxy %s {\n%s\ntransport purser {\n%s\n}\n}", v.URL, more, own)
	return s
}

// payments lists those of the deployment's key, newest first.
func payments(t *testing.T) []*pay.Payment {
	t.Helper()
	tenant := pooledAt(t).newestTenant()
	key, err := tenant.payer.Resolve(t.Context(), "pk_deployment")
	if err != nil {
		t.Fatal(err)
	}
	all, err := tenant.books.Payments(t.Context(), key, "", 100, "")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// closed waits until the one payment there is has ended, and returns it.
func closed(t *testing.T) (p *pay.Payment) {
	t.Helper()
	eventually(t, "the attempt ends", func() bool {
		all := payments(t)
		if len(all) != 1 {
			t.Fatalf("%d payments", len(all))
		}
		p = all[0]
		return p.Lease.Owner == ""
	})
	return p
}

// client makes requests that are not repeated behind the test's back.
func newClient(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// do makes a request with headers, "Name: value" each, and reads the answer to its end.
func do(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := newClient(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%d %v %q: %v", resp.StatusCode, resp.Header, body, err)
	}
	return resp, string(body)
}

func newRequest(t *testing.T, method, url string, body io.Reader, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return r
}

func wholeUSDC(units uint64) *policy.Cap { return policy.CapOf(money.New(units * 1_000_000)) }
