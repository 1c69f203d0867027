package soak

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// Names of the sellers, all on loopback: one that does as it should, one that fails in many ways, and one whose HTTPS is not
// opened.
const (
	nameGood   = "good.soak.test"
	nameBad    = "bad.soak.test"
	nameTunnel = "tunnel.soak.test"
)

// refusedPayee is a seller whose payments the facilitator refuses.
var refusedPayee = x402.EVMAddress([20]byte{19: 1})

// price of everything, in the smallest unit of USDC.
const price = 100

// idle is the time that servers keep unused connections, so that they close soon after the load.
const idle = 5 * time.Second

// world is the chain, the facilitator and the sellers.
type world struct {
	*ledger
	payTo    x402.Address
	validity time.Duration  // of the challenges
	clock    *process.Clock // nil while a long run is measured

	rpcURL, facilitatorURL string
	http, tls              string // ports of the sellers
	certificates           *process.Certificates

	challenge   string // value of PAYMENT-REQUIRED
	settlements atomic.Uint64
	calm        atomic.Bool // the facilitator does not fail
	refuse      atomic.Bool // the facilitator refuses all
	gates       sync.Map    // by the moment, *gate
}

// gate holds up who comes to a moment of a payment.
type gate struct {
	came chan string   // has the path, or the method of the facilitator, of each who came
	open chan struct{} // closed to let them go on
}

// hold has everybody wait who comes to a moment from now on: at the facilitator verify, settle and settled (the money has
// moved), at the seller asked (without a payment), paid and taken.
func (w *world) hold(moment string) *gate {
	g := &gate{came: make(chan string, 1000), open: make(chan struct{})}
	w.gates.Store(moment, g)
	return g
}

// pass waits at a gate, whether or not the caller is still there.
func (w *world) pass(moment, who string) {
	if g, held := w.gates.Load(moment); held {
		g.(*gate).came <- who
		<-g.(*gate).open
	}
}

// release opens a gate for good.
func (w *world) release(moment string) {
	if g, held := w.gates.LoadAndDelete(moment); held {
		close(g.(*gate).open)
	}
}

// waits returns when n have come to a gate.
func (g *gate) waits(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-g.came:
		case <-time.After(20 * time.Second):
			t.Fatal("not all have come")
		}
	}
}

// startWorld starts one whose challenges allow a minute. It has a clock that can be set forward, unless a long run is
// measured, which has the program that users run.
func startWorld(t *testing.T) *world {
	t.Helper()
	w := &world{validity: time.Minute}
	now := time.Now
	if !measuring() {
		w.clock = process.NewClock(t)
		now = w.clock.Now
	}
	w.ledger = newLedger(now)
	sum := sumOf("seller")
	w.payTo = x402.EVMAddress([20]byte(sum[:20]))
	w.challenge = w.challengeOf(t, w.payTo, "goods")
	w.rpcURL = "http://" + serve(t, w.dated(rpc{w.ledger}), nil)
	w.facilitatorURL = "http://" + serve(t, w.dated(w.facilitator()), nil)
	var err error
	w.certificates, err = process.NewCertificates(t.TempDir(), nameGood, nameBad, nameTunnel)
	mustDo(t, err)
	_, w.http, _ = net.SplitHostPort(serve(t, w.seller(), nil))
	_, w.tls, _ = net.SplitHostPort(serve(t, w.seller(), &w.certificates.Leaf))
	return w
}

// dated stamps answers with the world's time, which purser compares its own with.
func (w *world) dated(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Date", w.now().UTC().Format(http.TimeFormat))
		handler.ServeHTTP(rw, r)
	})
}

// challengeOf is the value of PAYMENT-REQUIRED for a payee.
func (w *world) challengeOf(t *testing.T, payTo x402.Address, description string) string {
	t.Helper()
	return inHeader(t, map[string]any{
		"x402Version": 2, "error": "Payment required",
		"resource": map[string]string{"url": "http://" + nameGood + "/paid", "description": description, "mimeType": "application/json"},
		"accepts": []any{map[string]any{
			"scheme": "exact", "network": w.network.CAIP2(), "amount": strconv.Itoa(price), "asset": w.token.Address, "payTo": payTo,
			"maxTimeoutSeconds": int(w.validity / time.Second), "extra": map[string]string{"name": w.token.Name, "version": w.token.Version},
		}},
	})
}

// url is that of a seller's page.
func (w *world) url(scheme, name, path string) string {
	port := w.http
	if scheme == "https" {
		port = w.tls
	}
	return scheme + "://" + net.JoinHostPort(name, port) + path
}

// serve listens on loopback until the test ends; TLS when there is a certificate.
func serve(t *testing.T, handler http.Handler, certificate *tls.Certificate) (address string) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.IdleTimeout, s.Config.MaxHeaderBytes = idle, 256<<10
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if certificate == nil {
		s.Start()
	} else {
		s.EnableHTTP2, s.TLS = true, &tls.Config{Certificates: []tls.Certificate{*certificate}}
		s.StartTLS()
	}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.Listener.Addr().String()
}

// pays settles a signed payload as a facilitator does. reason is "" when the money moved.
func (w *world) pays(p x402.Payload) (a x402.Authorization, tx, reason string) {
	a, signature, err := p.Authorization()
	if err != nil {
		return a, "", "invalid_payload"
	}
	if reason := w.judge(a, signature); reason != "" {
		return a, "", reason
	}
	if tx, err = w.move(a); err != nil {
		return a, "", reasonOf(err)
	}
	return a, tx, ""
}

func (w *world) judge(a x402.Authorization, s x402.Signature) string {
	signer, err := x402.Recover(a.Digest(w.token, w.network.ChainID), s)
	switch {
	case err != nil || signer != a.From:
		return "invalid_exact_evm_signature"
	case a.To != w.payTo || a.Value != money.New(price):
		return "invalid_exact_evm_payload_authorization_value_mismatch"
	}
	return ""
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, errUsed):
		return "invalid_exact_evm_nonce_already_used"
	case errors.Is(err, errPoor):
		return "invalid_exact_evm_insufficient_balance"
	}
	return "invalid_exact_evm_payload_authorization_valid_before"
}

// facilitator verifies and settles. It moves the money and answers 500 for one settlement in a hundred. It says that
// another is pending, and does neither for a third.
func (w *world) facilitator() http.Handler {
	mux := http.NewServeMux()
	read := func(r *http.Request) (p x402.Payload, err error) {
		var body struct {
			Version int             `json:"x402Version"`
			Payload json.RawMessage `json:"paymentPayload"`
		}
		err = json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&body)
		return x402.Payload{Version: body.Version, JSON: body.Payload}, err
	}
	mux.HandleFunc("POST /verify", func(rw http.ResponseWriter, r *http.Request) {
		p, err := read(r)
		a, s, err2 := p.Authorization()
		if err != nil || err2 != nil {
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		w.pass("verify", a.From.String())
		reason := w.judge(a, s)
		if w.refuse.Load() || a.To == refusedPayee {
			reason = "invalid_exact_evm_insufficient_balance"
		}
		if reason == "" {
			if err := w.check(a); err != nil {
				reason = reasonOf(err)
			}
		}
		writeJSON(rw, http.StatusOK, map[string]any{"isValid": reason == "", "invalidReason": reason, "payer": a.From})
	})
	mux.HandleFunc("POST /settle", func(rw http.ResponseWriter, r *http.Request) {
		p, err := read(r)
		if err != nil {
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		n := w.settlements.Add(1) % 100
		if w.calm.Load() {
			n = 0
		}
		answer := map[string]any{"success": false, "transaction": "", "network": w.network.CAIP2()}
		switch n {
		case 33:
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		case 66:
			answer["errorReason"] = "settlement_pending"
			defer w.pays(p)
		default:
			w.pass("settle", "")
			a, tx, reason := w.pays(p)
			w.pass("settled", "")
			answer["success"], answer["transaction"], answer["payer"] = reason == "", tx, a.From
			if reason != "" {
				answer["errorReason"] = reason
			}
		}
		if n == 99 {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		writeJSON(rw, http.StatusOK, answer)
	})
	return mux
}

// seller sells /paid and /stream and gives /free away. The one with the bad name fails.
func (w *world) seller() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /free", func(rw http.ResponseWriter, _ *http.Request) {
		writeJSON(rw, http.StatusOK, map[string]string{"weather": strings.Repeat("fair ", 20)})
	})
	lastingPages(mux)
	mux.HandleFunc("GET /paid", w.paid(func(rw http.ResponseWriter) {
		writeJSON(rw, http.StatusOK, map[string]string{"goods": strings.Repeat("fine ", 40)})
	}))
	mux.HandleFunc("POST /paid", w.paid(func(rw http.ResponseWriter) { // which does not read what is posted
		writeJSON(rw, http.StatusOK, map[string]string{"goods": strings.Repeat("fine ", 40)})
	}))
	mux.HandleFunc("POST /sink", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.pass("sink", "")
	})
	mux.HandleFunc("GET /stream", w.paid(func(rw http.ResponseWriter) {
		rw.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			_, _ = fmt.Fprintf(rw, "data: %d\n\n", i)
			_ = http.NewResponseController(rw).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	}))
	return mux
}

// paid asks for the price, takes it, and delivers.
func (w *world) paid(deliver func(http.ResponseWriter)) http.HandlerFunc {
	ask := func(rw http.ResponseWriter) {
		rw.Header().Set(x402.HeaderRequired, w.challenge)
		writeJSON(rw, http.StatusPaymentRequired, struct{}{})
	}
	return func(rw http.ResponseWriter, r *http.Request) {
		header := r.Header.Get(x402.HeaderSignature)
		if header == "" {
			w.pass("asked", r.URL.Path)
			ask(rw)
			return
		}
		p, err := x402.DecodePayload(header)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		fault := -1
		if strings.HasPrefix(r.Host, nameBad) {
			n, _ := strconv.Atoi(r.URL.Query().Get("n"))
			fault = n % 6
		}
		if fault == 0 { // takes nothing and asks again
			ask(rw)
			return
		}
		if fault == 1 { // takes nothing and fails
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.pass("paid", r.URL.Path)
		a, tx, reason := w.pays(p)
		w.pass("taken", r.URL.Path)
		switch fault {
		case 2: // takes the money and fails
			rw.WriteHeader(http.StatusBadGateway)
		case 3: // takes the money and is gone
			panic(http.ErrAbortHandler)
		case 4: // takes the money and its time
			select {
			case <-r.Context().Done():
			case <-time.After(2 * time.Second):
			}
			fallthrough
		default:
			receipt, _ := json.Marshal(map[string]any{
				"success": reason == "", "transaction": tx, "network": w.network.CAIP2(), "payer": a.From, "errorReason": reason,
			})
			rw.Header().Set(x402.HeaderResponse, base64.StdEncoding.EncodeToString(receipt))
			if reason != "" {
				ask(rw)
				return
			}
			deliver(rw)
		}
	}
}

func inHeader(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(text)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // ignore a caller that has left
}
