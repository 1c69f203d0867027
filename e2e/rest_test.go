package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/purserpay/purser/x402"
)

// sellers are the official ones, by protocol version.
func sellers() map[string]seller { return map[string]seller{"v2": env.v2, "v1": env.v1} }

// In payer mode the answer says that the money has moved, and it has. A seller that settles by itself then refuses what was
// settled; paying it again the same way would burn more money.
func TestPayerMode(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	for name, s := range sellers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payer := p.newPayer(t)
			url := s.url + "/paid"
			got := payer.pay(t, send(t, direct, "GET", url, ""), url)
			if !got.Settled || !x402.ValidTransaction(got.Transaction) || got.Payment.State != "settled" {
				t.Fatalf("got %+v", got)
			}
			if tx := env.paid(t, payer.wallet)[0].Tx; tx != got.Transaction {
				t.Fatalf("answer names %s, the chain %s", got.Transaction, tx)
			}
			refusal := send(t, direct, "GET", url, "", got.PaymentHeader, got.PaymentSignature)
			challengeOf(t, refusal)
			if name == "v2" { // the first generation does not say why
				again := payer.call(t, "POST", "/v1/pay", payBody(t, refusal, url))
				requireStatus(t, again, http.StatusPaymentRequired)
				for _, want := range []string{`"Payment verification failed"`, `settlement`, `seller`, got.Payment.ID} {
					if !strings.Contains(again.Body, want) {
						t.Errorf("%q is not in %s", want, again.Body)
					}
				}
			}
			payer.requireOnce(t, s.payTo)
			if event := payer.spend(t)[0]; event.RequestURL != url {
				t.Fatalf("spend event %+v, want the URL %s", event, url)
			}
		})
	}
}

// In seller mode official sellers take the payload. Posting their receipt closes the payment at once; without it, recovery
// closes the payment from the chain.
func TestSellerMode(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	for name, s := range sellers() {
		for _, o := range []order{getPaid, postEcho} {
			t.Run(name+" "+o.method, func(t *testing.T) {
				t.Parallel()
				payer := p.newPayer(t)
				url := s.url + o.path
				got := payer.pay(t, send(t, direct, o.method, url, o.body), url, "settlement", "seller")
				if got.Settled || got.Transaction != "" || got.Payment.State != "open" {
					t.Fatalf("got %+v", got)
				}
				env.requirePaid(t, payer.wallet, s.payTo, 0)
				goods := send(t, direct, o.method, url, o.body, got.PaymentHeader, got.PaymentSignature)
				requireStatus(t, goods, http.StatusOK)
				if !o.delivered(goods.Body) {
					t.Fatalf("got %s", goods.Body)
				}
				if o == postEcho {
					receipt := goods.Header.Get(x402.HeaderResponse) + goods.Header.Get(x402.HeaderV1Response)
					var closed struct{ Payment payment }
					path := "/v1/payments/" + got.Payment.ID + "/receipt"
					decode(t, payer.call(t, "POST", path, `{"receipt":`+strconv.Quote(receipt)+`}`), http.StatusOK, &closed)
					if closed.Payment.State != "settled" || !x402.ValidTransaction(closed.Payment.Transaction) {
						t.Fatalf("after the receipt: %+v", closed.Payment)
					}
				}
				payer.requireOnce(t, s.payTo) // which waits for recovery
			})
		}
	}
}
