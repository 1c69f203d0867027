package payapi_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// A quote tells what the call would pay, and leaves nothing behind.
func TestQuote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	budget := money.New(100)
	_, key := w.limited(policy.Policy{DailyBudget: policy.CapOf(budget)})
	wallet := w.call("GET", "/wallets/me", key, nil).is(200, "").list("wallets")[0]["address"]
	for range 3 { // together above the budget: none takes of it
		w.call("POST", "/v1/quote", key, order(60, "task", "nightly")).is(200, "").
			want("amount", "60").want("price", "0.00006 USDC").want("network", "base").want("payTo", seller).want("wallet.address", wallet).want("repeats", nil)
	}
	w.call("GET", "/v1/payments", key, nil).is(200, "").want("payments", []any{})
	w.call("GET", "/v1/spend", key, nil).is(200, "").want("pending.amount", "0")
	if w.facilitator.settled.Load() != 0 {
		t.Error("a quote asked the facilitator")
	}
	refused := w.call("POST", "/v1/quote", key, order(101)).is(402, refusedByPolicy).want("rule", "daily-budget")
	refused.want("price", "0.000101 USDC").want("limit", "0.0001 USDC").want("left", "0.0001 USDC")
	if refused.header.Get("Retry-After") == "" {
		t.Error("nothing says when the budget begins anew")
	}

	paid := w.call("POST", "/v1/pay", key, order(60, "task", "nightly", "idempotencyKey", "k")).is(200, "").text("payment.id")
	if events := w.call("GET", "/v1/spend?task=nightly", key, nil).is(200, "").list("events"); len(events) != 1 || events[0]["payment_id"] != paid {
		t.Errorf("the task has %v", events)
	}
	w.call("POST", "/v1/quote", key, order(60, "task", "nightly", "idempotencyKey", "k")).is(200, "").
		want("repeats.id", paid).want("repeats.state", "settled").want("wallet", nil).want("amount", "60")
	w.call("POST", "/v1/quote", key, order(61, "idempotencyKey", "k")).is(400, "idempotencyKey already used for a different request")
	w.call("POST", "/v1/quote", key, order(60, "requestUrl", bought+"/2")).is(402, refusedByPolicy).want("rule", "daily-budget").want("left", "0.00004 USDC")
	w.call("POST", "/v1/quote", key, order(1, "task", "no task")).is(400, "Invalid task")
	w.call("POST", "/v1/quote", w.newKey(), order(1)).is(400, "No wallet for network base. Create one with POST /wallets.")
	w.call("POST", "/v1/pay", key, order(1, "task", "no task")).is(400, "Invalid task")
}

// A key that asks for too many quotes waits, and may pay meanwhile. Others are not concerned.
func TestQuotesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.Failures.Quotes = 2 })
	key, other := w.payingKey(), w.payingKey()
	for range 2 {
		w.call("POST", "/v1/quote", key, order(60)).is(200, "")
	}
	refused := w.call("POST", "/v1/quote", key, order(60)).is(429, "Too many requests").want("detail", "this key has asked for more than 2 quotes in a minute")
	if wait, err := strconv.Atoi(refused.header.Get("Retry-After")); err != nil || wait < 1 || wait > 30 {
		t.Errorf("ask again in %q s", refused.header.Get("Retry-After"))
	}
	w.call("POST", "/v1/quote", key, `{"paymentRequiredHeader":"!"}`).is(429, "Too many requests") // it is not read
	w.call("POST", "/v1/quote", other, order(60)).is(200, "")
	w.call("POST", "/v1/pay", key, order(60)).is(200, "")
	w.clock.advance(30 * time.Second)
	w.call("POST", "/v1/quote", key, order(61)).is(200, "")
}

// The price of a quote bounds the purchase that follows, for a while. Another quote and a word of the caller's own end it.
func TestQuoteBoundsThePurchase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	w.call("POST", "/v1/quote", key, order(60)).is(200, "")
	refused := w.call("POST", "/v1/pay", key, order(61)).is(402, refusedByPolicy).want("rule", "max-amount").want("limit", "0.00006 USDC")
	if detail, _ := refused.body["detail"].(string); !strings.Contains(detail, "quote") || !strings.Contains(detail, "Purser-Max-Amount") {
		t.Errorf("detail %q", detail)
	}
	w.call("POST", "/v1/pay", w.payingKey(), order(61)).is(200, "") // another key's
	w.call("POST", "/v1/pay", key, order(62, "requestUrl", bought+"/2")).is(200, "")
	w.call("POST", "/v1/quote", key, order(61)).is(200, "")
	w.call("POST", "/v1/pay", key, order(61)).is(200, "")
	w.call("POST", "/v1/pay", key, order(62)).is(200, "") // the quote was followed
	w.call("POST", "/v1/quote", key, order(60, "idempotencyKey", "new")).is(200, "")
	w.clock.advance(5 * time.Minute)
	w.call("POST", "/v1/pay", key, order(63)).is(200, "")
}

// A caller's own bound holds for a new payment, and a repeat is served all the same.
func TestMaxAmount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	for _, path := range []string{"/v1/pay", "/v1/quote"} {
		w.call("POST", path, key, order(51), "Purser-Max-Amount", "0.00005").is(402, refusedByPolicy).want("rule", "max-amount").
			want("detail", "0.000051 USDC is above the limit of 0.00005 USDC for one payment, which the request itself sets")
		for _, bad := range []string{"", "5 EUR", "-1", "0.0000001", "1,2", "lots"} {
			w.call("POST", path, key, order(1), "Purser-Max-Amount", bad).is(400, "Invalid Purser-Max-Amount")
		}
	}
	id := w.call("POST", "/v1/pay", key, order(50, "idempotencyKey", "k"), "Purser-Max-Amount", "0.00005 USDC").is(200, "").text("payment.id")
	w.call("POST", "/v1/pay", key, order(50, "idempotencyKey", "k"), "Purser-Max-Amount", "0.00001").is(200, "").want("payment.id", id)
}

// A key reads its own limits, and what is left of them, at each door.
func TestLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	payee, err := x402.ParseAddress(seller)
	if err != nil {
		t.Fatal(err)
	}
	most, per := money.New(1_000_000), 7
	_, key := w.limited(policy.Policy{
		MaxPayment: policy.CapOf(money.New(100_000)), DailyBudget: policy.CapOf(most), PerMinute: &per,
		Tasks: map[string]policy.Budget{"nightly": {MonthlyBudget: policy.CapOf(most)}},
		Hosts: map[string]policy.Budget{"api.example.com": {DailyBudget: policy.CapOf(most)}}, AllowPayees: []x402.Address{payee},
	})
	w.call("POST", "/v1/pay", key, order(60_000, "task", "nightly")).is(200, "")
	now := w.clock.now().UTC()
	day := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)
	month := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)
	budget := func(rule, of, resets string) map[string]any {
		b := map[string]any{"rule": rule, "limit": "1.00 USDC", "spent": "0.06 USDC", "left": "0.94 USDC", "resets": resets}
		if of != "" {
			b["of"] = of
		}
		return b
	}
	w.call("GET", "/v1/limits", key, nil).is(200, "").want("door", "api").want("pays", true).want("perMinute", 7).want("allowPayees", []string{seller}).
		want("limits", []any{
			map[string]any{"rule": "per-payment", "limit": "0.10 USDC"},
			budget("daily-budget", "", day),
			budget("host-daily-budget", "api.example.com", day), budget("task-monthly-budget", "nightly", month),
		})
	w.call("GET", "/v1/limits?door=proxy", key, nil).is(200, "").want("door", "proxy")
	w.call("GET", "/v1/limits?%zz", key, nil).is(400, "Invalid query")
	for _, query := range []string{"door=window", "door=api&door=proxy", "door="} {
		w.call("GET", "/v1/limits?"+query, key, nil).is(400, "Invalid door")
	}
	w.call("GET", "/v1/limits", strings.Repeat("x", 40), nil).is(401, "API key not resolved")
}
