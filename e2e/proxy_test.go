package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/x402"
)

// requirePaidAnswer fails unless a 200 carries the goods and says what was paid for them.
func requirePaidAnswer(t *testing.T, got answer, o order, p *payer) {
	t.Helper()
	requireStatus(t, got, http.StatusOK)
	if !o.delivered(got.Body) {
		t.Fatalf("got %s", got.Body)
	}
	if amount := got.Header.Get("Purser-Amount"); amount != strconv.Itoa(price) {
		t.Errorf("Purser-Amount is %q", amount)
	}
	if control := got.Header.Get("Cache-Control"); control != "private" {
		t.Errorf("Cache-Control is %q", control)
	}
	receipt, found, err := x402.ReceiptFromHeader(got.Header)
	if err != nil || !found || receipt.Transaction != got.Header.Get("Purser-Transaction") {
		t.Errorf("receipt %+v, found %v: %v; headers %v", receipt, found, err, got.Header)
	}
	// The answer does not wait until the books are written.
	process.Eventually(t, 10*time.Second, func() string {
		if one := p.payment(t, got.Header.Get("Purser-Payment")); one.State != "settled" || one.Transaction != receipt.Transaction {
			return fmt.Sprintf("payment %+v, receipt %+v", one, receipt)
		}
		return ""
	})
}

// An answer that is not for the proxy to pay comes through as the seller sent it.
func TestProxyLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	for name, s := range sellers() {
		t.Run(name+" free route", func(t *testing.T) {
			t.Parallel()
			payer := p.newPayer(t)
			want := send(t, direct, "GET", s.url+"/free", "")
			got := send(t, payer.proxied(), "GET", s.url+"/free", "")
			if got.Status != http.StatusOK || got.Body != want.Body || got.Header.Get("X-Seller") != "free" {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if got.Header.Get("Purser-Payment") != "" || got.Header.Get("Purser-Declined") != "" {
				t.Errorf("got %v", got.Header)
			}
			payer.requireSettled(t, s.payTo, 0)
		})
		t.Run(name+" foreign 402", func(t *testing.T) {
			t.Parallel()
			payer := p.newPayer(t)
			want := send(t, direct, "GET", s.url+"/foreign", "")
			got := send(t, payer.proxied(), "GET", s.url+"/foreign", "")
			requireStatus(t, got, http.StatusPaymentRequired)
			if got.Body != want.Body || got.Header.Get("X-Seller") != "foreign" || got.Header.Get("Content-Type") != want.Header.Get("Content-Type") {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if got.Header.Get("Purser-Payment") != "" {
				t.Errorf("got %v", got.Header)
			}
			payer.requireSettled(t, s.payTo, 0)
		})
		t.Run(name+" own payment", func(t *testing.T) {
			t.Parallel()
			payer, b := p.newPayer(t), newBuyer(t)
			url := s.url + postEcho.path
			payload := b.pay(t, challengeOf(t, send(t, direct, "POST", url, postEcho.body)))
			got := send(t, payer.proxied(), "POST", url, postEcho.body, payload.HeaderName(), payload.Header())
			requireStatus(t, got, http.StatusOK)
			if !postEcho.delivered(got.Body) || got.Header.Get("Purser-Payment") != "" {
				t.Errorf("got %+v", got)
			}
			env.requirePaid(t, b.address, s.payTo, 1)
			// A payment that the seller refuses is the client's own affair as well.
			again := send(t, payer.proxied(), "POST", url, postEcho.body, payload.HeaderName(), payload.Header())
			challengeOf(t, again)
			payer.requireSettled(t, s.payTo, 0)
		})
	}
}

// An API can be paid into a purser wallet.
func TestPurserWalletAsSeller(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	earner, spender := p.newPayer(t), p.newPayer(t)
	s, err := env.startSeller("seller-v2.mjs", env.facilitator, map[string]string{"PAY_TO": earner.wallet.Hex()})
	if err != nil {
		t.Fatal(err)
	}
	requirePaidAnswer(t, spender.buy(t, getPaid, s.url+getPaid.path), getPaid, spender)
	spender.requireOnce(t, earner.wallet)
	env.requireBalance(t, earner.wallet, funds+price)
}

// A seller whose work fails does not settle; one that is paid upfront has settled before. The books follow the chain.
func TestProxyAndFailingSellers(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	t.Run("nothing settled", func(t *testing.T) {
		t.Parallel()
		payer := p.newPayer(t)
		got := send(t, payer.proxied(), "GET", env.v2.url+"/broken", "")
		requireStatus(t, got, http.StatusServiceUnavailable)
		if !strings.Contains(got.Body, "out of stock") {
			t.Errorf("got %s", got.Body)
		}
		env.requirePaid(t, payer.wallet, env.v2.payTo, 0)
		if all := payer.payments(t, ""); len(all) != 1 || all[0].State != "open" {
			t.Errorf("payments %+v, want one that is open", all)
		}
		if events := payer.spend(t); len(events) != 0 {
			t.Errorf("spend events %+v", events)
		}
	})
	t.Run("upfront", func(t *testing.T) {
		t.Parallel()
		payer := p.newPayer(t)
		upfront := order{"GET", "/upfront", ""}
		requirePaidAnswer(t, payer.buy(t, upfront, env.v2.url+upfront.path), upfront, payer)
		payer.requireOnce(t, env.v2.payTo)
	})
	t.Run("upfront and failing", func(t *testing.T) {
		t.Parallel()
		payer := p.newPayer(t)
		got := send(t, payer.proxied(), "GET", env.v2.url+"/upfront-broken", "")
		requireStatus(t, got, http.StatusServiceUnavailable)
		payer.requireOnce(t, env.v2.payTo)
	})
}

// Many requests of one key at the same moment are as many payments, each for its own request.
func TestProxyPaysConcurrently(t *testing.T) {
	t.Parallel()
	payer := sharedPurser(t).newPayer(t)
	const n = 24
	done := make(chan answer, n)
	client := payer.proxied()
	for i := range n {
		go func() {
			buy := func() (answer, error) {
				return process.Ask(t.Context(), client, "GET", env.v2.url+"/paid?n="+strconv.Itoa(i), "")
			}
			got, err := buy()
			// A seller whose facilitator is overrun refuses; the repeat it asks for is not a second payment.
			for range 3 {
				if err != nil || got.Status != http.StatusPaymentRequired {
					break
				}
				got, err = buy()
			}
			if err != nil {
				t.Error(err)
			}
			done <- got
		}()
	}
	for range n {
		if got := <-done; got.Status != http.StatusOK {
			t.Errorf("status %d: %s", got.Status, got.Body)
		}
	}
	payer.requireSettled(t, env.v2.payTo, n)
	env.requireBalance(t, payer.wallet, funds-n*price)
}
