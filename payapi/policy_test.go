package payapi_test

import (
	"fmt"
	"math/big"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

const refusedByPolicy = "Payment refused by policy"

func most(n uint64) *policy.Cap { return policy.CapOf(money.New(n)) }

// limited makes a key with a policy and a wallet.
func (w *world) limited(pol policy.Policy) (key pay.Key, secret string) {
	w.t.Helper()
	key, secret, err := w.books.CreateKey(w.t.Context(), books.KeyRequest{Policy: &pol})
	if err != nil {
		w.t.Fatal(err)
	}
	w.call("POST", "/wallets", secret, nil).is(201, "")
	return key, secret
}

// A thousand concurrent payments spend a budget to its last unit and never more, for each kind of
// budget.
func TestThousandPaymentsAgainstOneBudget(t *testing.T) {
	t.Parallel()
	const callers, price, fit = 1000, 7, 130
	payee, err := x402.ParseAddress(seller)
	if err != nil {
		t.Fatal(err)
	}
	for rule, pol := range map[string]policy.Policy{
		"daily-budget":        {DailyBudget: most(fit * price)},
		"host-monthly-budget": {Hosts: map[string]policy.Budget{"*.example.com": {MonthlyBudget: most(fit*price + price - 1)}}, AllowPayees: []x402.Address{payee}},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			_, secret := w.limited(pol)
			var (
				all           sync.WaitGroup
				paid, refused atomic.Int64
			)
			start := make(chan struct{})
			for i := range callers {
				all.Go(func() {
					<-start
					url := fmt.Sprintf("https://h%d.example.com/%d", i%3, i)
					a, err := w.try(t.Context(), "POST", "/v1/pay", secret, order(price, "requestUrl", url))
					switch {
					case err == nil && a.status == 200:
						paid.Add(1)
					case err == nil && a.status == 402 && a.at("error") == refusedByPolicy && a.at("rule") == rule:
						refused.Add(1)
					default:
						t.Errorf("%v: %d %s", err, a.status, a.raw)
					}
				})
			}
			close(start)
			all.Wait()
			if paid.Load() != fit || refused.Load() != callers-fit {
				t.Errorf("%d paid, %d refused", paid.Load(), refused.Load())
			}
			if n, twice := w.facilitator.moved(); n != fit || twice {
				t.Errorf("%d authorizations settled, twice: %t", n, twice)
			}
			spent := new(big.Int)
			for _, e := range w.call("GET", "/v1/spend?limit=500", secret, nil).is(200, "").list("events") {
				amount, _ := new(big.Int).SetString(e["amount"].(string), 10)
				spent.Add(spent, amount)
			}
			if spent.Int64() != fit*price {
				t.Errorf("%s are in the books, the budget is %d", spent, fit*price)
			}
			if err := w.store.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRulesOnREST(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	payee, err := x402.ParseAddress(seller)
	if err != nil {
		t.Fatal(err)
	}
	key, secret := w.limited(policy.Policy{DenyHosts: []string{"evil.org"}})
	w.call("POST", "/v1/pay", secret, order(1)).is(402, refusedByPolicy).want("rule", "payees").want("payment", nil)
	three := 3
	if _, err := w.books.SetPolicy(t.Context(), key.ID, &policy.Policy{
		DenyHosts: []string{"evil.org"}, AllowPayees: []x402.Address{payee}, PriceGuard: &three,
	}); err != nil {
		t.Fatal(err)
	}
	w.call("POST", "/v1/pay", secret, order(10)).is(200, "")
	w.call("POST", "/v1/pay", secret, order(1, "requestUrl", "https://evil.org/x")).is(402, refusedByPolicy).want("rule", "hosts")
	elsewhere := order(1)
	elsewhere["paymentRequiredHeader"] = v1(requirement(map[string]any{"payTo": "0x2222222222222222222222222222222222222222"}))
	w.call("POST", "/v1/pay", secret, elsewhere).is(402, refusedByPolicy).want("rule", "payees")
	held := w.call("POST", "/v1/pay", secret, order(31, "requestUrl", bought+"?q=1")).is(402, refusedByPolicy).want("rule", "price-guard")
	held.want("detail", "0.000031 USDC is more than 3 times the 0.00001 USDC that this endpoint was last paid; an operator lets it through with purser limits KEY --price-guard off")
	w.call("POST", "/v1/pay", secret, order(30, "requestUrl", bought+"?q=2")).is(200, "")
}

func TestSpendByTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := w.payingKey()
	want := map[string][]string{}
	for i := range 9 {
		task := []string{"night-run", "", "crawl.2"}[i%3]
		want[task] = append([]string{w.paysFor(secret, task, bought+"?n="+strconv.Itoa(i))}, want[task]...)
	}
	list := func(query string) (payments, events []string) {
		t.Helper()
		for _, e := range w.call("GET", "/v1/spend"+query, secret, nil).is(200, "").list("events") {
			payments, events = append(payments, e["payment_id"].(string)), append(events, e["id"].(string))
		}
		return payments, events
	}
	_, all := list("")
	for _, task := range []string{"night-run", "crawl.2", "never"} {
		got, _ := list("?task=" + task)
		if fmt.Sprint(got) != fmt.Sprint(want[task]) {
			t.Errorf("task %s: %v, want %v", task, got, want[task])
		}
	}
	// Pages of one task.
	first, events := list("?task=crawl.2&limit=2")
	rest, _ := list("?limit=2&task=crawl.2&before=" + events[1])
	if fmt.Sprint(append(first, rest...)) != fmt.Sprint(want["crawl.2"]) || len(rest) != 1 {
		t.Errorf("pages %v, %v", first, rest)
	}
	// An event of another task is not part of the page.
	for _, before := range []string{all[1], all[2], uuid.NewString()} {
		w.call("GET", "/v1/spend?task=crawl.2&before="+before, secret, nil).is(400, "Invalid before")
	}
	for _, task := range []string{"", "*", "a%20b", "a/b", "%C3%A4", "a%00", "x%0A"} {
		w.call("GET", "/v1/spend?task="+task, secret, nil).is(400, "Invalid task").
			want("detail", "1 to 64 characters of A-Z a-z 0-9 . _ -")
	}
}
