package e2e

import (
	"bytes"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/x402"
)

// approve lets Permit2 move tokens of a payer's wallet, by a transaction that the wallet pays for.
func (p *payer) approve(t *testing.T, amount string) {
	t.Helper()
	if err := env.chain.FundETH(t.Context(), p.wallet, big.NewInt(1e17)); err != nil {
		t.Fatal(err)
	}
	if text, err := p.purser.Command(t, "wallets", "approve", p.wallet.Hex(), "--amount", amount, "--yes"); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// once is the price in USDC.
const once = "0.01"

var (
	permit2 = order{"GET", "/permit2?city=Kiel", ""}
	either  = order{"GET", "/permit2-or-not?city=Kiel", ""}
)

// Official sellers that ask for Permit2 are paid through the proxy and on REST, with both settlements.
func TestPermit2(t *testing.T) {
	t.Parallel()
	p := newPurser(t, env.facilitator)
	p.start(t)
	where := env.v2.url + permit2.path
	t.Run("proxy", func(t *testing.T) {
		t.Parallel()
		payer := p.newPayer(t)
		payer.approve(t, once)
		requirePaidAnswer(t, payer.buy(t, permit2, env.v2.under(t, "http")+permit2.path), permit2, payer)
		payer.requireCharged(t, price)
	})
	t.Run("payer settles", func(t *testing.T) {
		t.Parallel()
		payer := p.newPayer(t)
		payer.approve(t, once)
		got := payer.pay(t, send(t, direct, "GET", where, ""), where)
		if !got.Settled || !x402.ValidTransaction(got.Transaction) {
			t.Fatalf("got %+v", got)
		}
		payer.requireCharged(t, price)
	})
	t.Run("seller settles", func(t *testing.T) {
		t.Parallel()
		payer := p.newPayer(t)
		payer.approve(t, once)
		got := payer.pay(t, send(t, direct, "GET", where, ""), where, "settlement", "seller")
		goods := send(t, direct, "GET", where, "", got.PaymentHeader, got.PaymentSignature)
		requireStatus(t, goods, http.StatusOK)
		// The receipt is lost: the chain tells.
		payer.requireCharged(t, price)
	})
	t.Run("no allowance", func(t *testing.T) {
		t.Parallel()
		payer := p.newPayer(t)
		got := send(t, payer.proxied(), "GET", env.v2.under(t, "http")+permit2.path, "")
		requireStatus(t, got, http.StatusPaymentRequired)
		if got.Header.Get("Purser-Declined") != "allowance-needed" {
			t.Errorf("got %v", got.Header)
		}
		refused := payer.call(t, "POST", "/v1/pay", payBody(t, send(t, direct, "GET", where, ""), where))
		requireStatus(t, refused, http.StatusPaymentRequired)
		if !strings.Contains(refused.Body, "purser wallets approve") {
			t.Errorf("got %s", refused.Body)
		}
		if all := payer.payments(t, ""); len(all) != 0 {
			t.Errorf("payments %+v", all)
		}
		requirePaidAnswer(t, send(t, payer.proxied(), "GET", env.v2.under(t, "http")+either.path, ""), either, payer)
		payer.requireOnce(t, env.v2.payTo)
	})
}

// deafTo starts an RPC that answers no calls with some data, until hears is set.
func deafTo(t *testing.T, data string, hears *atomic.Bool) string {
	t.Helper()
	target, err := url.Parse(env.chain.RPCURL())
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !hears.Load() && strings.Contains(string(body), data) {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		r.Body, r.Host = io.NopCloser(bytes.NewReader(body)), target.Host
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// A seller answers 412 if there is no allowance. The payload has left by then: the payment stays open, a
// client gets no challenge that it could pay itself, and the chain closes it.
func TestPermit2RefusedBySeller(t *testing.T) {
	t.Parallel()
	const allowance = "0xdd62ed3e"
	var hears atomic.Bool
	p := newPurser(t, env.facilitator, "PURSER_RPC_URL="+deafTo(t, allowance, &hears))
	p.start(t)
	payer := p.newPayer(t)
	got := send(t, payer.proxied(), "GET", env.v2.under(t, "http")+permit2.path, "")
	requireStatus(t, got, http.StatusPreconditionFailed)
	if got.Header.Get("Purser-Declined") != "payment-open" || got.Header.Get(x402.HeaderRequired) != "" {
		t.Errorf("got %v", got.Header)
	}
	one := payer.payment(t, got.Header.Get("Purser-Payment"))
	if one.State != "open" {
		t.Errorf("payment %+v", one)
	}
	hears.Store(true)
	// With an allowance the repeat brings the same payload through.
	payer.approve(t, once)
	again := send(t, payer.proxied(), "GET", env.v2.under(t, "http")+permit2.path, "")
	requirePaidAnswer(t, again, permit2, payer)
	if id := again.Header.Get("Purser-Payment"); id != one.ID {
		t.Errorf("the repeat made payment %s beside %s", id, one.ID)
	}
	payer.requireCharged(t, price)
}

// requireCharged waits until a payer's one payment is closed, and fails unless it has moved so much.
func (p *payer) requireCharged(t *testing.T, amount int64) {
	t.Helper()
	process.Eventually(t, 150*time.Second, func() string {
		for _, one := range p.payments(t, "") {
			if one.State == "open" {
				return fmt.Sprintf("still open: %+v", one)
			}
		}
		return ""
	})
	env.requireBalance(t, p.wallet, funds-amount)
	events := p.spend(t)
	if amount == 0 && len(events) == 0 {
		return
	}
	if len(events) != 1 || events[0].Amount != strconv.FormatInt(amount, 10) {
		t.Fatalf("want %d booked, got %+v", amount, events)
	}
}

// Official sellers of scheme upto take less than was signed, and the books say how much.
func TestUpto(t *testing.T) {
	t.Parallel()
	p := newPurser(t, env.facilitator, "PURSER_SCHEMES=exact,upto")
	p.start(t)
	for name, charge := range map[string]int64{"some": 1234, "all": price, "nothing": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payer := p.newPayer(t)
			payer.approve(t, once)
			got := send(t, payer.proxied(), "GET", fmt.Sprintf("%s/upto?charge=%d", env.v2.under(t, "http"), charge), "")
			requireStatus(t, got, http.StatusOK)
			if !getPaid.delivered(got.Body) {
				t.Errorf("got %s", got.Body)
			}
			payer.requireCharged(t, charge)
		})
	}
	t.Run("seller settles", func(t *testing.T) {
		t.Parallel()
		payer, where := p.newPayer(t), env.v2.url+"/upto?charge=77"
		payer.approve(t, once)
		paid := payer.pay(t, send(t, direct, "GET", where, ""), where, "settlement", "seller")
		goods := send(t, direct, "GET", where, "", paid.PaymentHeader, paid.PaymentSignature)
		requireStatus(t, goods, http.StatusOK)
		said := strconv.Quote(goods.Header.Get(x402.HeaderResponse))
		requireStatus(t, payer.call(t, "POST", "/v1/payments/"+paid.Payment.ID+"/receipt", `{"receipt":`+said+`}`), http.StatusOK)
		payer.requireCharged(t, 77)
	})
	t.Run("payer settles", func(t *testing.T) {
		t.Parallel()
		payer, where := p.newPayer(t), env.v2.url+"/upto?charge=1"
		payer.approve(t, once)
		if got := payer.pay(t, send(t, direct, "GET", where, ""), where); !got.Settled {
			t.Fatalf("got %+v", got)
		}
		payer.requireCharged(t, price)
	})
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		payer := sharedPurser(t).newPayer(t)
		got := send(t, payer.proxied(), "GET", env.v2.under(t, "http")+"/upto?charge=1", "")
		requireStatus(t, got, http.StatusPaymentRequired)
		if got.Header.Get("Purser-Declined") != "unsupported" {
			t.Errorf("got %v", got.Header)
		}
	})
}
