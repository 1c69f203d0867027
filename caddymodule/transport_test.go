package caddymodule

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

func TestTransportPays(t *testing.T) {
	v := newVendor(t)
	s := newSidecar(t, v, "", "task nightly")
	mustLoad(t, s.caddyfile())
	resp, body := do(t, newRequest(t, "POST", s.url()+"/a%2Fb?q=1", strings.NewReader("the body")))
	if resp.StatusCode != 200 || body != "POST /a%2Fb?q=1 of "+strings.TrimPrefix(s.url(), "http://")+": the body" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	p := closed(t)
	if resp.Header.Get(proxy.HeaderPayment) != p.ID || p.Door != policy.DoorTransport || p.Task != "nightly" ||
		p.State != pay.Settled || !p.Answered || p.RequestURL != v.URL+"/a%2Fb?q=1" {
		t.Errorf("%v, %+v", resp.Header, p)
	}
	v.expect(1, 1, 1)
	// Another one of the same is another purchase.
	if resp, _ := do(t, newRequest(t, "POST", s.url()+"/a%2Fb?q=1", strings.NewReader("the body"))); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	v.expect(2, 2, 2)
}

func TestTransportKeys(t *testing.T) {
	v := newVendor(t)
	t.Run("of its own", func(t *testing.T) {
		t.Setenv("PURSER_TEST_KEY", "pk_sidecar")
		s := newSidecar(t, v, "", "key {env.PURSER_TEST_KEY}")
		mustLoad(t, s.caddyfile())
		if resp, _ := do(t, newRequest(t, "GET", s.url(), nil)); resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
		if n := len(payments(t)); n != 0 {
			t.Errorf("%d payments of the deployment's key", n)
		}
	})
	t.Run("from a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte("pk_fromfile\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := newSidecar(t, v, "", "key_file "+file)
		mustLoad(t, s.caddyfile())
		if resp, _ := do(t, newRequest(t, "GET", s.url(), nil)); resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
		if n := len(payments(t)); n != 0 {
			t.Errorf("%d payments of the deployment's key", n)
		}
	})
	t.Run("of purser exec", func(t *testing.T) {
		s := newSidecar(t, v, "", "")
		t.Setenv("PURSER_KEY", "")
		mustLoad(t, s.caddyfile())
		if resp, _ := do(t, newRequest(t, "GET", s.url(), nil)); resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
	})
	t.Run("that is not set", func(t *testing.T) { // and must not become another key's
		s := newSidecar(t, v, "", "key {env.PURSER_TEST_NOTHING}")
		if err := validate(s.caddyfile()); err == nil || !strings.Contains(err.Error(), "PURSER_TEST_NOTHING") {
			t.Error(err)
		}
	})
}

// Caddy's retries and the client's repeats belong to the same payment.
func TestTransportSignsOnce(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			v := newVendor(t)
			v.delivers(func(w http.ResponseWriter, _ *http.Request, _ int) { proxytest.HangUp(w) })
			s := newSidecar(t, v, "lb_retries 3\nlb_retry_match method GET POST", "")
			// The brace that would close the route closes handle_errors.
			s.route += "\n}\nhandle_errors {\nrespond \"{http.vars.purser.payment} {http.vars.purser.reason}\" {err.status_code}"
			mustLoad(t, s.caddyfile())
			request := func() *http.Request {
				var body io.Reader
				if method == "POST" {
					body = strings.NewReader("the body")
				}
				return newRequest(t, method, s.url()+"/x", body)
			}
			resp, body := do(t, request())
			p := closed(t)
			if resp.StatusCode != http.StatusBadGateway || body != p.ID+" payment-open" {
				t.Errorf("%d %s, payment %s", resp.StatusCode, body, p.ID)
			}
			if unpaid, attempts, _ := v.counts(); attempts < 4 || unpaid != 1 {
				t.Errorf("%d attempts with a payment, %d without", attempts, unpaid)
			}
			if p.Answered || !p.Unanswered {
				t.Errorf("%+v", p)
			}
			do(t, request()) // the client's own repeat
			if _, _, distinct := v.counts(); distinct != 1 {
				t.Errorf("%d distinct payments", distinct)
			}
			v.delivers(func(w http.ResponseWriter, _ *http.Request, n int) {
				v.receipt(w, n)
				_, _ = io.WriteString(w, "at last")
			})
			if resp, body := do(t, request()); resp.StatusCode != 200 || body != "at last" || resp.Header.Get(proxy.HeaderPayment) != p.ID {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
			if p := closed(t); !p.Answered || p.State != pay.Settled {
				t.Errorf("%+v", p)
			}
		})
	}
}

// A load balancer sends the same payload to another upstream. A repeat is recognized by the
// client's request.
func TestTransportBehindLoadBalancer(t *testing.T) {
	v := newVendor(t)
	v.delivers(func(w http.ResponseWriter, _ *http.Request, _ int) { proxytest.HangUp(w) })
	w := newVendor(t)
	w.delivers(func(w http.ResponseWriter, _ *http.Request, _ int) { proxytest.HangUp(w) })
	s := newSidecar(t, v, "to "+w.URL+"\nlb_policy round_robin\nlb_retries 2", "") // an odd number of attempts: the next request begins elsewhere
	mustLoad(t, s.caddyfile())
	for range 3 {
		if resp, _ := do(t, newRequest(t, "GET", s.url()+"/x", nil)); resp.StatusCode != http.StatusBadGateway {
			t.Error(resp.Status)
		}
	}
	all := map[string]bool{}
	for _, at := range []*vendor{v, w} {
		at.mu.Lock()
		if at.bought == 0 {
			t.Error("an upstream was not tried")
		}
		for n := range at.nonces {
			all[n] = true
		}
		at.mu.Unlock()
	}
	if len(all) != 1 {
		t.Errorf("%d distinct payments", len(all))
	}
}

// After a failed dial another upstream is tried, for every method.
func TestTransportDialErrors(t *testing.T) {
	v := newVendor(t)
	s := newSidecar(t, v, fmt.Sprintf("to http://127.0.0.1:%d\nlb_policy first\nlb_retries 2", freePort(t)), "")
	s.route = strings.Replace(s.route, "reverse_proxy "+v.URL, fmt.Sprintf("reverse_proxy http://127.0.0.1:%d %s", freePort(t), v.URL), 1)
	s.route = strings.Replace(s.route, "lb_policy first", "lb_policy round_robin", 1)
	mustLoad(t, s.caddyfile())
	for range 3 {
		if resp, body := do(t, newRequest(t, "POST", s.url()+"/x", strings.NewReader("all of it"))); resp.StatusCode != 200 ||
			!strings.HasSuffix(body, ": all of it") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
}

func TestTransportTimeout(t *testing.T) {
	v := newVendor(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	v.delivers(func(http.ResponseWriter, *http.Request, int) { <-release })
	s := newSidecar(t, v, "", "http {\nresponse_header_timeout 1s\n}")
	mustLoad(t, s.caddyfile())
	if resp, _ := do(t, newRequest(t, "GET", s.url()+"/x", nil)); resp.StatusCode != http.StatusGatewayTimeout {
		t.Error(resp.Status)
	}
	if p := closed(t); p.State != pay.Open || p.Answered {
		t.Errorf("%+v", p)
	}
}

func TestTransportIdempotencyKey(t *testing.T) {
	v := newVendor(t)
	s := newSidecar(t, v, "", "")
	mustLoad(t, s.caddyfile())
	for range 2 {
		if resp, _ := do(t, newRequest(t, "GET", s.url()+"/x", nil, "Idempotency-Key", "k-1")); resp.StatusCode != 200 {
			t.Error(resp.Status)
		}
		closed(t)
	}
	v.expect(2, 2, 1)
	resp, _ := do(t, newRequest(t, "GET", s.url()+"/x", nil, "Idempotency-Key", "k 1"))
	if resp.StatusCode != 402 || resp.Header.Get("Purser-Declined") != "idempotency-key-invalid" {
		t.Error(resp.Status, resp.Header)
	}
	v.expect(3, 2, 1)
}

// sidecars returns the two doors to a vendor.
func sidecars(t *testing.T, v *vendor) map[string]*site {
	t.Helper()
	door := newSite(t)
	door.route = "purser_upstream {\nto " + v.URL + "\n}"
	return map[string]*site{"transport": newSidecar(t, v, "", ""), "upstream": door}
}

// A cookie of a 402 goes with the payment, and reaches the client. Caches may not answer it.
func TestTransportCookies(t *testing.T) {
	v := newVendor(t, func(v *vendor) {
		serve := v.Config.Handler
		v.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get(x402.HeaderSignature) == "" {
				w.Header().Set("Set-Cookie", "lb=a; Path=/")
			} else if r.Header.Get("Cookie") != "mine=1; lb=a" || r.Header.Get("Cache-Control") != "no-cache" {
				t.Errorf("paid with %q, %q", r.Header.Get("Cookie"), r.Header.Get("Cache-Control"))
			}
			serve.ServeHTTP(w, r)
		})
	})
	for name, s := range sidecars(t, v) {
		t.Run(name, func(t *testing.T) {
			mustLoad(t, s.caddyfile())
			r := newRequest(t, "GET", s.url()+"/x/"+name, nil)
			r.Header.Set("Cookie", "mine=1")
			if resp, _ := do(t, r); resp.StatusCode != 200 || resp.Header.Get("Set-Cookie") != "lb=a; Path=/" {
				t.Error(resp.Status, resp.Header)
			}
		})
	}
}

// A health check has no client: it is not paid. Validating a configuration opens no store.
func TestTransportHealthChecks(t *testing.T) {
	v := newVendor(t)
	s := newSidecar(t, v, "health_uri /health\nhealth_interval 20ms\nhealth_status 402", "")
	if err := validate(s.caddyfile()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("data directory: %v", err)
	}
	mustLoad(t, s.caddyfile())
	eventually(t, "health checks", func() bool {
		unpaid, _, _ := v.counts()
		return unpaid > 3
	})
	if n := len(payments(t)); n != 0 {
		t.Errorf("%d payments for health checks", n)
	}
	if resp, _ := do(t, newRequest(t, "GET", s.url()+"/x", nil)); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
}

// Policy and books have the upstream's name where Caddy's URL has something else.
func TestTransportNamesUpstreams(t *testing.T) {
	t.Run("Unix socket", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "s.sock")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		v := newVendor(t, func(v *vendor) { v.Listener = l })
		s := newSidecar(t, v, "", "")
		s.route = strings.Replace(s.route, v.URL, "unix/"+socket, 1)
		mustLoad(t, s.caddyfile())
		if resp, _ := do(t, newRequest(t, "GET", s.url()+"/x", nil)); resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
		if p := closed(t); p.RequestURL != "http://localhost/x" || p.Host != "localhost" {
			t.Errorf("%+v", p)
		}
	})
	t.Run("PROXY protocol", func(t *testing.T) {
		v := newVendor(t, func(v *vendor) { v.Listener = introduced{v.Listener} })
		s := newSidecar(t, v, "", "http {\nproxy_protocol v1\n}")
		mustLoad(t, s.caddyfile())
		if resp, body := do(t, newRequest(t, "GET", s.url()+"/x", nil)); resp.StatusCode != 200 {
			t.Fatal(resp.Status, body)
		}
		if p := closed(t); p.RequestURL != v.URL+"/x" {
			t.Errorf("%+v", p)
		}
	})
}

// introduced removes the line of the PROXY protocol from its connections.
type introduced struct{ net.Listener }

func (l introduced) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for b := make([]byte, 1); b[0] != '\n'; {
		if _, err := io.ReadFull(conn, b); err != nil {
			return nil, err
		}
	}
	return conn, nil
}
