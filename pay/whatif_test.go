package pay_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/limits"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// A what-if tells the truth: two worlds buy the same, one without limits, and one that gets the policy
// on the way. What the second one declines from then on is what the first one's what-if says.
func TestWhatIfIsWhatWouldHaveBeen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		free, bound := newWorld(t, nil), newWorld(t, nil)
		start := free.chain.clock()
		bound.chain.mu.Lock()
		bound.chain.now = start
		bound.chain.mu.Unlock()
		for range rapid.IntRange(0, 12).Draw(rt, "before") {
			b, wait := drawnBuy(rt)
			free.settle(b)
			bound.settle(b)
			free.chain.advance(wait)
			bound.chain.advance(wait)
		}
		since := free.chain.clock()
		pol := drawnPolicy(rt)
		bound.set(pol)
		declined := map[string]int{}
		n, sum := 0, money.Amount{}
		for i := range rapid.IntRange(1, 25).Draw(rt, "after") {
			b, wait := drawnBuy(rt)
			b.url = fmt.Sprintf("%s?n=%d", b.url, i) // no repeat of an earlier one
			free.settle(b)
			n++
			if a, err := bound.payer.Open(context.Background(), bound.request(b)); err != nil {
				declined[rule(err)]++
				sum = sum.AddSaturated(money.New(b.amount))
			} else {
				tx := bound.sellerMoves(a.Payload())
				a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: tx})
				a.Finish(true)
				bound.quiet()
			}
			free.chain.advance(wait)
			bound.chain.advance(wait)
		}
		got, err := limits.Replay(context.Background(), free.payer, free.key, &pol, since, limits.Bounds{})
		if err != nil {
			rt.Fatal(err)
		}
		rules := map[string]int{}
		for _, r := range got.Rules {
			rules[r.Rule] = r.Count
			if len(r.Examples) == 0 || len(r.Examples) > 3 {
				rt.Errorf("%d examples of %s", len(r.Examples), r.Rule)
			}
		}
		if !maps.Equal(rules, declined) || got.Declined.Amount != sum || got.Payments != n || !got.From.IsZero() || !got.Until.IsZero() {
			rt.Errorf("what-if: %d payments, %v, %s declined\nin truth: %d payments, %v, %s declined\nby %+v",
				got.Payments, rules, got.Declined.Amount, n, declined, sum, pol)
		}
	})
}

// drawnBuy draws something to pay for, and the time until the next one.
func drawnBuy(rt *rapid.T) (buy, time.Duration) {
	b := buy{
		door: rapid.SampledFrom([]policy.Door{policy.DoorProxy, policy.DoorTransport}).Draw(rt, "door"),
		url:  "https://" + rapid.SampledFrom(modelHosts).Draw(rt, "host") + rapid.SampledFrom([]string{"/a", "/b"}).Draw(rt, "path"),
		task: rapid.SampledFrom(modelTasks).Draw(rt, "task"), amount: rapid.Uint64Range(1, 30).Draw(rt, "amount"),
		payTo: rapid.SampledFrom([]string{testSeller, otherSeller}).Draw(rt, "payee"),
	}
	b.url += fmt.Sprintf("/%d", rapid.IntRange(0, 1).Draw(rt, "part"))
	return b, rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Second, time.Hour, 24 * time.Hour}).Draw(rt, "wait")
}

// drawnPolicy draws a policy in which every rule may be.
func drawnPolicy(rt *rapid.T) policy.Policy {
	limit := func(name string) *policy.Cap {
		if n := rapid.Uint64Range(0, 60).Draw(rt, name); n > 0 {
			return usdc(n)
		}
		return nil
	}
	budget := func(name string) policy.Budget {
		return policy.Budget{
			MaxPayment: limit(name + " payment"), HourlyBudget: limit(name + " hour"), DailyBudget: limit(name + " day"),
			WeeklyBudget: limit(name + " week"), MonthlyBudget: limit(name + " month"),
		}
	}
	number := func(name string) *int {
		n := rapid.IntRange(0, 4).Draw(rt, name)
		return &n
	}
	yes := func(name string) bool { return rapid.IntRange(0, 3).Draw(rt, name) == 0 }
	all := budget("all")
	pol := policy.Policy{
		MaxPayment: all.MaxPayment, DailyBudget: all.DailyBudget, MonthlyBudget: all.MonthlyBudget,
		PerMinute: number("per minute"), PriceGuard: number("price guard"), Hosts: map[string]policy.Budget{}, Tasks: map[string]policy.Budget{},
	}
	if yes("doors") {
		pol.Doors = []policy.Door{rapid.SampledFrom([]policy.Door{policy.DoorProxy, policy.DoorTransport, policy.DoorAPI}).Draw(rt, "door")}
	}
	if yes("allowed") {
		pol.AllowHosts = []string{rapid.SampledFrom([]string{"*.example.com", "api.example.com", "other.org"}).Draw(rt, "allowed host")}
	}
	if yes("denied") {
		pol.DenyHosts = []string{rapid.SampledFrom([]string{"*.example.com", "api.example.com", "other.org"}).Draw(rt, "denied host")}
	}
	if yes("payees") {
		pol.AllowPayees = []x402.Address{testPayee}
	}
	if yes("not payees") {
		pol.DenyPayees = []x402.Address{otherPayee}
	}
	for _, name := range []string{"*.example.com", "api.example.com", "other.org"} {
		if yes("budget of " + name) {
			pol.Hosts[name] = budget(name)
		}
	}
	for _, name := range []string{"*", "crawl"} {
		if yes("budget of " + name) {
			pol.Tasks[name] = budget(name)
		}
	}
	return pol
}

// Too many payments are read from the newest on, and the answer says so. Withdrawals and payments that
// moved nothing are left out.
func TestWhatIfIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	start := w.chain.clock()
	var times []time.Time
	for n := range 8 {
		times = append(times, w.settle(buy{door: policy.DoorProxy, url: numbered(n), amount: 5}).Created)
		w.chain.advance(time.Second)
	}
	pol := policy.Policy{MaxPayment: usdc(4)}
	got := must(limits.Replay(t.Context(), w.payer, w.key, &pol, start, limits.Bounds{Most: 3, Reading: time.Hour, Whole: time.Hour}))
	if got.Payments != 3 || got.Declined.Count != 3 || !got.From.Equal(times[5]) || !got.Until.IsZero() {
		t.Errorf("of the newest 3: %+v", got)
	}
	got = must(limits.Replay(t.Context(), w.payer, w.key, &pol, start, limits.Bounds{Most: 8, Reading: time.Hour, Whole: time.Hour}))
	if got.Payments != 8 || got.Declined.Count != 8 {
		t.Errorf("of 8: %+v", got)
	}
	got = must(limits.Replay(t.Context(), w.payer, w.key, &pol, start, limits.Bounds{Most: 9, Reading: -time.Second, Whole: -time.Second}))
	if got.Payments != 8 || got.Declined.Count != 8 || !got.From.IsZero() || !got.Until.IsZero() {
		t.Errorf("of a page that took all the time: %+v", got)
	}
	if got = must(limits.Replay(t.Context(), w.payer, w.key, &pol, w.chain.clock(), limits.Bounds{})); got.Payments != 0 || got.Declined.Count != 0 {
		t.Errorf("of no payments: %+v", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := limits.Replay(ended, w.payer, w.key, &pol, start, limits.Bounds{}); err == nil {
		t.Error("a caller that left gets an answer")
	}
}

// Payments that a person would have been asked about are told apart from declined ones.
func TestWhatIfHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.settle(buy{door: policy.DoorProxy, url: "https://old.example.com/", amount: 5})
	w.chain.advance(48 * time.Hour)
	since := w.chain.clock()
	for _, b := range []buy{
		{door: policy.DoorProxy, url: "https://old.example.com/2", amount: 5},
		{door: policy.DoorProxy, url: "https://new.example.com/1", amount: 5},
		{door: policy.DoorProxy, url: "https://new.example.com/2", amount: 5},
		{door: policy.DoorProxy, url: "https://new.example.com/3", amount: 9},
		{door: policy.DoorProxy, url: "https://new.example.com/4", amount: 20},
	} {
		w.settle(b)
		w.chain.advance(time.Second)
	}
	on := true
	got := must(limits.Replay(t.Context(), w.payer, w.key, &policy.Policy{RequireApprovalAbove: usdc(8), RequireApprovalNewHosts: &on, MaxPayment: usdc(10)}, since, limits.Bounds{}))
	rules := map[string]int{}
	for _, r := range got.Asks {
		rules[r.Rule] = r.Count
	}
	if got.Declined.Count != 1 || got.Held.Count != 2 || !maps.Equal(rules, map[string]int{pay.RuleApprovalAbove: 1, pay.RuleApprovalNewHost: 1}) {
		t.Errorf("declined %+v, held %+v, %v", got.Declined, got.Held, rules)
	}
}
