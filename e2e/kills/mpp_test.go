package kills

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/x402"
)

// Purser is killed at each place that a payment by MPP comes to, at a seller that settles, and asks anew before it delivers.
func TestMPPAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	all := shoppers()
	for _, keyed := range []bool{false, true} {
		s := all[slices.IndexFunc(all, func(s shopper) bool { return s.door() == hostile.ProxyDoor && s.keyed() == keyed })]
		t.Run(fmt.Sprintf("keyed %v", keyed), func(t *testing.T) {
			t.Parallel()
			leadThrough(t, s, slices.Concat(
				once(failpoint.Decided, failpoint.Journaled, failpoint.Signed, failpoint.Departing),
				once(failpoint.ProxySending, failpoint.ProxyWritten, failpoint.ProxyAnswered, failpoint.ProxyFinishing),
				[]pass{{failpoint.ProxySending, 2}, {failpoint.ProxyWritten, 2}},
				once(failpoint.Recording, failpoint.Recorded, failpoint.Releasing, failpoint.Released),
			), rotating(t))
		})
	}
}

// rotating puts a seller of MPP before the seller of x402.
func rotating(t *testing.T) func(*world) {
	return func(w *world) {
		server := httptest.NewServer(&rotatingSeller{seller: w.SellerURL, sales: map[string]*rotatingSale{}})
		t.Cleanup(server.Close)
		w.SellerURL = server.URL
	}
}

// rotatingSeller has a fresh challenge for each request without a credential. It settles a credential with the seller of
// x402 behind it when it comes first, and asks anew; then it delivers what it has got.
type rotatingSeller struct {
	seller string

	mu    sync.Mutex
	sales map[string]*rotatingSale // by credential
}

type rotatingSale struct {
	mu    sync.Mutex
	goods *httptest.ResponseRecorder // nil before the settlement
}

func (s *rotatingSeller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	terms, err := s.terms(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	text, paid := strings.CutPrefix(r.Header.Get("Authorization"), "Payment ")
	if !paid {
		challenge(w, terms)
		return
	}
	s.mu.Lock()
	sale := s.sales[text]
	if sale == nil {
		sale = &rotatingSale{}
		s.sales[text] = sale
	}
	s.mu.Unlock()
	sale.mu.Lock()
	defer sale.mu.Unlock()
	if sale.goods != nil {
		for name, values := range sale.goods.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(sale.goods.Body.Bytes())
		return
	}
	if sale.goods, err = s.settle(r, terms, text); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	challenge(w, terms)
}

// terms asks the seller of x402 for its first offer.
func (s *rotatingSeller) terms(r *http.Request) (x402.Requirement, error) {
	got, err := s.ask(r, "")
	if err != nil {
		return x402.Requirement{}, err
	}
	_ = got.Body.Close()
	c, err := x402.DecodeHeader(got.Header.Get(x402.HeaderRequired))
	if err != nil || len(c.Accepts) == 0 {
		return x402.Requirement{}, fmt.Errorf("the seller answered %d: %w", got.StatusCode, err)
	}
	return c.Accepts[0], nil
}

func (s *rotatingSeller) ask(r *http.Request, payment string) (*http.Response, error) {
	at := s.seller + r.URL.Path + "?id=" + r.URL.Query().Get("id") // in version 2, whichever the order wants
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	if payment != "" {
		ask.Header.Set(x402.HeaderSignature, payment)
	}
	return http.DefaultClient.Do(ask) //nolint:gosec // the test's own seller
}

// settle pays the seller of x402 with a credential's authorization. goods is nil if it does not take it.
func (s *rotatingSeller) settle(r *http.Request, terms x402.Requirement, text string) (goods *httptest.ResponseRecorder, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	var c struct {
		Payload struct {
			Type, From, To, Value, ValidAfter, ValidBefore, Nonce, Signature string
		} `json:"payload"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, err
	}
	p := c.Payload
	payment, err := json.Marshal(map[string]any{
		"x402Version": 2, "accepted": terms.Raw, "payload": map[string]any{"signature": p.Signature, "authorization": map[string]string{
			"from": p.From, "to": p.To, "value": p.Value, "validAfter": p.ValidAfter, "validBefore": p.ValidBefore, "nonce": p.Nonce,
		}},
	})
	if err != nil {
		return nil, err
	}
	got, err := s.ask(r, base64.StdEncoding.EncodeToString(payment))
	if err != nil || got.StatusCode != http.StatusOK {
		return nil, err
	}
	defer got.Body.Close()
	goods = httptest.NewRecorder()
	receipt, err := x402.DecodeReceipt(got.Header.Get(x402.HeaderResponse))
	if err != nil {
		return nil, err
	}
	told, _ := json.Marshal(map[string]string{"method": "evm", "status": "success", "reference": receipt.Transaction, "timestamp": "2026-01-01T00:00:00Z"})
	goods.Header().Set("Payment-Receipt", base64.RawURLEncoding.EncodeToString(told))
	_, err = goods.Body.ReadFrom(got.Body)
	return goods, err
}

// challenge asks by MPP for what an offer of x402 asks for.
func challenge(w http.ResponseWriter, terms x402.Requirement) {
	request, _ := json.Marshal(map[string]any{
		"amount": terms.Amount.String(), "currency": terms.Asset.String(), "recipient": terms.PayTo.String(),
		"methodDetails": map[string]any{"chainId": 8453, "credentialTypes": []string{"authorization"}},
	})
	w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Payment id="%s", realm="kills.test", method="evm", intent="charge", request="%s"`,
		rand.Text(), base64.RawURLEncoding.EncodeToString(request)))
	http.Error(w, "Payment is required.", http.StatusPaymentRequired)
}
