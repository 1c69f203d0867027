package pay_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// The guard compares with what the same endpoint was last paid, and with nothing else.
func TestPriceGuard(t *testing.T) {
	t.Parallel()
	three := 3
	const url = "https://api.example.com/v1/data"
	guarded := func() *world {
		w := newWorld(t, nil)
		w.set(policy.Policy{PriceGuard: &three})
		return w
	}
	at := func(w *world, url string, amount uint64, want string) {
		t.Helper()
		w.spends(buy{url: url, amount: amount}, want)
	}
	w := guarded()
	at(w, url, 1_000_000, "") // nothing was paid yet, and this one stays open
	w.settle(buy{door: policy.DoorProxy, url: url + "?n=1", amount: 100})
	at(w, url, 300, "")
	at(w, url, 301, "price-guard")
	for _, same := range []string{url + "?n=2", url + "?", "https://API.example.com:443/v1/data", "https://api.example.com./v1/data#x"} {
		at(w, same, 301, "price-guard")
	}
	for _, other := range []string{
		"http://api.example.com/v1/data", "https://api.example.com:8443/v1/data", "https://api.example.com/v1/data/", "https://api.example.com/v1",
		"https://api.example.com/", "https://b.example.com/v1/data",
	} {
		at(w, other, 301, "")
	}
	w.spends(buy{url: url, amount: 301, method: "POST"}, "")
	w.spends(buy{url: url, amount: 301, door: policy.DoorAPI}, "") // its method is not known: another endpoint
	w.spends(buy{url: url, amount: 301, door: policy.DoorTransport}, "price-guard")

	_, err := w.open(buy{door: policy.DoorProxy, url: url, amount: 4711})
	var refused *pay.PolicyError
	if !errors.As(err, &refused) || !strings.Contains(refused.Detail, "0.004711 USDC is more than") || !strings.Contains(refused.Detail, " 0.0001 USDC ") {
		t.Errorf("both prices are not named: %v", err)
	}

	// The last settled price counts, not the highest.
	w.settle(buy{door: policy.DoorProxy, url: url, amount: 300})
	at(w, url, 900, "")
	w.settle(buy{door: policy.DoorProxy, url: url, amount: 10})
	at(w, url, 31, "price-guard")
	at(w, url, 30, "")

	// Another key's prices are its own.
	first := w.key
	if w.key, _, err = w.books.CreateKey(context.Background(), books.KeyRequest{Policy: &policy.Policy{PriceGuard: &three}}); err != nil {
		t.Fatal(err)
	}
	must(w.books.CreateWallet(context.Background(), w.key, "base"))
	at(w, url, 5000, "")
	w.key = first

	// What was not settled is no price.
	w = guarded()
	a := w.mustOpen(w.request(buy{door: policy.DoorProxy, url: url, amount: 1}))
	a.Abandon("no connection")
	at(w, url, 100, "")

	// On REST the claimed URL counts; calls without one are an endpoint of their own.
	w = guarded()
	w.mustPay(w.rest(pay.SettlePayer, url+"?a", "100", ""))
	w.spends(buy{door: policy.DoorAPI, url: url + "?b", amount: 301}, "price-guard")
	w.spends(buy{door: policy.DoorAPI, url: url + "?c", amount: 300}, "")
	r := w.rest(pay.SettlePayer, "", "100", "")
	w.mustPay(r)
	r = w.rest(pay.SettlePayer, "", "301", "")
	if _, err := w.payer.Open(context.Background(), r); rule(err) != "price-guard" {
		t.Errorf("without a URL: %v", err)
	}

	// Off by default, and "0" lifts that of the proxy.
	zero := 0
	w = newWorld(t, func(o *pay.Options) { o.DefaultPolicy = policy.Policy{PriceGuard: &three} })
	w.settle(buy{door: policy.DoorProxy, url: url, amount: 1})
	at(w, url, 4, "price-guard")
	w.set(policy.Policy{PriceGuard: &zero})
	at(w, url, 1000, "")
	w = newWorld(t, nil)
	w.settle(buy{door: policy.DoorProxy, url: url, amount: 1})
	at(w, url, 1000, "")
}

// A price is in the books together with the settlement, also if that comes after all.
func TestPriceOfALateSettlement(t *testing.T) {
	t.Parallel()
	two := 2
	w := newWorld(t, nil)
	w.set(policy.Policy{PriceGuard: &two})
	const url = "https://api.example.com/x"
	a := w.mustOpen(w.request(buy{door: policy.DoorProxy, url: url, amount: 10}))
	w.sellerMoves(a.Payload())
	a.Finish(true)
	w.quiet()
	w.spends(buy{url: url, amount: 21}, "")
	w.recoverAll()
	if p := w.payment(a.Payment().ID); p.State != pay.Settled {
		t.Fatal(p.State)
	}
	w.spends(buy{url: url, amount: 21}, "price-guard")
	w.checkBooks()
}
