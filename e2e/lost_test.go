package e2e

import (
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/purserpay/purser/x402"
)

// The tests of this file lose answers on the way and repeat the request as clients do. Whatever got lost, and whether or
// not the client names an idempotency key: one request is charged once.

// keyed are the two kinds of clients.
func keyed() map[string]string { return map[string]string{"with key": "order-1", "without key": ""} }

// payOnce repeats one POST /v1/pay whose first answer the fate of its connection swallows.
func payOnce(t *testing.T, p *payer, f fate, body string) payResult {
	t.Helper()
	lossy := p.through(startWire(t, p.host, f))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: direct.Timeout}
	if got, err := trySend(t, client, "POST", "http://"+lossy.host+"/v1/pay", body, "X-Api-Key", p.key); err == nil {
		t.Fatalf("the answer was not lost: %+v", got)
	}
	var result payResult
	decode(t, lossy.call(t, "POST", "/v1/pay", body), http.StatusOK, &result)
	return result
}

// The client of POST /v1/pay is cut off while the facilitator settles, and asks again at once.
func TestPayRepeatedAfterTheCallerWasGone(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	for name, key := range keyed() {
		// Several times, because the repeat and the news of the cut race each other to purser.
		for n := range 3 {
			t.Run(name+" "+strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				payer := p.newPayer(t)
				url := env.v2.url + "/paid"
				body := payBody(t, send(t, direct, "GET", url, ""), url, idempotent(key)...)
				trap := env.settlements.set(settleOf(payer), nothing)
				got := payOnce(t, payer, fate{cut: trap.sprung}, body)
				if !got.Settled || got.Transaction != env.paid(t, payer.wallet)[0].Tx {
					t.Errorf("got %s in %s, settled: %v", got.Transaction, got.Payment.ID, got.Settled)
				}
				payer.requireOnce(t, env.v2.payTo)
			})
		}
	}
}

// The whole answer of POST /v1/pay was written and got lost on the way: purser cannot know, the key tells.
func TestPayRepeatedAfterALostAnswer(t *testing.T) {
	t.Parallel()
	payer := sharedPurser(t).newPayer(t)
	url := env.v2.url + "/paid"
	body := payBody(t, send(t, direct, "GET", url, ""), url, idempotent("order-1")...)
	if got := payOnce(t, payer, fate{lose: true}, body); !got.Settled || got.Transaction != env.paid(t, payer.wallet)[0].Tx {
		t.Errorf("got %+v", got)
	}
	payer.requireOnce(t, env.v2.payTo)
}

// In seller mode a repeat gets the payload that the first answer carried, until its receipt is posted.
func TestSellerModeRepeatedAfterALostAnswer(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	for name, key := range keyed() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payer := p.newPayer(t)
			url := env.v2.url + "/paid"
			body := payBody(t, send(t, direct, "GET", url, ""), url, append(idempotent(key), "settlement", "seller")...)
			got := payOnce(t, payer, fate{lose: true}, body)
			requireStatus(t, send(t, direct, "GET", url, "", got.PaymentHeader, got.PaymentSignature), http.StatusOK)
			if all := payer.payments(t, ""); len(all) != 1 || all[0].ID != got.Payment.ID {
				t.Errorf("payments %+v, want one", all)
			}
			env.requirePaid(t, payer.wallet, env.v2.payTo, 1)
		})
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
			if !strings.Contains(first.body, `"open"`) || first.header.Get("Retry-After") == "" {
				t.Errorf("got %v %s", first.header, first.body)
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

// What an agent behind the proxy can lose, and where.
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
				if got, err := trySend(t, client, what.order.method, url, what.order.body, header...); err == nil {
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
				if first.status < 400 || first.header.Get(x402.HeaderRequired) != "" {
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
				if key != "" || second.header.Get("Purser-Declined") == "payment-open" {
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
				if got.status != http.StatusOK { // else purser's own transport has repeated it already
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
			if got, err := trySend(t, client, what.order.method, url, what.order.body, header...); err == nil {
				t.Fatalf("the answer was not lost: %+v", got)
			}
			requireUnpaid(t, send(t, client, what.order.method, url, what.order.body, header...), "paid-not-delivered")
			payer.requireOnce(t, what.seller.payTo)
		})
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

// The answer was not lost. A repeat without a key buys again, and a repeat with a key has paid
// already.
func TestAskedAgainAfterAnAnswer(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	url := env.v2.url + getPaid.path
	t.Run("proxy without key", func(t *testing.T) {
		t.Parallel()
		payer := p.newPayer(t)
		for n := range 2 {
			requirePaidAnswer(t, goAgent(t, payer, getPaid, url), getPaid, payer)
			payer.requireSettled(t, env.v2.payTo, n+1)
		}
	})
	t.Run("proxy with key", func(t *testing.T) {
		t.Parallel()
		payer := p.newPayer(t)
		header := idempotencyHeader("order-1")
		requirePaidAnswer(t, send(t, payer.proxied(), "GET", url, "", header...), getPaid, payer)
		requireUnpaid(t, send(t, payer.proxied(), "GET", url, "", header...), "paid-not-delivered")
		other := send(t, payer.proxied(), "GET", url+"&n=2", "", header...)
		requireStatus(t, other, http.StatusPaymentRequired)
		if reason := other.header.Get("Purser-Declined"); reason != "idempotency-key-reused" {
			t.Errorf("Purser-Declined is %q", reason)
		}
		challengeOf(t, other)
		payer.requireOnce(t, env.v2.payTo)
	})
	t.Run("REST without key", func(t *testing.T) {
		t.Parallel()
		payer := p.newPayer(t)
		body := payBody(t, send(t, direct, "GET", url, ""), url)
		for n := range 2 {
			requireStatus(t, payer.call(t, "POST", "/v1/pay", body), http.StatusOK)
			payer.requireSettled(t, env.v2.payTo, n+1)
		}
	})
	t.Run("REST with key", func(t *testing.T) {
		t.Parallel()
		payer := p.newPayer(t)
		body := payBody(t, send(t, direct, "GET", url, ""), url, idempotent("order-1")...)
		var first, second payResult
		decode(t, payer.call(t, "POST", "/v1/pay", body), http.StatusOK, &first)
		decode(t, payer.call(t, "POST", "/v1/pay", body), http.StatusOK, &second)
		if first.PaymentSignature != second.PaymentSignature || first.Transaction != second.Transaction || !second.Settled {
			t.Errorf("got %+v, then %+v", first, second)
		}
		payer.requireOnce(t, env.v2.payTo)
	})
}

// Clients that retry by themselves, as curl does when told to.
func TestCurlRetriesByItself(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	retries := []string{"--retry", "3", "--retry-all-errors", "--retry-delay", "1"}
	t.Run("proxy", func(t *testing.T) {
		t.Parallel()
		payer, relay := p.newPayer(t), startRelay(t, env.v2.url)
		trap := relay.set(paidRequest, nothing)
		lossy := payer.through(startWire(t, payer.host, fate{cut: trap.sprung}))
		requireUnpaid(t, curl(t, lossy, getPaid, relay.url+getPaid.path, retries...), "paid-not-delivered")
		payer.requireOnce(t, env.v2.payTo)
	})
	t.Run("REST", func(t *testing.T) {
		t.Parallel()
		payer := p.newPayer(t)
		url := env.v2.url + "/paid"
		trap := env.settlements.set(settleOf(payer), nothing)
		wire := startWire(t, payer.host, fate{cut: trap.sprung})
		stdout, _ := runAgent(t, exec.Command("curl", append(retries, "-sS", "-m", "60", "-H", "X-Api-Key: "+payer.key,
			"-H", "Content-Type: application/json", "--data-binary", payBody(t, send(t, direct, "GET", url, ""), url),
			"http://"+wire+"/v1/pay")...))
		if !strings.Contains(stdout, env.paid(t, payer.wallet)[0].Tx) {
			t.Errorf("got %s", stdout)
		}
		payer.requireOnce(t, env.v2.payTo)
	})
}

// requireUnpaid fails unless an answer is a 402 for one of the reasons, without a challenge: the request was paid before,
// and official sellers sell nothing for a used payload, but a challenge would make a paying client pay a second time.
func requireUnpaid(t *testing.T, got answer, reasons ...string) {
	t.Helper()
	requireStatus(t, got, http.StatusPaymentRequired)
	if reason := got.header.Get("Purser-Declined"); !slices.Contains(reasons, reason) {
		t.Errorf("Purser-Declined is %q, want one of %q; body %s", reason, reasons, got.body)
	}
	if _, found, _ := x402.FromResponse(got.header, []byte(got.body)); found {
		t.Errorf("there is a challenge in %v %s", got.header, got.body)
	}
}

// idempotent are the fields of POST /v1/pay that name a key, if there is one.
func idempotent(key string) []string {
	if key == "" {
		return nil
	}
	return []string{"idempotencyKey", key}
}

// idempotencyHeader is the same for the proxy.
func idempotencyHeader(key string) []string {
	if key == "" {
		return nil
	}
	return []string{"Idempotency-Key", key}
}
