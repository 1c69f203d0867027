package proxytest

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/purserpay/purser/x402"
)

// Addresses in the challenges of a Seller.
const (
	SellerAddress = "0x00000000000000000000000000000000000A11cE"
	USDCAddress   = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
)

// Seller is an x402 seller that checks what it is paid with, and counts.
type Seller struct {
	*httptest.Server
	t *testing.T

	V1    bool
	Price string // smallest unit
	// Challenge overrides the answer to unpaid requests.
	Challenge http.HandlerFunc
	// Paid overrides the answer to an accepted payload; n counts them from 1.
	Paid func(w http.ResponseWriter, r *http.Request, n int)
	// Reuse answers payloads that were sent before: by default with nonce_already_used.
	Reuse http.HandlerFunc

	Mu     sync.Mutex
	Unpaid []*http.Request
	Bought []*http.Request
	Bodies []string       // of paid requests
	nonces map[string]int // how often each was sent
}

// NewSeller starts a Seller, which ends with the test.
func NewSeller(t *testing.T, change ...func(*Seller)) *Seller {
	t.Helper()
	s := newSeller(t, change...)
	s.Start()
	return s
}

func newSeller(t *testing.T, change ...func(*Seller)) *Seller {
	s := &Seller{t: t, Price: "10000", nonces: make(map[string]int)}
	for _, f := range change {
		f(s)
	}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	return s
}

// Challenges starts a Seller with another answer to unpaid requests.
func Challenges(t *testing.T, challenge func(s *Seller, rw http.ResponseWriter, r *http.Request)) *Seller {
	t.Helper()
	return NewSeller(t, func(s *Seller) {
		s.Challenge = func(rw http.ResponseWriter, r *http.Request) { challenge(s, rw, r) }
	})
}

// LoseAnswers has the seller hang up on its first n payloads. It answers those that come later.
func (s *Seller) LoseAnswers(n int) {
	s.Paid = func(rw http.ResponseWriter, r *http.Request, have int) {
		if have <= n {
			HangUp(rw)
			return
		}
		s.Receipt(rw, have)
		_, _ = io.Copy(rw, r.Body)
	}
}

// Hold has the seller keep its first payload until goOn is called. arrived is closed when it has come.
// The seller answers it, and all that come later, with a text.
func (s *Seller) Hold(text string) (arrived <-chan struct{}, goOn func()) {
	came, proceed := make(chan struct{}), make(chan struct{})
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			close(came)
			<-proceed
		}
		s.Receipt(rw, n)
		_, _ = io.WriteString(rw, text)
	}
	return came, sync.OnceFunc(func() { close(proceed) })
}

func (s *Seller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/free" {
		_, _ = io.WriteString(w, "free")
		return
	}
	value := r.Header.Get(x402.HeaderSignature)
	if s.V1 {
		value = r.Header.Get(x402.HeaderV1Payment)
	}
	if value == "" {
		s.Mu.Lock()
		s.Unpaid = append(s.Unpaid, r.Clone(r.Context()))
		s.Mu.Unlock()
		s.ask(w, r, "")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "body: "+err.Error(), http.StatusBadRequest)
		return
	}
	paid, err := Check(value)
	if err != nil {
		s.t.Errorf("seller got a bad payload: %v", err)
		s.ask(w, r, err.Error())
		return
	}
	s.Mu.Lock()
	bought := r.Clone(r.Context())
	bought.Trailer = r.Trailer
	s.Bought = append(s.Bought, bought)
	s.Bodies = append(s.Bodies, string(body))
	s.nonces[paid.Nonce.String()]++
	again, n := s.nonces[paid.Nonce.String()] > 1, len(s.Bought)
	s.Mu.Unlock()
	switch {
	case again && s.Reuse != nil:
		s.Reuse(w, r)
	case again && s.Paid == nil:
		s.ask(w, r, "invalid_exact_evm_nonce_already_used")
	case s.Paid != nil:
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.Paid(w, r, n)
	default:
		s.Receipt(w, n)
		_, _ = fmt.Fprintf(w, "paid:%s:%s", r.Method, body) //nolint:gosec // read by tests
	}
}

// ask answers with the challenge.
func (s *Seller) ask(w http.ResponseWriter, r *http.Request, reason string) {
	if s.Challenge != nil && reason == "" {
		s.Challenge(w, r)
		return
	}
	s.WriteChallenge(w, r, s.Price, reason)
}

// WriteChallenge answers with a challenge of a price.
func (s *Seller) WriteChallenge(w http.ResponseWriter, r *http.Request, price, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Seller", "kept")
	if s.V1 {
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = w.Write(V1Challenge(price, "http://"+r.Host+r.URL.Path, reason))
		return
	}
	w.Header().Set(x402.HeaderRequired, V2Challenge(price, "http://"+r.Host+r.URL.Path, reason))
	w.WriteHeader(http.StatusPaymentRequired)
	_, _ = io.WriteString(w, "{}")
}

// V1Challenge returns the body of a challenge of version 1.
func V1Challenge(price, resource, reason string) []byte {
	b, _ := json.Marshal(map[string]any{
		"x402Version": 1, "error": reason,
		"accepts": []any{map[string]any{
			"scheme": "exact", "network": "base", "maxAmountRequired": price, "resource": resource,
			"description": "", "mimeType": "", "payTo": SellerAddress, "asset": USDCAddress, "maxTimeoutSeconds": 60,
			"extra": map[string]string{"name": "USD Coin", "version": "2"},
		}},
	})
	return b
}

// V2Challenge returns the header value of a challenge of version 2.
func V2Challenge(price, resource, reason string) string {
	b, _ := json.Marshal(map[string]any{
		"x402Version": 2, "error": reason, "resource": map[string]string{"url": resource},
		"accepts": []any{map[string]any{
			"scheme": "exact", "network": "eip155:8453", "amount": price, "payTo": SellerAddress, "asset": USDCAddress,
			"maxTimeoutSeconds": 60, "extra": map[string]string{"name": "USD Coin", "version": "2"},
		}},
	})
	return base64.StdEncoding.EncodeToString(b)
}

// Receipt adds the receipt of the n-th settlement.
func (s *Seller) Receipt(w http.ResponseWriter, n int) {
	network, name := "eip155:8453", x402.HeaderResponse
	if s.V1 {
		network, name = "base", x402.HeaderV1Response
	}
	b, _ := json.Marshal(map[string]any{"success": true, "network": network, "transaction": Transaction(n)})
	w.Header().Set(name, base64.StdEncoding.EncodeToString(b))
}

// Transaction returns the hash of the n-th settlement.
func Transaction(n int) string { return fmt.Sprintf("0x%064x", n) }

// Check verifies a payload as a facilitator would.
func Check(value string) (x402.Authorization, error) {
	p, err := x402.DecodePayload(value)
	if err != nil {
		return x402.Authorization{}, err
	}
	a, sig, err := p.Authorization()
	if err != nil {
		return x402.Authorization{}, err
	}
	n, _ := x402.NetworkByWire("base")
	from, err := x402.Recover(a.Digest(n.Assets[0], n.ChainID), sig)
	if err != nil {
		return x402.Authorization{}, err
	}
	if from != a.From {
		return x402.Authorization{}, fmt.Errorf("signed by %s, not %s", from, a.From)
	}
	return a, nil
}

// Counts returns the numbers of unpaid and paid requests, and of distinct payments among these.
func (s *Seller) Counts() (unpaid, paid, distinct int) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return len(s.Unpaid), len(s.Bought), len(s.nonces)
}

// Expect fails the test unless Counts are these.
func (s *Seller) Expect(unpaid, paid, distinct int) {
	s.t.Helper()
	u, p, d := s.Counts()
	if u != unpaid || p != paid || d != distinct {
		s.t.Fatalf("the seller saw %d unpaid, %d paid requests, %d payments; want %d, %d, %d", u, p, d, unpaid, paid, distinct)
	}
}

// HangUp ends a connection without an answer.
func HangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// Signed returns the authorizations that the seller was sent, in order.
func (s *Seller) Signed() []x402.Authorization {
	s.t.Helper()
	s.Mu.Lock()
	defer s.Mu.Unlock()
	var list []x402.Authorization
	for _, r := range s.Bought {
		p, err := x402.DecodePayload(r.Header.Get(x402.HeaderSignature))
		if err != nil {
			s.t.Fatal(err)
		}
		a, _, err := p.Authorization()
		if err != nil {
			s.t.Fatal(err)
		}
		list = append(list, a)
	}
	return list
}

// NewSecureSeller starts a Seller behind TLS.
func NewSecureSeller(t *testing.T, config *tls.Config, http2 bool) *Seller {
	t.Helper()
	s := newSeller(t)
	s.TLS, s.EnableHTTP2 = config, http2
	s.StartTLS()
	return s
}

// PortNumber returns the seller's port.
func (s *Seller) PortNumber() string {
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return port
}
