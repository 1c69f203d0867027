package ship

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/x402"
)

const (
	// deployment is the key that pursers here are started with.
	deployment = "pk_shipshipshipshipshipship"
	// cent is the price of what is bought.
	cent = 10_000
	// funds is the wallet's first balance: one dollar.
	funds = 100 * cent
)

// world starts the seller, its facilitator and the chain, in this process.
func world(t *testing.T) *sandbox.World {
	t.Helper()
	w, err := sandbox.Start(t.Context(), sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// shopper buys with the key that a purser was started with.
type shopper struct {
	world  *sandbox.World
	purser string // base URL
	// sidecar is the base URL of the sidecar door.
	sidecar string
	wallet  x402.Address
	spent   int // cents
}

// fund finds the wallet that purser made when it started, and puts money into it.
func fund(t *testing.T, w *sandbox.World, purser, sidecar string) *shopper {
	t.Helper()
	c, err := hostile.Deployment(t.Context(), purser, deployment)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Fund(t.Context(), c.Wallet, x402.NewAmount(funds)); err != nil {
		t.Fatal(err)
	}
	return &shopper{world: w, purser: purser, sidecar: sidecar, wallet: c.Wallet}
}

// everywhere buys at each door, and checks what the chain and the books say of it.
func (s *shopper) everywhere(t *testing.T) {
	t.Helper()
	body, header := get(t, s.proxied(t), s.world.SellerURL()+"/weather")
	s.requirePaid(t, "the proxy", body, header)
	body, header = get(t, s.proxied(t), s.world.SellerTLSURL()+"/weather")
	s.requirePaid(t, "the proxy, over https", body, header)
	body, header = get(t, http.DefaultClient, s.sidecar+"/weather")
	s.requirePaid(t, "the sidecar door", body, header)
	s.byHand(t)
	s.requireBooks(t)
}

// proxied is an agent's client: it has the proxy and trusts the root that purser opens https with.
func (s *shopper) proxied(t *testing.T) *http.Client {
	t.Helper()
	root, _ := get(t, http.DefaultClient, s.purser+"/ca.crt")
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(root)) {
		t.Fatalf("/ca.crt is no certificate: %q", root)
	}
	at, err := url.Parse(s.purser)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword(deployment, "ship")
	return &http.Client{
		Timeout: runTime,
		Transport: &http.Transport{
			Proxy: http.ProxyURL(at), DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		},
	}
}

func (s *shopper) requirePaid(t *testing.T, door, body string, header http.Header) {
	t.Helper()
	if header.Get("Purser-Payment") == "" || header.Get("Purser-Transaction") == "" || !json.Valid([]byte(body)) {
		t.Fatalf("%s: not paid for: %v\n%s", door, header, body)
	}
	s.spent++
}

// byHand asks the seller, has its challenge paid by POST /v1/pay, and asks again.
func (s *shopper) byHand(t *testing.T) {
	t.Helper()
	at := s.world.SellerDirectURL() + "/weather"
	first, err := http.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	if first.StatusCode != http.StatusPaymentRequired {
		t.Fatalf("the seller wants nothing: %s", first.Status)
	}
	order, err := json.Marshal(map[string]string{
		"paymentRequiredHeader": first.Header.Get(x402.HeaderRequired), "requestUrl": at, "settlement": "seller",
		"idempotencyKey": fmt.Sprintf("ship-%d", s.spent), // else it could be the repeat of an earlier one
	})
	if err != nil {
		t.Fatal(err)
	}
	var paid struct{ PaymentSignature, PaymentHeader string }
	s.ask(t, http.MethodPost, "/v1/pay", order, &paid)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(paid.PaymentHeader, paid.PaymentSignature)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the seller does not take what purser signed: %s", resp.Status)
	}
	s.spent++
}

// ask makes one request to the API.
func (s *shopper) ask(t *testing.T, method, path string, body []byte, into any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.purser+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", deployment)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s, %v: %s", method, path, resp.Status, err, text)
	}
}

// requireBooks waits until purser has found out about all payments, and fails unless the chain says the same.
func (s *shopper) requireBooks(t *testing.T) {
	t.Helper()
	process.Eventually(t, 2*time.Minute, func() string {
		var books struct{ Events []struct{ Amount string } }
		s.ask(t, http.MethodGet, "/v1/spend?limit=500", nil, &books)
		if len(books.Events) != s.spent {
			return fmt.Sprintf("%d payments are in the books, %d were made", len(books.Events), s.spent)
		}
		for _, e := range books.Events {
			if e.Amount != fmt.Sprint(cent) {
				t.Fatalf("a payment of %s", e.Amount)
			}
		}
		return ""
	})
	left, err := s.world.Balance(t.Context(), s.wallet)
	if err != nil {
		t.Fatal(err)
	}
	if want := big.NewInt(int64(funds - cent*s.spent)); left.Big().Cmp(want) != 0 {
		t.Fatalf("%v is left in the wallet, not %v", left, want)
	}
}
