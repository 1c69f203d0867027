package pay_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// raised holds, by JSON name, changes that permit more, as pairs of a policy and its successor.
func raised() map[string][][2]policy.Policy {
	n := func(n int) *int { return &n }
	on, off := true, false
	two := []x402.Address{testPayee, otherPayee}
	hosts := func(name string, b policy.Budget) policy.Policy {
		return policy.Policy{Hosts: map[string]policy.Budget{name: b}}
	}
	tasks := func(name string, b policy.Budget) policy.Policy {
		return policy.Policy{Tasks: map[string]policy.Budget{name: b}}
	}
	one, more := policy.Budget{DailyBudget: usdc(1)}, policy.Budget{DailyBudget: usdc(2)}
	return map[string][][2]policy.Policy{
		"max_payment":    {{{MaxPayment: usdc(1)}, {MaxPayment: usdc(2)}}, {{MaxPayment: usdc(1)}, {MaxPayment: policy.NoCap()}}, {{MaxPayment: usdc(1)}, {}}},
		"daily_budget":   {{{DailyBudget: usdc(1)}, {DailyBudget: usdc(2)}}, {{DailyBudget: usdc(1)}, {}}},
		"hourly_budget":  {{{HourlyBudget: usdc(1)}, {HourlyBudget: usdc(2)}}, {{HourlyBudget: usdc(1)}, {}}},
		"weekly_budget":  {{{WeeklyBudget: usdc(1)}, {WeeklyBudget: policy.NoCap()}}, {{WeeklyBudget: usdc(1)}, {}}},
		"monthly_budget": {{{MonthlyBudget: usdc(1)}, {MonthlyBudget: usdc(2)}}, {{MonthlyBudget: usdc(1)}, {MonthlyBudget: policy.NoCap()}}},
		"per_minute":     {{{PerMinute: n(1)}, {PerMinute: n(2)}}, {{PerMinute: n(1)}, {PerMinute: n(0)}}, {{PerMinute: n(1)}, {}}},
		"price_guard":    {{{PriceGuard: n(2)}, {PriceGuard: n(3)}}, {{PriceGuard: n(2)}, {PriceGuard: n(0)}}},
		"require_approval_above": {
			{{RequireApprovalAbove: usdc(1)}, {RequireApprovalAbove: usdc(2)}},
			{{RequireApprovalAbove: usdc(1)}, {RequireApprovalAbove: policy.NoCap()}},
			{{RequireApprovalAbove: usdc(1)}, {}},
		},
		"require_approval_new_hosts": {{{RequireApprovalNewHosts: &on}, {RequireApprovalNewHosts: &off}}, {{RequireApprovalNewHosts: &on}, {}}},
		"doors":                      {{{Doors: []policy.Door{policy.DoorProxy}}, {}}, {{Doors: []policy.Door{policy.DoorTransport}}, {Doors: []policy.Door{policy.DoorProxy}}}},
		"allow_hosts": {
			{{AllowHosts: []string{"a.example.com"}}, {}},
			{{AllowHosts: []string{"a.example.com"}}, {AllowHosts: []string{"*.example.com"}}},
			{{AllowHosts: []string{"a.example.com:8443"}}, {AllowHosts: []string{"a.example.com"}}},
		},
		"deny_hosts":    {{{DenyHosts: []string{"a.example.com"}}, {}}, {{DenyHosts: []string{"*.example.com"}}, {DenyHosts: []string{"a.example.com"}}}},
		"sign_in_hosts": {{{}, {SignInHosts: []string{"a.example.com"}}}},
		"allow_payees":  {{{AllowPayees: two[:1]}, {}}, {{AllowPayees: two[:1]}, {AllowPayees: two}}, {{AllowHosts: []string{"x.org"}}, {AllowHosts: []string{"x.org"}, AllowPayees: two}}, {{RequireApprovalNewHosts: &on}, {RequireApprovalNewHosts: &on, AllowPayees: two}}},
		"deny_payees":   {{{DenyPayees: two}, {DenyPayees: two[:1]}}},
		"offer_signers": {{{}, {OfferSigners: two[:1]}}},
		"hosts":         {{hosts("x.org", one), {}}, {hosts("x.org", one), hosts("x.org", more)}, {hosts("*.x.org", one), {Hosts: map[string]policy.Budget{"*.x.org": one, "a.x.org": one}}}},
		"tasks":         {{tasks("t", one), {}}, {tasks("t", one), tasks("t", more)}, {tasks("*", one), {Tasks: map[string]policy.Budget{"*": one, "t": one}}}},
	}
}

// Every field of a policy can permit more, and each such change is named. A field that is added to the
// policy needs an entry above.
func TestPermitsMoreNamesEveryField(t *testing.T) {
	t.Parallel()
	all := raised()
	for field := range reflect.TypeFor[policy.Policy]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if len(all[name]) == 0 && name != "raise" { // it holds for a while: see TestRaisesOverTime
			t.Errorf("%s: no change is tested; see raised, and Policy.PermitsMore", name)
		}
	}
	for name, pairs := range all {
		for i, pair := range pairs {
			if got := pair[1].PermitsMore(pair[0]); !slices.Contains(got, name) {
				t.Errorf("%s, change %d: named %v", name, i, got)
			}
			if got := pair[0].PermitsMore(pair[0]); got != nil {
				t.Errorf("%s: no change permits more: %v", name, got)
			}
		}
	}
	lower := [][2]policy.Policy{
		{{}, {MaxPayment: usdc(1), DailyBudget: usdc(1), MonthlyBudget: usdc(1), DenyHosts: []string{"x.org"}, DenyPayees: []x402.Address{testPayee}}},
		{{MaxPayment: usdc(2)}, {MaxPayment: usdc(1)}},
		{{AllowHosts: []string{"*.example.com"}}, {AllowHosts: []string{"a.example.com", "b.c.example.com:8443"}}},
		{{DenyHosts: []string{"a.example.com"}}, {DenyHosts: []string{"*.example.com"}}},
		{{SignInHosts: []string{"a.example.com"}}, {}},
		{{}, {Doors: []policy.Door{policy.DoorAPI}}},
		{{}, {Hosts: map[string]policy.Budget{"x.org": {DailyBudget: usdc(1)}}, AllowPayees: []x402.Address{testPayee}}},
		{{}, {Tasks: map[string]policy.Budget{"*": {DailyBudget: usdc(1)}}}},
	}
	for i, pair := range lower {
		if got := pair[1].PermitsMore(pair[0]); got != nil {
			t.Errorf("lowering %d permits more by %v", i, got)
		}
	}
}

// A policy that is said to permit no more declines every payment, of any history, that another one
// declines: seen by what each would have done with the payments that both allowed so far.
func TestPermitsNoMoreThanBefore(t *testing.T) {
	t.Parallel()
	compared := 0
	rapid.Check(t, func(rt *rapid.T) {
		before, after := drawnPolicy(rt), drawnPolicy(rt)
		if rapid.Bool().Draw(rt, "near") { // else hardly any pair can be compared
			after = before
			switch rapid.IntRange(0, 4).Draw(rt, "change") {
			case 0:
				after.MaxPayment = usdc(rapid.Uint64Range(1, 60).Draw(rt, "max"))
			case 1:
				after.Doors = []policy.Door{policy.DoorProxy}
			case 2:
				after.Hosts = drawnPolicy(rt).Hosts
			case 3:
				after.Tasks = drawnPolicy(rt).Tasks
			case 4:
				after.AllowHosts, after.AllowPayees = drawnPolicy(rt).AllowHosts, drawnPolicy(rt).AllowPayees
			}
		}
		if after.PermitsMore(before) != nil {
			return
		}
		compared++
		w := newWorld(t, nil)
		since := w.chain.clock()
		for i := range rapid.IntRange(1, 6).Draw(rt, "payments") { // those that both allow
			b, wait := drawnBuy(rt)
			b.url += "?n=" + string(rune('a'+i))
			w.set(before)
			_, err := w.payer.Quote(context.Background(), w.request(b))
			refused := rule(err)
			w.set(after)
			_, err = w.payer.Quote(context.Background(), w.request(b))
			if now := rule(err); refused != "" && now == "" {
				rt.Fatalf("%+v is declined by %s, and not by the later policy\nbefore %+v\nafter  %+v", b, refused, before, after)
			} else if now == "" {
				w.settle(b)
			}
			w.chain.advance(wait)
		}
		if w.chain.clock().Sub(since) > 100*24*time.Hour {
			rt.Fatal("the clock runs away")
		}
	})
	if compared < 10 {
		t.Errorf("only %d pairs of policies could be compared", compared)
	}
}
