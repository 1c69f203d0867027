package pay_test

import (
	"slices"
	"testing"
	"time"

	"github.com/purserpay/purser/policy"
)

// Raised numbers hold until the last nanosecond of the raise, and the lasting ones afterwards, at every door and without
// any change of the key.
func TestRaiseEndsByItself(t *testing.T) {
	t.Parallel()
	five, one := 5, 1
	for _, c := range []struct {
		rule    string
		lasting policy.Policy
		raise   policy.Raise
		amount  uint64
	}{
		{"per-payment", policy.Policy{MaxPayment: usdc(10)}, policy.Raise{MaxPayment: usdc(20)}, 20},
		{"daily-budget", policy.Policy{DailyBudget: usdc(10)}, policy.Raise{DailyBudget: usdc(40)}, 20},
		{"daily-budget", policy.Policy{DailyBudget: usdc(10)}, policy.Raise{DailyBudget: policy.NoCap()}, 20},
		{"monthly-budget", policy.Policy{MonthlyBudget: usdc(10)}, policy.Raise{MonthlyBudget: usdc(40)}, 20},
		{"per-minute", policy.Policy{PerMinute: &one}, policy.Raise{PerMinute: &five}, 1},
		{"price-guard", policy.Policy{PriceGuard: &one}, policy.Raise{PriceGuard: &five}, 4},
	} {
		for _, door := range allDoors {
			w := newWorld(t, nil)
			w.at("2026-11-29T12:00:00Z")
			until := w.chain.clock().Add(30 * time.Second)
			c.raise.Until = until
			c.lasting.Raise = &c.raise
			if c.rule == "price-guard" {
				w.set(policy.Policy{PriceGuard: &five})
				w.settle(buy{door: door, amount: 1, url: "https://api.example.com/x"})
			}
			w.set(c.lasting)
			next := func(n string) buy { return buy{door: door, amount: c.amount, url: "https://api.example.com/x?n=" + n} }
			w.spends(next("1"), "")
			w.chain.advance(until.Add(-1).Sub(w.chain.clock()))
			w.spends(next("2"), "")
			w.chain.advance(1)
			w.spends(next("3"), c.rule)
			w.quiet()
		}
	}
}

// A change is a raise if it permits more at any moment of its own raise or of the present one.
func TestRaisesOverTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	now := w.chain.clock()
	with := func(daily uint64, raised uint64, hours int) policy.Policy {
		pol := policy.Policy{DailyBudget: usdc(daily)}
		if hours != 0 {
			pol.Raise = &policy.Raise{Until: now.Add(time.Duration(hours) * time.Hour), DailyBudget: usdc(raised)}
		}
		return pol
	}
	for _, c := range []struct {
		name     string
		was, now policy.Policy
		raises   bool
	}{
		{"a raise begins", with(5, 0, 0), with(5, 20, 2), true},
		{"a raise ends early", with(5, 20, 2), with(5, 0, 0), false},
		{"a raise is shorter", with(5, 20, 2), with(5, 20, 1), false},
		{"a raise is longer", with(5, 20, 2), with(5, 20, 3), true},
		{"a raise has ended", with(5, 20, -1), with(5, 0, 0), false},
		{"lasting limits go up below the raise", with(5, 20, 2), with(6, 20, 2), true},
		{"lasting limits go down below the raise", with(5, 20, 2), with(4, 20, 2), false},
		{"a lower number ends early", with(5, 1, 2), with(5, 1, 1), true},
		{"a lower number begins", with(5, 0, 0), with(5, 1, 1), false},
	} {
		w.set(c.was)
		if got := w.payer.Raises(w.key, &c.now); slices.Contains(got, "daily_budget") != c.raises {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
