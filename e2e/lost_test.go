package e2e

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/x402"
)

// The tests of this file lose answers on the way and repeat the request as clients do. Whatever got lost, and whether or
// not the client names an idempotency key: one request is charged once.

// keyed are the two kinds of clients.
func keyed() map[string]string { return map[string]string{"with key": "order-1", "without key": ""} }

// The first answer of POST /v1/pay does not reach its client, who asks again at once. In seller mode the repeat gets the
// payload that the first answer carried, until its receipt is posted.
func TestPayRepeated(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	cutOff := func(payer *payer) fate { return fate{cut: env.settlements.set(settleOf(payer), nothing).sprung} }
	unheard := func(*payer) fate { return fate{lose: true} }
	for name, c := range map[string]struct {
		fate            func(*payer) fate
		settlement, key string
		times           int
	}{
		// Several times, because the repeat and the news of the cut race each other to purser.
		"cut off during the settlement, with key":     {cutOff, "payer", "order-1", 3},
		"cut off during the settlement, without key":  {cutOff, "payer", "", 3},
		"answer lost, with key":                       {unheard, "payer", "order-1", 1}, // without one, purser cannot know
		"answer lost, the seller settles":             {unheard, "seller", "order-1", 1},
		"answer lost, the seller settles without key": {unheard, "seller", "", 1},
	} {
		for n := range c.times {
			t.Run(name+" "+strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				payer := p.newPayer(t)
				url := env.v2.url + "/paid"
				body := payBody(t, send(t, direct, "GET", url, ""), url, append(idempotent(c.key), "settlement", c.settlement)...)
				lossy := payer.through(startWire(t, payer.host, c.fate(payer)))
				if got, err := process.Ask(t.Context(), direct, "POST", "http://"+lossy.host+"/v1/pay", body, "X-Api-Key", payer.key); err == nil {
					t.Fatalf("the answer was not lost: %+v", got)
				}
				var got payResult
				decode(t, lossy.call(t, "POST", "/v1/pay", body), http.StatusOK, &got)
				if c.settlement == "payer" {
					if !got.Settled || got.Transaction != env.paid(t, payer.wallet)[0].Tx {
						t.Errorf("got %+v", got)
					}
					payer.requireOnce(t, env.v2.payTo)
					return
				}
				requireStatus(t, send(t, direct, "GET", url, "", got.PaymentHeader, got.PaymentSignature), http.StatusOK)
				if all := payer.payments(t, ""); len(all) != 1 || all[0].ID != got.Payment.ID {
					t.Errorf("payments %+v, want one", all)
				}
				env.requirePaid(t, payer.wallet, env.v2.payTo, 1)
			})
		}
	}
}

// The facilitator settles and its answer gets lost: purser does not know, says so, and finds out when asked again.
func TestPayRepeatedAfterALostSettlement(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	for name, key := range keyed() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payer := p.newPayer(t)
			url := env.v2.url + "/paid"
			body := payBody(t, send(t, direct, "GET", url, ""), url, idempotent(key)...)
			env.settlements.set(settleOf(payer), theAnswer)
			first := payer.call(t, "POST", "/v1/pay", body)
			requireStatus(t, first, http.StatusPaymentRequired)
			if !strings.Contains(first.Body, `"open"`) || first.Header.Get("Retry-After") == "" {
				t.Errorf("got %v %s", first.Header, first.Body)
			}
			var second payResult
			decode(t, payer.call(t, "POST", "/v1/pay", body), http.StatusOK, &second)
			if !second.Settled || second.Transaction != env.paid(t, payer.wallet)[0].Tx {
				t.Errorf("got %+v", second)
			}
			payer.requireOnce(t, env.v2.payTo)
		})
	}
}

// An agent behind the proxy repeats its request after each loss that can happen to it.
func TestProxyRequestRepeated(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	for name, what := range map[string]struct {
		seller seller
		order  order
	}{
		"v2 GET":  {env.v2, getPaid},
		"v1 POST": {env.v1, postEcho},
	} {
		for keyName, key := range keyed() {
			name := name + " " + keyName
			header := idempotencyHeader(key)
			t.Run(name+", caller gone", func(t *testing.T) {
				t.Parallel()
				payer, relay := p.newPayer(t), startRelay(t, what.seller.url)
				trap := relay.set(paidRequest, nothing)
				client := payer.through(startWire(t, payer.host, fate{cut: trap.sprung})).proxied()
				url := relay.url + what.order.path
				if got, err := process.Ask(t.Context(), client, what.order.method, url, what.order.body, header...); err == nil {
					t.Fatalf("the answer was not lost: %+v", got)
				}
				requireUnpaid(t, send(t, client, what.order.method, url, what.order.body, header...), "paid-not-delivered")
				payer.requireOnce(t, what.seller.payTo)
			})
			t.Run(name+", seller's answer lost", func(t *testing.T) {
				t.Parallel()
				payer, relay := p.newPayer(t), startRelay(t, what.seller.url)
				relay.set(paidRequest, theAnswer)
				url := relay.url + what.order.path
				first := send(t, payer.proxied(), what.order.method, url, what.order.body, header...)
				if first.Status < 400 || first.Header.Get(x402.HeaderRequired) != "" {
					t.Errorf("got %+v", first)
				}
				// The seller refuses the payload now. The first generation does not say why, so that purser has to ask
				// the chain, which takes it a while.
				ask := func() answer {
					return send(t, payer.proxied(), what.order.method, url, what.order.body, header...)
				}
				second := ask()
				requireUnpaid(t, second, "paid-not-delivered", "payment-open")
				payer.requireOnce(t, what.seller.payTo)
				if key != "" || second.Header.Get("Purser-Declined") == "payment-open" {
					requireUnpaid(t, ask(), "paid-not-delivered")
					payer.requireOnce(t, what.seller.payTo)
				}
				if key == "" { // the agent knows now that nothing will come: this is a purchase
					requirePaidAnswer(t, ask(), what.order, payer)
					payer.requireSettled(t, what.seller.payTo, 2)
				}
			})
			t.Run(name+", paid request lost", func(t *testing.T) {
				t.Parallel()
				payer, relay := p.newPayer(t), startRelay(t, what.seller.url)
				relay.set(paidRequest, theRequest)
				url := relay.url + what.order.path
				got := send(t, payer.proxied(), what.order.method, url, what.order.body, header...)
				if got.Status != http.StatusOK { // else purser's own transport has repeated it already
					got = send(t, payer.proxied(), what.order.method, url, what.order.body, header...)
				}
				requirePaidAnswer(t, got, what.order, payer)
				payer.requireOnce(t, what.seller.payTo)
			})
		}
		t.Run(name+" with key, proxy's answer lost", func(t *testing.T) {
			t.Parallel()
			payer := p.newPayer(t)
			client := payer.through(startWire(t, payer.host, fate{lose: true})).proxied()
			url := what.seller.url + what.order.path
			header := idempotencyHeader("order-1")
			if got, err := process.Ask(t.Context(), client, what.order.method, url, what.order.body, header...); err == nil {
				t.Fatalf("the answer was not lost: %+v", got)
			}
			// purser may have noticed that the client did not get the answer.
			requireUnpaid(t, send(t, client, what.order.method, url, what.order.body, header...), "paid-before", "paid-not-delivered")
			payer.requireOnce(t, what.seller.payTo)
		})
	}
}

// A seller that keeps its answers by the id of the payment gives the lost one again, and settles nothing more.
func TestLostAnswerOfASellerThatKeepsAnswers(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	for _, path := range []string{"/identified", "/identified-required"} {
		for name, key := range keyed() {
			t.Run(path+" "+name, func(t *testing.T) {
				t.Parallel()
				payer, relay, what := p.newPayer(t), startRelay(t, env.v2.url), order{"GET", path, ""}
				relay.set(paidRequest, theAnswer)
				ask := func() answer {
					return send(t, payer.proxied(), what.method, relay.url+path, what.body, idempotencyHeader(key)...)
				}
				if first := ask(); first.Status < 400 || first.Header.Get(x402.HeaderRequired) != "" {
					t.Errorf("got %+v", first)
				}
				requireStored := func(got answer) {
					t.Helper()
					requirePaidAnswer(t, got, what, payer)
					if id := got.Header.Get("X-Payment-Id"); id != got.Header.Get("Purser-Payment") || got.Header.Get("X-Stored") != "true" {
						t.Errorf("not the kept answer, or of another id: %v", got.Header)
					}
				}
				requireStored(ask())
				if key != "" { // else this would be a purchase
					requireStored(ask())
				}
				payer.requireOnce(t, env.v2.payTo)
			})
		}
	}
}

// The official paying client behind the proxy sees no challenge that it could pay a second time from its own pocket.
func TestOfficialClientBehindTheProxy(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	for version, s := range map[string]seller{"2": env.v2, "1": env.v1} {
		for name, lost := range map[string]loss{"delivered": nothing, "answer lost": theAnswer} {
			t.Run("v"+version+" "+name, func(t *testing.T) {
				t.Parallel()
				payer, b, relay := p.newPayer(t), newBuyer(t), startRelay(t, s.url)
				relay.set(paidRequest, lost)
				ask := func() clientAnswer {
					var got clientAnswer
					runPeer(t, "client.mjs", map[string]string{
						"URL": relay.url + "/paid", "PRIVATE_KEY": hexKey(b.key), "VERSION": version, "PROXY": payer.proxyURL().String(),
					}, &got)
					return got
				}
				first := ask()
				if (first.Status == http.StatusOK) != (lost == nothing) {
					t.Errorf("got %+v", first)
				}
				if lost != nothing {
					if again := ask(); again.Status == http.StatusOK {
						t.Errorf("then got %+v", again)
					}
				}
				env.requirePaid(t, b.address, s.payTo, 0)
				payer.requireOnce(t, s.payTo)
			})
		}
	}
}

// requireUnpaid fails unless an answer is a 402 for one of the reasons, without a challenge: the request was paid before,
// and official sellers sell nothing for a used payload, but a challenge would make a paying client pay a second time.
func requireUnpaid(t *testing.T, got answer, reasons ...string) {
	t.Helper()
	requireStatus(t, got, http.StatusPaymentRequired)
	if reason := got.Header.Get("Purser-Declined"); !slices.Contains(reasons, reason) {
		t.Errorf("Purser-Declined is %q, want one of %q; body %s", reason, reasons, got.Body)
	}
	if _, found, _ := x402.FromResponse(got.Header, []byte(got.Body)); found {
		t.Errorf("there is a challenge in %v %s", got.Header, got.Body)
	}
}

// idempotent are the fields of POST /v1/pay that name a key, if there is one.
func idempotent(key string) []string { return unlessEmpty("idempotencyKey", key) }

// idempotencyHeader is the same for the proxy.
func idempotencyHeader(key string) []string { return unlessEmpty("Idempotency-Key", key) }

func unlessEmpty(name, value string) []string {
	if value == "" {
		return nil
	}
	return []string{name, value}
}
