package caddymodule

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// quota is a handler as rate limiters are: it lets some requests pass.
type quota struct {
	Requests int64 `json:"requests"`
	taken    *atomic.Int64
}

func (*quota) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_quota", New: func() caddy.Module { return &quota{taken: new(atomic.Int64)} }}
}

func (q *quota) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if q.taken.Add(1) > q.Requests {
		w.Header().Set("Retry-After", "7")
		return caddyhttp.Error(http.StatusTooManyRequests, nil)
	}
	return next.ServeHTTP(w, r)
}

func (q *quota) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	var n string
	if !d.AllArgs(&n) {
		return d.ArgErr()
	}
	return json.Unmarshal([]byte(n), &q.Requests)
}

// again is a handler that asks twice and passes the second answer on.
type again struct{}

func (again) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_again", New: func() caddy.Module { return new(again) }}
}

func (again) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	first := caddyhttp.NewResponseRecorder(w, new(bytes.Buffer), func(int, http.Header) bool { return true })
	if err := next.ServeHTTP(first, r); err != nil {
		return err
	}
	clear(w.Header())
	return next.ServeHTTP(w, r)
}

func (again) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return parseModule(d, new(struct{}), nil)
}

// registerTestHandlers is for TestMain.
func registerTestHandlers() {
	caddy.RegisterModule(new(quota))
	caddy.RegisterModule(new(again))
	caddy.RegisterModule(new(closing))
	caddy.RegisterModule(new(watched))
	for name, parse := range map[string]httpcaddyfile.UnmarshalHandlerFunc{
		"test_quota": func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
			q := &quota{}
			return q, q.UnmarshalCaddyfile(h.Dispenser)
		},
		"test_again": func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
			return again{}, again{}.UnmarshalCaddyfile(h.Dispenser)
		},
		"test_watched": func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
			return watched{}, parseModule(h.Dispenser, new(struct{}), nil)
		},
	} {
		httpcaddyfile.RegisterHandlerDirective(name, parse)
		httpcaddyfile.RegisterDirectiveOrder(name, httpcaddyfile.Before, "respond")
	}
}

// routed is a site that intercepts, has routes and logs, and sends to a vendor over TLS.
type routed struct {
	*site
	t      *testing.T
	v      *vendor
	logged string
	key    string
	root   []byte
}

func newRouted(t *testing.T, routes, named string) *routed {
	t.Helper()
	v := newVendor(t, func(v *vendor) { v.TLS = new(tls.Config) })
	trust := filepath.Join(t.TempDir(), "seller.pem")
	if err := os.WriteFile(trust, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &routed{site: intercepting(t, trust, routes), t: t, v: v, logged: filepath.Join(t.TempDir(), "log")}
	r.global = "metrics"
	r.route += "\n\t\tmetrics /metrics"
	r.route = strings.Replace(r.route, "\t\tpurser_api\n\t\tmetrics /metrics", "\t\tmetrics /metrics\n\t\tpurser_api", 1)
	text := replaceOnce(t, r.caddyfile(), "level WARN", "output file "+r.logged)
	mustLoad(t, replaceOnce(t, replaceOnce(t, text, "\troute {", "\tlog\n\troute {"), "http://:", named+"http://:"))
	_, _, root := get(t, http.DefaultClient, r.url()+rootPath)
	r.key, r.root = newKey(t, r.url()), []byte(root)
	return r
}

// client is one that goes through the proxy, with one version of HTTP.
func (r *routed) client(http2 bool) *http.Client {
	r.t.Helper()
	c := trusting(r.t, r.through(r.t, url.UserPassword(r.key, "t")), r.root)
	tr := c.Transport.(*http.Transport)
	tr.DisableKeepAlives = false
	if tr.ForceAttemptHTTP2 = http2; !http2 {
		tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	r.t.Cleanup(tr.CloseIdleConnections)
	return c
}

func (r *routed) shop(path string) string {
	return strings.Replace(r.v.URL, "127.0.0.1", "example.com", 1) + path
}

func (r *routed) ask(c *http.Client, method, path, body string, headers ...string) (*http.Response, string) {
	r.t.Helper()
	resp, err := c.Do(newRequest(r.t, method, r.shop(path), strings.NewReader(body), headers...))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp, string(text)
}

// entries returns the access log's of requests with a path that begins so.
func (r *routed) entries(path string, n int) (found []map[string]any) {
	r.t.Helper()
	eventually(r.t, "the log has the requests", func() bool {
		text, err := os.ReadFile(r.logged)
		if err != nil {
			r.t.Fatal(err)
		}
		found = nil
		for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
			var e map[string]any
			if json.Unmarshal(s.Bytes(), &e) != nil || !strings.HasPrefix(e["logger"].(string), "http.log.access") {
				continue
			}
			request, _ := e["request"].(map[string]any)
			if uri, _ := request["uri"].(string); strings.HasPrefix(uri, path) {
				found = append(found, e)
			}
		}
		return len(found) >= n
	})
	if len(found) != n {
		r.t.Errorf("%d entries for %s", len(found), path)
	}
	return found
}

// Requests inside an interception go through the routes of the proxy, and are logged and counted as those of a site.
func TestRoutesInside(t *testing.T) {
	r := newRouted(t, `routes {
				@blocked path /blocked/*
				respond @blocked "not here" 403
				@fails path /fails
				error @fails 418
				@limited path /limited/*
				test_quota @limited 1
				header X-Route {http.request.uri.path.0}-{http.request.scheme}
				request_header X-Seen {http.request.host}
				log_append who {http.request.header.X-Who}
				@quiet path /quiet
				log_skip @quiet
				@named path /named
				handle @named {
					invoke teapot
				}
			}`, "&(teapot) {\n\trespond \"short\" 418\n}\n")
	bought := 0
	for _, http2 := range []bool{false, true} {
		c := r.client(http2)
		for path, want := range map[string]int{"/blocked/x": 403, "/fails": 418, "/named": 418} {
			if resp, text := r.ask(c, "GET", path, ""); resp.StatusCode != want || resp.Header.Get("Purser-Payment") != "" {
				t.Errorf("%s: %d %s", path, resp.StatusCode, text)
			}
		}
		unpaid, paid, _ := r.v.counts()
		if unpaid != bought || paid != bought {
			t.Errorf("the seller saw %d and %d requests that routes answer", unpaid, paid)
		}
		for _, method := range []string{"GET", "POST"} {
			resp, text := r.ask(c, method, "/goods/x?q=1", "body", "X-Who", "crawler", "X_Odd", "1", "X-Api-Key", r.key)
			bought++
			if resp.StatusCode != 200 || resp.Header.Get("Purser-Payment") == "" || !strings.HasPrefix(text, method+" /goods/x?q=1 of example.com") || !strings.HasSuffix(text, "body") {
				t.Errorf("%d %v %s", resp.StatusCode, resp.Header, text)
			}
			if got := resp.Header.Get("X-Route"); got != "goods-https" || resp.Header.Get("Server") == "Caddy" {
				t.Errorf("%v", resp.Header)
			}
			if h := r.v.last.Header; h.Get("X-Seen") != "example.com" || h.Get("X_odd") != "1" || h.Get("X-Api-Key") != "" {
				t.Errorf("the seller got %v", h)
			}
		}
	}
	r.v.expect(bought, bought, bought)
	c := r.client(true)
	for i, want := range []int{200, 429, 429} {
		resp, text := r.ask(c, "GET", "/limited/x", "")
		if resp.StatusCode != want || (want == 429) != (resp.Header.Get("Retry-After") == "7") {
			t.Errorf("%d: %d %v %s", i, resp.StatusCode, resp.Header, text)
		}
	}
	if resp, text := r.ask(c, "GET", "/quiet", ""); resp.StatusCode != 200 {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	r.v.expect(bought+2, bought+2, bought+2)

	for path, n := range map[string]int{"/blocked/": 2, "/fails": 2, "/limited/": 3, "/quiet": 0, "/goods/": 4} {
		for _, e := range r.entries(path, n) {
			text, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			request := e["request"].(map[string]any)
			if host, _ := request["host"].(string); !strings.HasPrefix(host, "example.com") || request["tls"] == nil {
				t.Errorf("%s", text)
			}
			if path == "/goods/" && (e["who"] != "crawler" || e["status"] != 200.0 || e["size"].(float64) == 0) {
				t.Errorf("%s", text)
			}
			if strings.Contains(string(text), r.key) || strings.Contains(strings.ToLower(string(text)), "payment-response") {
				t.Errorf("a secret is in %s", text)
			}
		}
	}
	_, _, metrics := get(t, http.DefaultClient, r.url()+"/metrics")
	for _, want := range []string{`caddy_http_request_duration_seconds_count{code="403",handler="static_response",method="GET",server="srv0"} 2`, `code="200",handler="purser_proxy",method="POST",server="srv0"} 2`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("%s is not in the metrics", want)
		}
	}
}

// A handler that asks for an answer twice gets two answers to one payment.
func TestRoutesThatRetryPayOnce(t *testing.T) {
	r := newRouted(t, "routes {\n\t\t\t\ttest_again\n\t\t\t}", "")
	for i, http2 := range []bool{false, true} {
		resp, text := r.ask(r.client(http2), "GET", "/x", "")
		if resp.StatusCode != 200 || !strings.HasPrefix(text, "GET /x") {
			t.Errorf("%d %s", resp.StatusCode, text)
		}
		if _, bought, distinct := r.v.counts(); distinct != i+1 || bought != 2*(i+1) {
			t.Errorf("%d paid requests, %d payments", bought, distinct)
		}
	}
}

// Without routes, requests inside are logged all the same. Streams and upgrades pass as ever.
func TestInsideIsLogged(t *testing.T) {
	r := newRouted(t, "", "")
	release := make(chan struct{})
	r.v.delivers(func(w http.ResponseWriter, req *http.Request, n int) {
		if req.Header.Get("Upgrade") != "" {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_ = rw.Flush()
			_, _ = io.Copy(conn, rw)
			return
		}
		r.v.receipt(w, n)
		_, _ = io.WriteString(w, "first ")
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = io.WriteString(w, "last")
	})
	for _, http2 := range []bool{false, true} {
		resp, err := r.client(http2).Do(newRequest(t, "GET", r.shop("/stream"), nil))
		if err != nil {
			t.Fatal(err)
		}
		part := make([]byte, 6)
		if _, err := io.ReadFull(resp.Body, part); err != nil {
			t.Fatal(err)
		}
		release <- struct{}{}
		rest, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if got := string(part) + string(rest); err != nil || got != "first last" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if e := r.entries("/stream", 2); e[0]["status"] != 200.0 || e[0]["size"] != 10.0 {
		t.Errorf("%v", e)
	}
	resp, err := r.client(false).Do(newRequest(t, "GET", r.shop("/socket"), nil, "Connection", "Upgrade", "Upgrade", "websocket"))
	if err != nil {
		t.Fatal(err)
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	echo := make([]byte, 4)
	if _, err := io.WriteString(conn, "ping"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, echo); err != nil || string(echo) != "ping" {
		t.Errorf("%q, %v", echo, err)
	}
	_ = conn.Close()
	r.entries("/socket", 1)
	r.v.expect(3, 3, 3)
}

// A client that leaves while its paid answer is awaited gets it with its repeat, through the routes too.
func TestRoutesSeeClientsLeave(t *testing.T) {
	r := newRouted(t, "routes {\n\t\t\t\theader X-Route y\n\t\t\t}", "")
	left := make(chan struct{})
	r.v.delivers(func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			<-left
		}
		r.v.receipt(w, n)
		_, _ = io.WriteString(w, "goods")
	})
	c := r.client(false)
	c.Timeout = 500 * time.Millisecond
	if resp, err := c.Do(newRequest(t, "GET", r.shop("/x"), nil)); err == nil {
		_ = resp.Body.Close()
		t.Fatal("an answer")
	}
	close(left)
	c = r.client(false)
	eventually(t, "the repeat has the answer", func() bool {
		resp, text := r.ask(c, "GET", "/x", "")
		return resp.StatusCode == 200 && text == "goods"
	})
	if _, _, distinct := r.v.counts(); distinct != 1 {
		t.Errorf("%d payments", distinct)
	}
}

// A client that sends whole https URLs to the proxy does not pass by the routes.
func TestRoutesOfWholeURLs(t *testing.T) {
	r := newRouted(t, "routes {\n\t\t\t\trespond /blocked/* {http.request.scheme} 403\n\t\t\t}", "")
	at, _ := url.Parse(r.url())
	for path, want := range map[string]int{"/blocked/x": 403, "/x": 200} {
		conn, err := net.Dial("tcp", at.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		req := newRequest(t, "GET", r.shop(path), nil, "Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(r.key+":")))
		if err := req.WriteProxy(conn); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != want || want == 403 && string(text) != "https" {
			t.Errorf("%s: %d %s, %v", path, resp.StatusCode, text, err)
		}
	}
	r.v.expect(1, 1, 1)
}

func TestRoutesInTheCaddyfile(t *testing.T) {
	if err := validate("http://:1 {\n\tpurser_proxy {\n\t\tintercept off\n\t\troutes {\n\t\t\trespond 403\n\t\t}\n\t}\n}\n"); err == nil || !strings.Contains(err.Error(), "no request would come to the routes") {
		t.Errorf("without interception: %v", err)
	}
	site := func(text string) string { return "http://:1 {\n\tpurser_proxy {\n\t\t" + text + "\n\t}\n}\n" }
	config, err := adapt(site("routes {\n\t\t\trespond /x 403\n\t\t}"))
	if err != nil || !strings.Contains(string(config), `{"handler":"purser_proxy","routes":[{"handle":[{"handler":"static_response","status_code":403}],"match":[{"path":["/x"]}]}]}`) {
		t.Errorf("%s, %v", config, err)
	}
	for text, want := range map[string]string{
		"routes":                   "routes has no directive",
		"routes x {\nrespond 1\n}": "wrong argument count",
		"routes {\nnothing\n}":     "nothing",
		"routes {\nrespond 403\n}\nroutes {\nrespond 403\n}": "routes is given twice, first at Caddyfile:3, at Caddyfile:6",
	} {
		if _, err := adapt(site(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
