package proxy

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/purserpay/purser/x402"
)

const (
	sellerAddress = "0x00000000000000000000000000000000000A11cE"
	usdcAddress   = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
)

// seller is an x402 seller that checks what it is paid with, and counts.
type seller struct {
	*httptest.Server
	t *testing.T

	v1    bool
	price string // smallest unit
	// challenge overrides the answer to unpaid requests.
	challenge http.HandlerFunc
	// paid overrides what happens once a payload was accepted; n counts them from 1.
	paid func(w http.ResponseWriter, r *http.Request, n int)
	// reuse answers payloads that were sent before: by default with nonce_already_used.
	reuse http.HandlerFunc

	mu     sync.Mutex
	unpaid []*http.Request
	bought []*http.Request
	bodies []string       // of paid requests
	nonces map[string]int // how often each was sent
}

func newSeller(t *testing.T, change ...func(*seller)) *seller {
	t.Helper()
	s := &seller{t: t, price: "10000", nonces: make(map[string]int)}
	for _, f := range change {
		f(s)
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *seller) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/free" {
		_, _ = io.WriteString(w, "free")
		return
	}
	value := r.Header.Get(x402.HeaderSignature)
	if s.v1 {
		value = r.Header.Get(x402.HeaderV1Payment)
	}
	if value == "" {
		s.mu.Lock()
		s.unpaid = append(s.unpaid, r.Clone(r.Context()))
		s.mu.Unlock()
		s.ask(w, r, "")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "body: "+err.Error(), http.StatusBadRequest)
		return
	}
	nonce, err := s.check(value)
	if err != nil {
		s.t.Errorf("seller got a bad payload: %v", err)
		s.ask(w, r, err.Error())
		return
	}
	s.mu.Lock()
	r2 := r.Clone(r.Context())
	r2.Trailer = r.Trailer
	s.bought = append(s.bought, r2)
	s.bodies = append(s.bodies, string(body))
	s.nonces[nonce]++
	again, n := s.nonces[nonce] > 1, len(s.bought)
	s.mu.Unlock()
	switch {
	case again && s.reuse != nil:
		s.reuse(w, r)
	case again && s.paid == nil:
		s.ask(w, r, "invalid_exact_evm_nonce_already_used")
	case s.paid != nil:
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.paid(w, r, n)
	default:
		s.receipt(w, n)
		_, _ = fmt.Fprintf(w, "paid:%s:%s", r.Method, body)
	}
}

// ask answers with the challenge.
func (s *seller) ask(w http.ResponseWriter, r *http.Request, reason string) {
	if s.challenge != nil && reason == "" {
		s.challenge(w, r)
		return
	}
	s.writeChallenge(w, r, s.price, reason)
}

func (s *seller) writeChallenge(w http.ResponseWriter, r *http.Request, price, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Seller", "kept")
	if s.v1 {
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = w.Write(v1Challenge(price, "http://"+r.Host+r.URL.Path, reason))
		return
	}
	w.Header().Set(x402.HeaderRequired, v2Challenge(price, "http://"+r.Host+r.URL.Path, reason))
	w.WriteHeader(http.StatusPaymentRequired)
	_, _ = io.WriteString(w, "{}")
}

func v1Challenge(price, resource, reason string) []byte {
	b, _ := json.Marshal(map[string]any{
		"x402Version": 1, "error": reason,
		"accepts": []any{map[string]any{
			"scheme": "exact", "network": "base", "maxAmountRequired": price, "resource": resource,
			"description": "", "mimeType": "", "payTo": sellerAddress, "asset": usdcAddress, "maxTimeoutSeconds": 60,
			"extra": map[string]string{"name": "USD Coin", "version": "2"},
		}},
	})
	return b
}

func v2Challenge(price, resource, reason string) string {
	b, _ := json.Marshal(map[string]any{
		"x402Version": 2, "error": reason, "resource": map[string]string{"url": resource},
		"accepts": []any{map[string]any{
			"scheme": "exact", "network": "eip155:8453", "amount": price, "payTo": sellerAddress, "asset": usdcAddress,
			"maxTimeoutSeconds": 60, "extra": map[string]string{"name": "USD Coin", "version": "2"},
		}},
	})
	return base64.StdEncoding.EncodeToString(b)
}

// receipt adds the receipt of the n-th settlement.
func (s *seller) receipt(w http.ResponseWriter, n int) {
	network, name := "eip155:8453", x402.HeaderResponse
	if s.v1 {
		network, name = "base", x402.HeaderV1Response
	}
	b, _ := json.Marshal(map[string]any{"success": true, "network": network, "transaction": transaction(n)})
	w.Header().Set(name, base64.StdEncoding.EncodeToString(b))
}

func transaction(n int) string { return fmt.Sprintf("0x%064x", n) }

// check verifies a payload as a facilitator would and returns its nonce.
func (s *seller) check(value string) (string, error) {
	p, err := x402.DecodePayload(value)
	if err != nil {
		return "", err
	}
	a, sig, err := p.Authorization()
	if err != nil {
		return "", err
	}
	n, _ := x402.NetworkByWire("base")
	from, err := x402.Recover(a.Digest(n.Assets[0], n.ChainID), sig)
	if err != nil {
		return "", err
	}
	if from != a.From {
		return "", fmt.Errorf("signed by %s, not %s", from, a.From)
	}
	return a.Nonce.String(), nil
}

// counts are the unpaid and paid requests, and the distinct payments among those.
func (s *seller) counts() (unpaid, paid, distinct int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unpaid), len(s.bought), len(s.nonces)
}

func (s *seller) expect(unpaid, paid, distinct int) {
	s.t.Helper()
	u, p, d := s.counts()
	if u != unpaid || p != paid || d != distinct {
		s.t.Fatalf("the seller saw %d unpaid, %d paid requests, %d payments; want %d, %d, %d", u, p, d, unpaid, paid, distinct)
	}
}

// hangUp ends a connection without an answer.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// logBook collects logs.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
