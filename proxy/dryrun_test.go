package proxy

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// A dry run tells what would be paid, or what would refuse it. No payload leaves.
func TestDryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.DefaultPolicy = policy.Policy{DailyBudget: policy.CapOf(money.New(25_000))} })
	s := proxytest.NewSeller(t)
	for _, value := range []string{"1", "true", "yes"} {
		a := w.get(s.URL+"/x", "Purser-Dry-Run", value)
		a.Declined(t, "dry-run", true)
		var got struct{ Quote quoteView }
		if err := json.Unmarshal([]byte(a.Text), &got); err != nil {
			t.Fatal(err)
		}
		q := got.Quote
		if q.Amount != "10000" || q.Price != "0.01 USDC" || q.Network != "base" || !strings.EqualFold(q.PayTo, proxytest.SellerAddress) ||
			q.Asset != proxytest.USDCAddress || q.Wallet == "" {
			t.Errorf("the quote is %+v", q)
		}
		if want := "dry run: 0.01 USDC on base to " + q.PayTo + " would be paid from " + q.Wallet + ", x402 by eip3009"; !strings.HasPrefix(a.Header.Get("Purser-Declined-Detail"), want+". Developer: Send the request without ") {
			t.Errorf("the header says %q", a.Header.Get("Purser-Declined-Detail"))
		}
	}
	s.Expect(3, 0, 0)
	for _, value := range []string{"0", "false"} { // and each takes of the budget
		w.get(s.URL+"/"+value, "Purser-Dry-Run", value).Paid(t)
	}
	a := w.get(s.URL+"/x", "Purser-Dry-Run", "1")
	a.Declined(t, "daily-budget", true)
	if got := readTold(t, a); got.Left != "0.005 USDC" || !strings.Contains(a.Text, `"payTo"`) {
		t.Errorf("a refused dry run says %s", a.Text)
	}
	w.get(s.URL+"/free", "Purser-Dry-Run", "1")
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, r := range s.Unpaid {
		if r.Header.Get("Purser-Dry-Run") != "" {
			t.Error("the seller has seen the header")
		}
	}
}

// A dry run of a request whose payload has left hands on no challenge.
func TestDryRunOfARepeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewSeller(t, func(s *proxytest.Seller) { s.LoseAnswers(1) })
	lost := w.get(s.URL + "/x").Problem(t)
	if lost.Payment == nil {
		t.Fatal(lost)
	}
	a := w.get(s.URL+"/x", "Purser-Dry-Run", "1")
	a.Declined(t, "dry-run", false)
	if p := a.Problem(t).Payment; p == nil || p.ID != lost.Payment.ID {
		t.Errorf("the payment is %+v", p)
	}
	if id := w.get(s.URL + "/x").Paid(t); id != lost.Payment.ID {
		t.Errorf("the repeat was paid with %s", id)
	}
	s.Expect(3, 2, 1)
}

// A key that asks for too many dry runs gets no challenge, because a payload of the request may be out.
func TestDryRunsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.Failures.Quotes = 2 })
	s := proxytest.NewSeller(t)
	for range 2 {
		w.get(s.URL+"/x", "Purser-Dry-Run", "1").Declined(t, "dry-run", true)
	}
	a := w.get(s.URL+"/x", "Purser-Dry-Run", "1")
	wait, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if p := a.Problem(t); a.StatusCode != 503 || p.Reason != "overloaded" || !strings.Contains(p.Error, "more than 2 quotes") || err != nil || wait < 1 || wait > 30 {
		t.Errorf("%d, Retry-After %q, %s", a.StatusCode, a.Header.Get("Retry-After"), a.Text)
	}
	if _, found, _ := x402.FromResponse(a.Header, []byte(a.Text)); found {
		t.Error("the seller's challenge is handed on")
	}
	w.get(s.URL + "/x").Paid(t)
}

// The request's own bound holds beside the policy. A bound that cannot be read lets nothing be paid.
func TestMaxAmountHeader(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	w.get(s.URL+"/x", "Purser-Max-Amount", "0.009999").Declined(t, "max-amount", true)
	for _, bad := range []string{"", "ten", "-1", "0.01 EUR", "0.0000001"} {
		w.get(s.URL+"/x", "Purser-Max-Amount", bad).Declined(t, "max-amount-invalid", true)
	}
	w.get(s.URL+"/x", "Purser-Max-Amount", "1", "Purser-Max-Amount", "2").Declined(t, "max-amount-invalid", true)
	s.Expect(7, 0, 0)
	w.get(s.URL+"/x", "Purser-Max-Amount", "0.01 USDC").Paid(t)
}
