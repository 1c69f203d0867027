package payapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/boltstore"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/payapi"
	"github.com/purserpay/purser/x402"
)

func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.newKey()
	for _, route := range []string{
		"GET /nothing", "GET /api-keys", "POST /", "PUT /wallets", "GET /wallets", "GET /wallets/", "POST /wallets/me", "PATCH /wallets/x",
		"DELETE /wallets/", "DELETE /wallets/a/b", "GET /v1/pay", "DELETE /v1/spend", "GET /v1", "GET /v1/payments/", "GET /health/",
		"POST /v1/payments//receipt", "GET /v1/payments/x/receipt", "POST /v1/payments/receipt", "GET //health", "GET /a/../health",
		"OPTIONS /v1/pay", "HEAD /v1/pay", "TRACE /", "GET /HEALTH", "GET /wallets%2Fme%2F", "GET /wallets%2Fme",
		"GET /v1%2fspend", "POST /api-keys%2F", "GET /v1/payments%2Fx", "POST /v1/payments/x%2freceipt", "DELETE /wallets/x%2Fy",
	} {
		method, path, _ := strings.Cut(route, " ")
		a := w.call(method, path, key, nil)
		if a.status != 404 || (method != "HEAD" && a.text("error") != "Not found") {
			t.Errorf("%s: %d %s", route, a.status, a.raw)
		}
	}
}

func TestHeadIsGet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.newKey()
	for _, path := range []string{"/", "/health", "/wallets/me", "/v1/spend", "/v1/payments", "/v1/payments/x"} {
		get, head := w.call("GET", path, key, nil), w.call("HEAD", path, key, nil)
		if head.status != get.status || head.raw != "" || head.header.Get("Content-Length") != fmt.Sprint(len(get.raw)) ||
			head.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: HEAD %d %v, GET %d of %d bytes", path, head.status, head.header, get.status, len(get.raw))
		}
	}
}

func TestBodyBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.newKey()
	fits := fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 1<<20-len(`{"x":""}`)))
	for _, path := range []string{"/api-keys", "/wallets", "/v1/pay", "/v1/payments/x/receipt"} {
		if a := w.call("POST", path, key, fits); a.status == 413 {
			t.Errorf("%s: 1 MiB is too large: %s", path, a.raw)
		}
		w.call("POST", path, key, fits+" ").is(413, "Request body too large")
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.call("GET", "/health", "", nil).is(200, "").
		want("ok", true).want("service", "purser").want("version", "1.2.3").
		want("database", map[string]any{"configured": true, "ok": true, "kind": "memory"}).
		want("facilitator", map[string]any{"configured": true, "ok": true}).
		want("rpc", map[string]any{"configured": false, "ok": false, "network": "base", "chain_id": 8453}).
		want("wallets", map[string]any{"provider": "local"})

	w = newWorld(t, func(s *setup) { s.noFacilitator = true })
	w.call("GET", "/health", "", nil).is(200, "").want("facilitator", map[string]any{"configured": false, "ok": false})
}

// silent is an RPC that never answers.
type silent struct{ pay.Chain }

func (silent) Identify(context.Context, x402.Network, x402.Asset) (pay.ChainIdentity, error) {
	return pay.ChainIdentity{}, errors.New("no answer")
}

// A failing dependency is shown, but purser can still pay in other ways.
func TestHealthOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.Chain = silent{} })
	w.facilitator.close()
	a := w.call("GET", "/health", "", nil).is(200, "").want("ok", true).want("facilitator.configured", true).want("facilitator.ok", false).
		want("rpc.configured", true).want("rpc.ok", false)
	if !strings.Contains(a.text("rpc.error"), "no answer") || a.text("facilitator.error") == "" || strings.Contains(a.raw, w.facilitator.url) {
		t.Error(a.raw)
	}
}

// full is a disk that fills up.
func full(path string, used *atomic.Bool) func(*setup) {
	return func(s *setup) {
		s.disk = &boltstore.Options{Path: path, FreeSpace: func(string) (uint64, error) {
			if used.Load() {
				return 1 << 20, nil
			}
			return 1 << 40, nil
		}}
	}
}

func TestStoreUnavailable(t *testing.T) {
	t.Parallel()
	var used atomic.Bool
	w := newWorld(t, full(filepath.Join(t.TempDir(), "purser.db"), &used))
	key := w.payingKey()
	used.Store(true)
	w.eventually("health notices the full disk", func() bool { return w.call("GET", "/health", "", nil).status == 503 })
	w.call("GET", "/health", "", nil).is(503, "").want("ok", false).want("database.ok", false)
	w.call("GET", "/", "", nil).is(200, "")
	a := w.call("POST", "/v1/pay", key, order(1)).is(503, "Service unavailable")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if n := w.facilitator.verified.Load(); n != 0 {
		t.Errorf("%d calls of /verify without a journal", n)
	}
}

func TestShuttingDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	if err := w.payer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.call("POST", "/v1/pay", key, order(1)).is(503, "Service unavailable")
}

// broken is a faulty wallet provider: its panic contains a secret.
type broken struct{ pay.Wallets }

func (broken) Create(context.Context, string, string) (pay.ProvidedWallet, error) {
	panic("bug with secret-in-a-panic")
}
func (broken) Name() string { return "broken" }

// offline is a wallet provider that cannot be reached.
type offline struct{ pay.Wallets }

func (offline) Create(context.Context, string, string) (pay.ProvidedWallet, error) {
	return pay.ProvidedWallet{}, errors.New("no route to provider")
}
func (offline) Name() string { return "offline" }

// unheard is a wallet provider outside this process that does not answer.
type unheard struct{ pay.Wallets }

var errUnheard = &pay.SignerError{Provider: "unheard", Fault: pay.SignerSlow, Detail: "gave no answer in time"}

func (unheard) Create(context.Context, string, string) (pay.ProvidedWallet, error) {
	return pay.ProvidedWallet{}, errUnheard
}
func (unheard) Name() string                { return "unheard" }
func (unheard) Probe(context.Context) error { return errUnheard }

func TestSignerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	const text = "the unheard signer gave no answer in time"
	w := newWorld(t, func(s *setup) { s.pay.Wallets = unheard{} })
	w.call("POST", "/wallets", w.newKey(), nil).is(503, "Service unavailable").want("detail", text)
	w.eventually("the probe has ended", func() bool {
		return w.call("GET", "/health", "", nil).is(200, "").want("wallets.provider", "unheard").want("wallets.ok", false).at("wallets.error") == text
	})
}

func TestUnknownError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.Wallets = offline{} })
	w.call("POST", "/wallets", w.newKey(), nil).is(500, "Internal error").want("detail", nil)
	if logs := w.logs.String(); !strings.Contains(logs, "no route to provider") || !strings.Contains(logs, `"route":"/wallets"`) {
		t.Error("not logged: " + logs)
	}
}

// garbled is a facilitator whose answers are no JSON.
type garbled struct{ pay.Facilitator }

func (garbled) Verify(context.Context, pay.Exchange) (pay.VerifyAnswer, error) {
	return pay.VerifyAnswer{Reason: "insufficient_funds", Raw: json.RawMessage("{")}, nil
}

func TestAnswerIsAlwaysJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.noFacilitator, s.pay.Facilitator = true, garbled{} })
	w.call("POST", "/v1/pay", w.payingKey(), order(1)).is(500, "Internal error")
	if !strings.Contains(w.logs.String(), "answer not encoded") {
		t.Error("not logged")
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.Wallets = broken{} })
	key := w.newKey()
	w.call("POST", "/wallets", key, nil).is(500, "Internal error")
	w.call("GET", "/wallets/me", key, nil).is(200, "")
	if logs := w.logs.String(); !strings.Contains(logs, "panic while answering") || !strings.Contains(logs, "broken") {
		t.Error("not logged: " + logs)
	} else if strings.Contains(logs, "secret-in-a-panic") || strings.Contains(logs, key) {
		t.Error("secrets logged: " + logs)
	}
}

func TestCrossSite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.api.AllowedOrigins = []string{"https://App.example.com"} })
	key := w.newKey()
	for name, header := range map[string][]string{
		"fetch metadata": {"Sec-Fetch-Site", "cross-site"},
		"same site":      {"Sec-Fetch-Site", "same-site", "Origin", "http://localhost:9999"},
		"origin":         {"Origin", "https://evil.example"},
		"null origin":    {"Origin", "null"},
		"text/plain":     {"Sec-Fetch-Site", "cross-site", "Content-Type", "text/plain"},
	} {
		for _, route := range []string{"POST /api-keys", "POST /wallets", "DELETE /wallets/x", "POST /v1/pay"} {
			method, path, _ := strings.Cut(route, " ")
			if a := w.call(method, path, key, nil, header...); a.status != 403 || a.text("error") != "Cross-site request refused" {
				t.Errorf("%s, %s: %d %s", name, route, a.status, a.raw)
			}
		}
		if a := w.call("GET", "/wallets/me", key, nil, header...); a.status != 200 || a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: GET %d %v", name, a.status, a.header)
		}
	}
	for name, header := range map[string][]string{
		"allowed":     {"Sec-Fetch-Site", "cross-site", "Origin", "https://app.example.com"},
		"same origin": {"Sec-Fetch-Site", "same-origin", "Origin", w.url},
		"own address": {"Origin", w.url},
		"no browser":  {"Content-Type", "text/plain"},
	} {
		if a := w.call("POST", "/wallets", key, nil, header...); a.status != 201 {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
}

func TestPublicOriginIsOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.api.PublicURL = "https://pay.example.com" })
	w.call("POST", "/api-keys", "", nil, "Origin", "https://pay.example.com").is(201, "")
	w.call("POST", "/api-keys", "", nil, "Origin", "https://pay.example.org").is(403, "Cross-site request refused")
}

func TestCORS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.api.AllowedOrigins = []string{"https://app.example.com"} })
	const origin = "https://app.example.com"
	ask := []string{"Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type,x-api-key"}
	a := w.call("OPTIONS", "/v1/pay", "", nil, ask...).is(204, "")
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin":  origin,
		"Access-Control-Allow-Headers": "X-Api-Key, Content-Type, Purser-Max-Amount",
		"Access-Control-Allow-Methods": "GET, HEAD, POST, DELETE",
		"Vary":                         "Origin",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("preflight: %s is %q, want %q", name, got, want)
		}
	}
	if a.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Error("credentials allowed")
	}
	a = w.call("GET", "/wallets/me", "", nil, "Origin", origin).is(401, "API key not resolved")
	if a.header.Get("Access-Control-Allow-Origin") != origin || a.header.Get("Vary") != "Origin" {
		t.Errorf("the page cannot read the answer: %v", a.header)
	}
	ask[1] = "https://evil.example"
	a = w.call("OPTIONS", "/v1/pay", "", nil, ask...).is(404, "Not found")
	if a.header.Get("Access-Control-Allow-Origin") != "" || a.header.Get("Vary") != "Origin" {
		t.Errorf("another origin: %v", a.header)
	}
	if a = newWorld(t).call("GET", "/", "", nil, "Origin", origin); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("shared although no origin is allowed")
	}
}

func TestHostOnLoopback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) {
		s.api.LoopbackOnly = true
		s.api.PublicURL, s.api.AllowedOrigins = "https://Pay.example.com/", []string{"https://app.example.com:8443"}
	})
	for host, status := range map[string]int{
		"127.0.0.1:8402": 200, "127.9.9.9": 200, "[::1]:8402": 200, "localhost": 200, "LOCALHOST:1": 200,
		"pay.example.com": 200, "app.example.com": 200, "[::ffff:127.0.0.1]": 200,
		"evil.example": 421, "evil.example:8402": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421,
		"10.0.0.1": 421, "[::2]:8402": 421, "0.0.0.0": 421, "xpay.example.com": 421,
	} {
		for _, path := range []string{"/", "/nothing"} {
			want := status
			if path != "/" && status == 200 {
				want = 404
			}
			if a := w.call("GET", path, "", nil, "Host", host); a.status != want {
				t.Errorf("%s with Host %s: %d, want %d", path, host, a.status, want)
			}
		}
	}
	w.call("POST", "/api-keys", "", nil, "Host", "evil.example").is(421, "Misdirected request")
	if status := rawStatus(t, w.url, "GET / HTTP/1.0\r\n\r\n"); status != 421 {
		t.Errorf("without a Host: %d", status)
	}
	// The absolute form comes from a client that uses purser as its proxy, not from a page.
	if status := rawStatus(t, w.url, "GET http://purser.internal:8402/health HTTP/1.1\r\nHost: purser.internal:8402\r\n\r\n"); status != 200 {
		t.Errorf("absolute form: %d", status)
	}
	newWorld(t).call("GET", "/", "", nil, "Host", "any.example").is(200, "")
}

// rawStatus sends bytes that no client library sends.
func rawStatus(t *testing.T, url, request string) int {
	t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

func TestOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, o := range map[string]payapi.Options{
		"no payer":       {},
		"public URL":     {Payer: w.payer, Books: w.books, PublicURL: "pay.example.com"},
		"upgrade URL":    {Payer: w.payer, Books: w.books, UpgradeURL: "javascript:alert(1)"},
		"any origin":     {Payer: w.payer, Books: w.books, AllowedOrigins: []string{"*"}},
		"origin path":    {Payer: w.payer, Books: w.books, AllowedOrigins: []string{"https://app.example.com/path"}},
		"settlement":     {Payer: w.payer, Books: w.books, DefaultSettlement: "both"},
		"null as origin": {Payer: w.payer, Books: w.books, AllowedOrigins: []string{"null"}},
	} {
		if _, err := payapi.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
