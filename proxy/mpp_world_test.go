package proxy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/protocol/mpp"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// ledger is a chain that moves each authorization once.
type ledger struct {
	mu    sync.Mutex
	moved map[x402.Nonce]string // transactions
}

func (*ledger) Identify(_ context.Context, n x402.Network, _ x402.Asset) (pay.ChainIdentity, error) {
	return pay.ChainIdentity{ChainID: n.ChainID, Genesis: "0x" + strings.Repeat("01", 32)}, nil
}

func (*ledger) Balance(context.Context, x402.Network, x402.Asset, x402.Address) (money.Amount, error) {
	return money.New(100_000_000), nil
}

func (l *ledger) Trace(ctx context.Context, q pay.TraceQuery) (pay.Trace, error) {
	id, err := l.Identify(ctx, q.Network, q.Asset)
	l.mu.Lock()
	defer l.mu.Unlock()
	transaction, used := l.moved[q.Authorization.Nonce]
	t := pay.Trace{Chain: id, SafeTime: q.Created, SafeNumber: 1, SafeHash: "0x" + strings.Repeat("02", 32), Latest: q.Created}
	if used {
		t.Used, t.Transaction, t.Moved = true, transaction, q.Authorization.Value
	}
	return t, err
}

// move moves an authorization, and returns its transaction. It does that once.
func (l *ledger) move(n x402.Nonce) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.moved[n] == "" {
		l.moved[n] = proxytest.Transaction(len(l.moved) + 1)
	}
	return l.moved[n]
}

func (l *ledger) debits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.moved)
}

// charges is a scripted seller of MPP, which rotates its challenges.
type charges struct {
	*httptest.Server
	*ledger
	t *testing.T

	header string                                                        // in which it wants credentials; "": Authorization
	alter  func(h http.Header)                                           // of its challenges
	paid   func(w http.ResponseWriter, transaction func() string, n int) // answers the n-th credential

	mu     sync.Mutex
	n      int // of challenges
	unpaid []http.Header
	sent   []http.Header // with credentials
	nonces map[x402.Nonce]bool
}

func newCharges(t *testing.T, change ...func(*charges)) *charges {
	t.Helper()
	s := &charges{t: t, ledger: &ledger{moved: map[x402.Nonce]string{}}, nonces: map[x402.Nonce]bool{}}
	s.paid = func(w http.ResponseWriter, transaction func() string, _ int) {
		s.deliver(w, transaction())
	}
	for _, f := range change {
		f(s)
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// world pays at the seller's chain.
func (s *charges) world(change ...func(*setup)) *world {
	return newWorld(s.t, append(change, func(o *setup) { o.pay.Chain = s.ledger })...)
}

// chargeOf returns a challenge for a cent, with more parameters.
func chargeOf(id, realm, more string) string {
	request := fmt.Sprintf(`{"amount":"10000","currency":%q,"methodDetails":{"chainId":8453},"recipient":%q}`, proxytest.USDCAddress, proxytest.SellerAddress)
	return fmt.Sprintf(`Payment id=%q, realm=%q, method="evm", intent="charge", request=%q, expires=%q%s`,
		id, realm, base64.RawURLEncoding.EncodeToString([]byte(request)), time.Now().Add(5*time.Minute).UTC().Format(time.RFC3339), more)
}

// ask answers with a fresh challenge.
func (s *charges) ask(w http.ResponseWriter) {
	s.mu.Lock()
	s.n++
	more := ""
	if s.header != "" {
		more = fmt.Sprintf(`, header=%q`, s.header)
	}
	w.Header().Set(mpp.HeaderChallenge, chargeOf(fmt.Sprintf("challenge-%d", s.n), "shop.test", more))
	s.mu.Unlock()
	if s.alter != nil {
		s.alter(w.Header())
	}
	w.WriteHeader(http.StatusPaymentRequired)
}

// deliver answers with a good, and the receipt of a transaction.
func (s *charges) deliver(w http.ResponseWriter, transaction string) {
	receipt := fmt.Sprintf(`{"status":"success","method":"evm","timestamp":"2026-01-01T00:00:00Z","reference":%q}`, transaction)
	w.Header().Set(mpp.HeaderReceipt, base64.RawURLEncoding.EncodeToString([]byte(receipt)))
	_, _ = io.WriteString(w, "good")
}

func (s *charges) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	field := s.header
	if field == "" {
		field = mpp.HeaderCredential
	}
	text, is := strings.CutPrefix(r.Header.Get(field), "Payment ")
	if !is {
		s.mu.Lock()
		s.unpaid = append(s.unpaid, r.Header.Clone())
		s.mu.Unlock()
		s.ask(w)
		return
	}
	a, err := signedIn(text)
	if err != nil {
		s.t.Errorf("the seller got a bad credential: %v", err)
	}
	s.mu.Lock()
	s.sent = append(s.sent, r.Header.Clone())
	s.nonces[a.Nonce] = true
	n := len(s.sent)
	s.mu.Unlock()
	s.paid(w, func() string { return s.move(a.Nonce) }, n)
}

// signedIn verifies a credential as a facilitator would.
func signedIn(text string) (a x402.Authorization, err error) {
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return a, err
	}
	return signedBy(plain)
}

func signedBy(credential []byte) (a x402.Authorization, err error) {
	var c struct {
		Challenge struct{ ID, Realm string }
		Payload   json.RawMessage
	}
	if err := json.Unmarshal(credential, &c); err != nil {
		return a, err
	}
	var signed struct{ Signature string }
	if err := json.Unmarshal(c.Payload, &signed); err != nil {
		return a, err
	}
	p := x402.Payload{Version: 2, JSON: json.RawMessage(fmt.Sprintf(`{"x402Version":2,"payload":{"signature":%q,"authorization":%s},"accepted":{}}`, signed.Signature, c.Payload))}
	a, sig, err := p.Authorization()
	if err != nil {
		return a, err
	}
	n, _ := x402.NetworkByWire("base")
	from, err := x402.Recover(a.Digest(n.Assets[0], n.ChainID), sig)
	joined := x402.Nonce(x402.Keccak256([]byte(c.Challenge.ID), []byte(c.Challenge.Realm)))
	if err == nil && (from != a.From || a.Nonce != joined && a.Nonce != listNonce(c.Challenge.ID, c.Challenge.Realm)) {
		err = errors.New("another signer, or another nonce")
	}
	return a, err
}

// listNonce returns the nonce that newer sellers want.
func listNonce(id, realm string) x402.Nonce {
	return x402.Nonce(x402.Keccak256(fmt.Appendf(nil, "[%q,%q]", id, realm)))
}

// expect checks how many credentials came, how many differ, and how many have moved money.
func (s *charges) expect(sent, distinct, debits int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sent) != sent || len(s.nonces) != distinct || s.debits() != debits {
		s.t.Errorf("%d credentials, %d of them differ, %d debits; want %d, %d, %d", len(s.sent), len(s.nonces), s.debits(), sent, distinct, debits)
	}
}

// payable reports whether a client of any protocol finds something to pay in an answer.
func payable(a proxytest.Answer) bool {
	_, found, _ := x402.FromResponse(a.Header, []byte(a.Text))
	_, charged, _ := mpp.Parse(a.Header.Values(mpp.HeaderChallenge))
	return found || charged || strings.Contains(a.Text, "accepts") || strings.Contains(a.Text, `"challenges"`)
}
