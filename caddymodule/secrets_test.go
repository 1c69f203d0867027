package caddymodule

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// parrots are a seller, a facilitator and an RPC that say back what they were sent, wherever purser may write it down.
type parrots struct {
	seller, facilitator, rpc *httptest.Server
	refuses                  atomic.Int64 // what the facilitator does wrong

	mu       sync.Mutex
	payloads []string
}

func (p *parrots) remember(payload string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.payloads = append(p.payloads, payload)
}

func challengeSaying(text string) string {
	plain, _ := base64.StdEncoding.DecodeString(challenge(10_000))
	quoted, _ := json.Marshal(text)
	return base64.StdEncoding.EncodeToString([]byte(strings.Replace(string(plain), `"Payment required"`, string(quoted), 1)))
}

func (p *parrots) sell(w http.ResponseWriter, r *http.Request) {
	payload := r.Header.Get(x402.HeaderSignature)
	if payload == "" {
		switch r.URL.Path {
		case "/unreadable":
			w.Header().Set(x402.HeaderRequired, "not base64: "+r.URL.String())
		case "/dear":
			w.Header().Set(x402.HeaderRequired, challenge(90_000_000))
		case "/plain":
			return
		default:
			w.Header().Set(x402.HeaderRequired, challengeSaying("pay for "+r.URL.String()))
		}
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	p.remember(payload)
	said := r.URL.String() + " " + payload + " " + signatureIn(payload)
	switch r.URL.Path {
	case "/again":
		w.Header().Set(x402.HeaderRequired, challengeSaying("no good: "+said))
		w.WriteHeader(http.StatusPaymentRequired)
	case "/short": // what is shortened must not be what was cut out
		w.Header().Set(x402.HeaderRequired, challengeSaying(strings.Repeat("no good ", 20)+signatureIn(payload)))
		w.WriteHeader(http.StatusPaymentRequired)
	case "/fails":
		http.Error(w, said, http.StatusInternalServerError)
	case "/receipt":
		w.Header().Set(x402.HeaderResponse, payload)
	case "/failed":
		b, _ := json.Marshal(map[string]any{"success": false, "errorReason": said, "network": "eip155:8453", "transaction": ""})
		w.Header().Set(x402.HeaderResponse, base64.StdEncoding.EncodeToString(b))
	case "/misfit":
		b, _ := json.Marshal(map[string]any{"success": true, "network": said, "payer": said, "transaction": said})
		w.Header().Set(x402.HeaderResponse, base64.StdEncoding.EncodeToString(b))
	case "/gone":
		proxytest.HangUp(w)
	default:
		b, _ := json.Marshal(map[string]any{"success": true, "network": "eip155:8453", "transaction": fmt.Sprintf("0x%064x", 7)})
		w.Header().Set(x402.HeaderResponse, base64.StdEncoding.EncodeToString(b))
	}
}

// signatureIn is the signature of a payload, as RPC errors quote it.
func signatureIn(payload string) string {
	decoded, err := x402.DecodePayload(payload)
	if err != nil {
		return "none"
	}
	_, signature, err := decoded.Authorization()
	if err != nil {
		return "none"
	}
	return signature.String()
}

func (p *parrots) facilitate(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	said, _ := json.Marshal(string(body) + " " + r.Header.Get("Authorization") + " " + r.URL.String())
	switch p.refuses.Load() {
	case 1:
		fmt.Fprintf(w, `{"isValid":false,"invalidReason":%s}`, said)
	case 2:
		proxytest.HangUp(w)
	case 3:
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write(said)
	case 4:
		fmt.Fprintf(w, `{"isValid":true,"success":false,"errorReason":%s,"transaction":%s}`, said, said)
	default:
		fmt.Fprintf(w, `{"isValid":true,"success":true,"kinds":[],"transaction":"0x%064x","network":"eip155:8453"}`, 9)
	}
}

func newParrots(t *testing.T) *parrots {
	t.Helper()
	p := &parrots{}
	p.seller = httptest.NewServer(http.HandlerFunc(p.sell))
	p.facilitator = httptest.NewServer(http.HandlerFunc(p.facilitate))
	p.rpc = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no such thing: "+r.URL.String(), http.StatusTeapot)
	}))
	t.Cleanup(func() {
		p.seller.Close()
		p.facilitator.Close()
		p.rpc.Close()
	})
	return p
}

// spans is an OTLP collector that keeps what it is sent.
type spans struct {
	*httptest.Server
	mu   sync.Mutex
	text strings.Builder
}

func newSpans(t *testing.T) *spans {
	t.Helper()
	s := &spans{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.text.Write(body)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *spans) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Marks that are found wherever they get to.
const (
	markedKey     = "pk_MARKED-deployment-key"
	markedQuery   = "MARKED-query"
	markedUser    = "MARKED-userinfo"
	markedHeader  = "MARKED-authorization"
	markedFrom    = "MARKED-facilitator-key"
	markedRPC     = "MARKED-rpc-path"
	markedRPC2    = "MARKED-second-rpc-path"
	markedSecret  = "MARKED-internal-secret"
	markedAttempt = "MARKED-idempotency-key"
	markedLogin   = "pk_MARKED-unknown-key"
)

// Whatever goes wrong at whichever door, and whichever service says back what it was sent: nothing that is secret is logged at
// any level, told to subscribers of events, traced, or in a metric; and each line of a payment's life names it.
func TestNothingSecretIsTold(t *testing.T) {
	p, traced := newParrots(t), newSpans(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", traced.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	t.Setenv("PURSER_FACILITATOR_URL", p.facilitator.URL+"/"+markedFrom)
	t.Setenv("PURSER_FACILITATOR_KEY", markedFrom)
	t.Setenv("PURSER_RPC_URL", p.rpc.URL+"/"+markedRPC)
	t.Setenv("PURSER_RPC_URL_2", p.rpc.URL+"/"+markedRPC2)
	t.Setenv("PURSER_INTERNAL_SECRET", markedSecret)
	t.Setenv("PURSER_KEY", markedKey)
	s := newSite(t)
	side, observed := freePort(t), freePort(t)
	logged := filepath.Join(t.TempDir(), "log")
	s.route = "tracing\n\t\tpurser_proxy {\n\t\t\tallow_http api.purser.test\n\t\t\tresolve api.purser.test 127.0.0.1\n\t\t}\n\t\tpurser_api"
	s.global, s.app = "events {\n\t\ton * purser_test\n\t}", "approval_wait 50ms"
	_, filter, _ := strings.Cut(shipped(t), "(redacted) {")
	filter, _, _ = strings.Cut("(redacted) {"+filter, "\n}\n")
	text := replaceOnce(t, s.caddyfile(), "level WARN", "level DEBUG\n\t\timport redacted\n\t\toutput file "+logged)
	mustLoad(t, filter+"\n}\n"+text+fmt.Sprintf("http://:%d {\n\tbind 127.0.0.1\n\troute {\n\ttracing\n\tpurser_upstream {\n\t\tto %s\n\t}\n}\n}\n"+
		"http://:%d {\n\tbind 127.0.0.1\n\tmetrics /metrics\n}\n", side, p.seller.URL, observed))
	key := newKey(t, s.url())
	heardBefore := len(heardEvents())

	// Everything that a client sends with it, good or bad.
	headers := []string{"Authorization", "Bearer " + markedHeader, "Cookie", "session=" + markedHeader, "Idempotency-Key"}
	life := newLife(t, logged)
	ask := func(c *http.Client, method, target, body string, attempt string, more ...string) {
		t.Helper()
		r := newRequest(t, method, target, strings.NewReader(body), append(slices.Clone(headers), append([]string{attempt}, more...)...)...)
		if resp, err := c.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		eventually(t, "the leases end", func() bool { return pooledAt(t).idle(t) })
	}
	base, _ := url.Parse(p.seller.URL)
	seller := "http://" + markedUser + ":" + markedUser + "@api.purser.test:" + base.Port()
	agent := s.through(t, url.UserPassword(key, "task"))
	n := 0
	for _, path := range []string{"/ok", "/again", "/short", "/fails", "/receipt", "/failed", "/misfit", "/gone", "/unreadable", "/dear", "/plain"} {
		for _, door := range []struct {
			name string
			ask  func(attempt string)
		}{
			{"proxy", func(a string) { ask(agent, "GET", seller+path+"?token="+markedQuery, "", a) }},
			{"transport", func(a string) {
				ask(newClient(t), "POST", fmt.Sprintf("http://127.0.0.1:%d%s?token=%s", side, path, markedQuery), "x", a)
			}},
		} {
			n++
			door.ask(fmt.Sprint(markedAttempt, n))
			life.check(door.name + " " + path)
		}
	}
	ask(s.through(t, url.UserPassword(markedLogin, "task")), "GET", seller+"/ok?token="+markedQuery, "", markedAttempt)
	ask(agent, "GET", fmt.Sprintf("http://%s@127.0.0.1:%d/?token=%s", markedUser, freePort(t), markedQuery), "", markedAttempt+"x")
	ask(agent, "GET", "http://"+markedUser+"@nowhere.invalid/?token="+markedQuery, "", markedAttempt+"y")
	ask(agent, "GET", strings.Replace(seller, "http://", "https://", 1)+"/ok?token="+markedQuery, "", markedAttempt+"z")

	for mode := range int64(5) {
		p.refuses.Store(mode)
		n++
		body := fmt.Sprintf(`{"paymentRequiredHeader":%q,"requestUrl":%q,"idempotencyKey":%q}`, challengeSaying("pay "+markedQuery),
			"https://api.example.com/v2?token="+markedQuery, fmt.Sprint(markedAttempt, n))
		for range 2 { // once more, which is a repeat
			ask(newClient(t), "POST", s.url()+"/v1/pay", body, markedAttempt, "X-Api-Key", key)
			life.check(fmt.Sprint("api, facilitator ", mode))
		}
	}
	p.refuses.Store(0)
	var ids []string
	for _, row := range rowsOf(t, key) {
		ids = append(ids, row.ID)
		ask(newClient(t), "POST", s.url()+"/v1/payments/"+row.ID+"/receipt?token="+markedQuery, fmt.Sprintf(`{"receipt":%q}`,
			base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"success":false,"errorReason":"said %s"}`, row.Signature))), markedAttempt, "X-Api-Key", key)
	}
	for path, body := range map[string]string{
		"/v1/pay":   `{"requestUrl":"https://` + markedUser + `@api.example.com/?` + markedQuery + `","paymentRequiredHeader":"` + markedQuery + `"}`,
		"/v1/nope":  markedQuery,
		"/wallets":  `{"network":"` + markedQuery,
		"/api-keys": `{"internalSecret":"` + markedSecret + `x"`,
	} {
		for _, k := range []string{key, markedLogin, ""} {
			ask(newClient(t), "POST", s.url()+path+"?token="+markedQuery, body, markedAttempt, "X-Api-Key", k, "X-Internal-Secret", markedSecret+"y")
		}
	}

	secrets := map[string]string{
		"the key": key, "the key's rest": strings.TrimPrefix(key, "pk_"), "the deployment's key": markedKey, "a query": markedQuery, "userinfo": markedUser,
		"Authorization": markedHeader, "the facilitator's key": markedFrom, "the RPC's path": markedRPC, "the second RPC's path": markedRPC2, "the internal secret": markedSecret,
		"an unknown key": markedLogin,
	}
	store := pooledAt(t).store
	wallets, err := store.AllWallets(t.Context(), "", 100)
	if err != nil || len(wallets) < 2 {
		t.Fatal(err, len(wallets))
	}
	for _, w := range wallets {
		secret, err := store.WalletSecret(t.Context(), w.ID)
		if err != nil || len(secret) < 32 {
			t.Fatal(err, len(secret))
		}
		secrets["a private key"] = hex.EncodeToString(secret)
	}
	rows := append(rowsOf(t, key), rowsOf(t, markedKey)...)
	for _, row := range rows {
		if row.Signature == nil {
			continue
		}
		whole := row.Signature.String()
		secrets["the signature of "+row.ID] = whole[2:]
		secrets["the first half of the signature of "+row.ID] = whole[2:66]
		secrets["the second half of the signature of "+row.ID] = whole[66:130]
	}
	p.mu.Lock()
	for i, payload := range p.payloads {
		secrets[fmt.Sprint("the start of payload ", i)] = payload[:60]
		secrets[fmt.Sprint("the middle of payload ", i)] = payload[len(payload)/2:][:60]
	}
	p.mu.Unlock()
	eventually(t, "the spans are exported", func() bool {
		return strings.Contains(traced.all(), "purser send") && strings.Contains(traced.all(), "purser settle")
	})
	_, _, metrics := get(t, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/metrics", observed))
	eventually(t, "events are told", func() bool { return len(heardEvents()) > heardBefore })
	log := logAtTheEnd(t, logged) // exports, tells and writes the rest
	var told strings.Builder
	for _, e := range heardEvents()[heardBefore:] {
		fmt.Fprintf(&told, "%s\n", e.CloudEvent().Data)
	}
	for _, message := range []string{
		"payment begun", "payment signed", "payment leaves", "payment settled", "payment refused", "payment observed", "payment repeated",
		"402 after the payment was sent", "402 not paid", "challenge not readable", "paid request without an answer", "facilitator gave no answer",
		"facilitator gave no verdict", "proxy request refused", "proxy request failed", "payment not allowed",
	} {
		if !strings.Contains(log, `"`+message+`"`) {
			t.Errorf("no line says %q, so this proves little", message)
		}
	}
	for line := range strings.Lines(log) {
		if ownLine.MatchString(line) && strings.Contains(line, markedAttempt) {
			t.Errorf("an idempotency key: %s", line)
		}
	}
	if told.Len() < 1000 {
		t.Log(told.String())
	}
	for where, text := range map[string]string{"the log": sellersWords.ReplaceAllString(log, ""), "the events": told.String(), "the traces": traced.all(), "the metrics": metrics} {
		if where != "the metrics" && !slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(text, id) }) {
			t.Errorf("%s: no payment in it, so this proves nothing", where)
		}
		for what, secret := range secrets {
			if i := strings.Index(strings.ToLower(text), strings.ToLower(secret)); i >= 0 {
				from := strings.LastIndexByte(text[:i], '\n') + 1
				t.Errorf("%s (%.12s…) is in %s: %s", what, secret, where, text[max(from, i-700):min(len(text), i+100)])
			}
		}
	}
}

// idle: no payment has a lease.
func (p *pooled) idle(t *testing.T) bool {
	t.Helper()
	for _, label := range []string{markedKey} {
		for _, row := range rowsOf(t, label) {
			if row.Lease.Owner != "" {
				return false
			}
		}
	}
	keys, err := p.store.ListKeys(t.Context(), "", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		rows, err := p.store.Payments(t.Context(), pay.PaymentQuery{KeyID: k.ID, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(rows, func(row *pay.Payment) bool { return row.Lease.Owner != "" }) {
			return false
		}
	}
	return true
}

func rowsOf(t *testing.T, secret string) []*pay.Payment {
	t.Helper()
	tenant := pooledAt(t).newestTenant()
	k, err := tenant.payer.Resolve(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := tenant.books.Payments(t.Context(), k, "", 100, "")
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// life reads the lines that a log has got since it was looked at last.
type life struct {
	t    *testing.T
	file string
	read int
}

func newLife(t *testing.T, file string) *life {
	t.Helper()
	l := &life{t: t, file: file}
	l.lines()
	return l
}

func (l *life) lines() []string {
	l.t.Helper()
	text, err := os.ReadFile(l.file)
	if err != nil {
		l.t.Fatal(err)
	}
	from := l.read
	l.read = len(text)
	return strings.Split(strings.TrimSpace(string(text[from:])), "\n")
}

// sellersWords lists what Caddy's reverse proxy logs of an answer at DEBUG. Nothing of purser's is in it.
var sellersWords = regexp.MustCompile(`"Payment-Required":\[[^\]]*\]`)

var ownLine = regexp.MustCompile(`"logger":"purser"`)

// check: purser's own lines from "payment begun", or "payment repeated", on name the payment.
func (l *life) check(what string) {
	l.t.Helper()
	payment := ""
	for _, line := range l.lines() {
		if !ownLine.MatchString(line) {
			continue
		}
		var said map[string]any
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			l.t.Errorf("%v: %s", err, line)
		}
		id, _ := said["payment"].(string)
		if said["msg"] == "payment begun" || said["msg"] == "payment repeated" {
			payment = id
		}
		if payment != "" && id != payment {
			l.t.Errorf("%s: not of payment %s: %s", what, payment, line)
		}
		if n := strings.Count(line, `"payment":`); n > 1 {
			l.t.Errorf("%s: %d payments in %s", what, n, line)
		}
		if said["trace_id"] == nil && payment != "" {
			l.t.Errorf("%s: no trace in %s", what, line)
		}
	}
}
