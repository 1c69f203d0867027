package ship

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/money"
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
	process.CloseAtEnd(t, w, err)
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
	if err := w.Fund(t.Context(), c.Wallet, money.New(funds)); err != nil {
		t.Fatal(err)
	}
	return &shopper{world: w, purser: purser, sidecar: sidecar, wallet: c.Wallet}
}

// everywhere buys at each door, and checks what the chain and the books say of it.
func (s *shopper) everywhere(t *testing.T) {
	t.Helper()
	s.requirePaid(t, s.proxied(t), s.world.SellerURL())
	s.requirePaid(t, s.proxied(t), s.world.SellerTLSURL())
	s.requirePaid(t, http.DefaultClient, s.sidecar)
	s.byHand(t)
	s.requireBooks(t)
}

// proxied is an agent's client: it has the proxy and trusts the root that purser opens https with.
func (s *shopper) proxied(t *testing.T) *http.Client {
	t.Helper()
	root, _ := get(t, http.DefaultClient, s.purser+"/ca.crt")
	roots, err := process.Roots(root)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(s.purser)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword(deployment, "ship")
	return process.Client(at, roots)
}

func (s *shopper) requirePaid(t *testing.T, by *http.Client, seller string) {
	t.Helper()
	body, header := get(t, by, seller+"/weather")
	if header.Get("Purser-Payment") == "" || header.Get("Purser-Transaction") == "" || !json.Valid([]byte(body)) {
		t.Fatalf("%s: not paid for: %v\n%s", seller, header, body)
	}
	s.spent++
}

// byHand asks the seller, has its challenge paid by POST /v1/pay, and asks again.
func (s *shopper) byHand(t *testing.T) {
	t.Helper()
	at := s.world.SellerDirectURL() + "/weather"
	first, err := process.Ask(t.Context(), http.DefaultClient, http.MethodGet, at, "")
	if err != nil || first.Status != http.StatusPaymentRequired {
		t.Fatalf("the seller wants nothing: %+v, %v", first, err)
	}
	order, err := json.Marshal(map[string]string{
		"paymentRequiredHeader": first.Header.Get(x402.HeaderRequired), "requestUrl": at, "settlement": "seller",
		"idempotencyKey": fmt.Sprintf("ship-%d", s.spent), // else it could be the repeat of an earlier one
	})
	if err != nil {
		t.Fatal(err)
	}
	var paid struct{ PaymentSignature, PaymentHeader string }
	s.ask(t, http.MethodPost, "/v1/pay", string(order), &paid)
	got, err := process.Ask(t.Context(), http.DefaultClient, http.MethodGet, at, "", paid.PaymentHeader, paid.PaymentSignature)
	if err != nil || got.Status != http.StatusOK {
		t.Fatalf("the seller does not take what purser signed: %+v, %v", got, err)
	}
	s.spent++
}

// ask makes one request to the API.
func (s *shopper) ask(t *testing.T, method, path, body string, into any) {
	t.Helper()
	got, err := process.Ask(t.Context(), http.DefaultClient, method, s.purser+path, body, "X-Api-Key", deployment)
	if err == nil {
		err = got.Decode(http.StatusOK, into)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

// requireBooks waits until purser has found out about all payments, and fails unless the chain says the same.
func (s *shopper) requireBooks(t *testing.T) {
	t.Helper()
	process.Eventually(t, 2*time.Minute, func() string {
		var books struct{ Events []struct{ Amount string } }
		s.ask(t, http.MethodGet, "/v1/spend?limit=500", "", &books)
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
