package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/x402"
)

// sellers are the official ones, by protocol version.
func sellers() map[string]seller { return map[string]seller{"v2": env.v2, "v1": env.v1} }

// In payer mode the answer says that the money has moved, and it has.
func TestPayerModeSettlesOnChain(t *testing.T) {
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
			payer.requireOnce(t, s.payTo)
			if event := payer.spend(t)[0]; event.RequestURL != url {
				t.Fatalf("spend event %+v, want the URL %s", event, url)
			}
		})
	}
}

// A seller that settles by itself refuses what was settled before; paying it again the same way would burn more money.
func TestPayerModeStopsAtASellerThatSettles(t *testing.T) {
	t.Parallel()
	payer := sharedPurser(t).newPayer(t)
	url := env.v2.url + "/paid"
	got := payer.pay(t, send(t, direct, "GET", url, ""), url)
	refusal := send(t, direct, "GET", url, "", got.PaymentHeader, got.PaymentSignature)
	if word := challengeOf(t, refusal).Error; !strings.Contains(word, "nonce_already_used") {
		t.Fatalf("refused with %q", word)
	}
	again := payer.call(t, "POST", "/v1/pay", payBody(t, refusal, url))
	requireStatus(t, again, http.StatusPaymentRequired)
	for _, want := range []string{`"Payment verification failed"`, `settlement`, `seller`, got.Payment.ID} {
		if !strings.Contains(again.body, want) {
			t.Errorf("%q is not in %s", want, again.body)
		}
	}
	payer.requireOnce(t, env.v2.payTo)
}

// In seller mode official sellers take the payload, and posting their receipt closes the payment at once.
func TestSellerModeAndReceipt(t *testing.T) {
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
				if !o.delivered(goods.body) {
					t.Fatalf("got %s", goods.body)
				}
				receipt := goods.header.Get(x402.HeaderResponse) + goods.header.Get(x402.HeaderV1Response)
				var closed struct{ Payment payment }
				path := "/v1/payments/" + got.Payment.ID + "/receipt"
				decode(t, payer.call(t, "POST", path, `{"receipt":`+strconv.Quote(receipt)+`}`), http.StatusOK, &closed)
				if closed.Payment.State != "settled" || !x402.ValidTransaction(closed.Payment.Transaction) {
					t.Fatalf("after the receipt: %+v", closed.Payment)
				}
				payer.requireOnce(t, s.payTo)
			})
		}
	}
}

// Without a posted receipt, recovery closes the payment from the chain.
func TestRecoveryClosesFromTheChain(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	for name, s := range sellers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payer := p.newPayer(t)
			url := s.url + "/paid"
			got := payer.pay(t, send(t, direct, "GET", url, ""), url, "settlement", "seller")
			requireStatus(t, send(t, direct, "GET", url, "", got.PaymentHeader, got.PaymentSignature), http.StatusOK)
			process.Eventually(t, 90*time.Second, func() string {
				if one := payer.payment(t, got.Payment.ID); one.State != "settled" {
					return "the payment is " + one.State
				}
				return ""
			})
			payer.requireOnce(t, s.payTo)
		})
	}
}
