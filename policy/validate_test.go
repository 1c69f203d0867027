package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

func most(n uint64) *policy.Cap { return policy.CapOf(money.New(n)) }

func eachOf(n int, name string) map[string]policy.Budget {
	m := map[string]policy.Budget{}
	for i := range n {
		m[fmt.Sprintf(name, i)] = policy.Budget{DailyBudget: most(1)}
	}
	return m
}

func TestValidate(t *testing.T) {
	t.Parallel()
	var unprefixed x402.Address // which could be an address of another network than an EVM
	if err := unprefixed.UnmarshalText([]byte("1111111111111111111111111111111111111111")); err != nil {
		t.Fatal(err)
	}
	minus, zero, one := -1, 0, 1
	hosts := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("h%d.example.com", i))
		}
		return list
	}
	off := policy.Budget{MaxPayment: policy.NoCap(), DailyBudget: policy.NoCap(), MonthlyBudget: policy.NoCap()}
	for _, c := range []struct {
		pol   policy.Policy
		field string // "": valid
		says  string
	}{
		{pol: policy.Policy{}},
		{pol: policy.Policy{
			MaxPayment: most(1), DailyBudget: most(1), MonthlyBudget: policy.NoCap(), PerMinute: &zero, PriceGuard: &one,
			Doors: []policy.Door{policy.DoorAPI, policy.DoorProxy, policy.DoorTransport}, AllowHosts: []string{"*.example.com", "[::1]:80"},
			DenyHosts: []string{"a.example.com:8443"}, AllowPayees: make([]x402.Address, 1000), DenyPayees: []x402.Address{x402.EVMAddress([20]byte{1})},
			Hosts: map[string]policy.Budget{"a.example.com": off, "*.b.example.com": {}},
			Tasks: map[string]policy.Budget{"*": off, "a-B_3.4": {DailyBudget: most(1)}, strings.Repeat("a", 64): {}},
		}},
		{pol: policy.Policy{AllowHosts: hosts(1000), Hosts: eachOf(1000, "h%d.example.com"), Tasks: eachOf(1000, "t%d")}},
		// What reads like nothing being allowed must not allow everything.
		{policy.Policy{AllowHosts: []string{}}, "allow_hosts", "an empty list"},
		{policy.Policy{AllowPayees: []x402.Address{}}, "allow_payees", "an empty list"},
		{policy.Policy{Doors: []policy.Door{}}, "doors", "an empty list"},
		{policy.Policy{MaxPayment: most(0)}, "max_payment", "more than 0"},
		{policy.Policy{DailyBudget: most(0)}, "daily_budget", "more than 0"},
		{policy.Policy{MonthlyBudget: most(0)}, "monthly_budget", "more than 0"},
		{policy.Policy{PerMinute: &minus}, "per_minute", "-1"},
		{policy.Policy{PriceGuard: &minus}, "price_guard", "-1"},
		{policy.Policy{Doors: []policy.Door{policy.DoorAPI, "window"}}, "doors", `"window"`},
		{policy.Policy{Doors: []policy.Door{""}}, "doors", `""`},
		{policy.Policy{Doors: make([]policy.Door, 1001)}, "doors", "1001 entries"},
		{policy.Policy{AllowHosts: hosts(1001)}, "allow_hosts", "1001 entries"},
		{policy.Policy{DenyHosts: hosts(1001)}, "deny_hosts", "1001 entries"},
		{policy.Policy{AllowPayees: make([]x402.Address, 1001)}, "allow_payees", "1001 entries"},
		{policy.Policy{DenyPayees: make([]x402.Address, 1001)}, "deny_payees", "1001 entries"},
		{policy.Policy{DenyPayees: []x402.Address{unprefixed}}, "deny_payees", "want 0x and 40 hex digits"},
		{policy.Policy{Hosts: eachOf(1001, "h%d.example.com")}, "hosts", "1001 entries"},
		{policy.Policy{Tasks: eachOf(1001, "t%d")}, "tasks", "1001 entries"},
		{policy.Policy{AllowHosts: []string{"a.example.com", "https://b.example.com"}}, "allow_hosts", `"https://b.example.com" is neither`},
		{policy.Policy{DenyHosts: []string{"*"}}, "deny_hosts", `"*" is neither`},
		{policy.Policy{DenyHosts: []string{"API.example.com."}}, "deny_hosts", `write "API.example.com." as "api.example.com"`},
		{policy.Policy{Hosts: map[string]policy.Budget{"a b": {}}}, "hosts", `"a b" is neither`},
		{policy.Policy{Hosts: map[string]policy.Budget{"A.example": {}}}, "hosts", `as "a.example"`},
		{policy.Policy{Hosts: map[string]policy.Budget{"a.example": {MaxPayment: most(0)}}}, "hosts[a.example].max_payment", "more than 0"},
		{policy.Policy{Hosts: map[string]policy.Budget{"*.a.example": {DailyBudget: most(0)}}}, "hosts[*.a.example].daily_budget", "more than 0"},
		{policy.Policy{Tasks: map[string]policy.Budget{"*": {MonthlyBudget: most(0)}}}, "tasks[*].monthly_budget", "more than 0"},
		{policy.Policy{Tasks: map[string]policy.Budget{"": {}}}, "tasks", `""`},
		{policy.Policy{Tasks: map[string]policy.Budget{"a/b": {}}}, "tasks", `"a/b"`},
		{policy.Policy{Tasks: map[string]policy.Budget{"a*": {}}}, "tasks", `"a*"`},
		{policy.Policy{Tasks: map[string]policy.Budget{strings.Repeat("a", 65): {}}}, "tasks", "64 characters"},
	} {
		err := c.pol.Validate()
		if c.field == "" {
			if err != nil {
				t.Errorf("%v", err)
			}
			continue
		}
		var input *policy.FieldError
		if !errors.As(err, &input) || input.Field != c.field || !strings.Contains(input.Reason, c.says) {
			t.Errorf("got %v, want %s: …%s…", err, c.field, c.says)
		}
	}
}

func TestValidTask(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]bool{
		"a": true, "night-run_2.5": true, strings.Repeat("Z", 64): true,
		"": false, "*": false, "a b": false, "a/b": false, "ä": false, "a\x00": false, "a\n": false, strings.Repeat("a", 65): false,
	} {
		if policy.ValidTask(label) != want {
			t.Errorf("%q", label)
		}
	}
}

func TestPolicyJSON(t *testing.T) {
	t.Parallel()
	const text = `{"max_payment":"5","daily_budget":"off","per_minute":3,"doors":["proxy"],"allow_hosts":["*.example.com"],` +
		`"deny_payees":["0x1111111111111111111111111111111111111111"],"hosts":{"a.example.com":{"monthly_budget":"7"}},"tasks":{"*":{"daily_budget":"1"}}}`
	var pol policy.Policy
	if err := json.Unmarshal([]byte(text), &pol); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(pol); err != nil || string(got) != text {
		t.Errorf("%s, %v", got, err)
	}
	if pol.DailyBudget.Max() != nil || pol.MaxPayment.Max().String() != "5" || pol.Validate() != nil {
		t.Errorf("%+v", pol)
	}
}

// A raise takes the place of the numbers that it names, and of no other, until its end.
func TestRaise(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 29, 18, 0, 0, 0, time.UTC)
	two, five := 2, 5
	pol := policy.Policy{MaxPayment: policy.CapOf(money.New(7)), DailyBudget: policy.CapOf(money.New(10)), PerMinute: &two, Raise: &policy.Raise{
		Until: until, DailyBudget: policy.NoCap(), PerMinute: &five, PriceGuard: &five, RequireApprovalAbove: policy.CapOf(money.New(3)), MonthlyBudget: policy.CapOf(money.New(90)),
	}}
	if err := pol.Validate(); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Time]string{
		until.Add(-1): `{"max_payment":"7","daily_budget":"off","monthly_budget":"90","per_minute":5,"price_guard":5,"require_approval_above":"3","raise":` +
			`{"until":"2026-11-29T18:00:00Z","daily_budget":"off","monthly_budget":"90","per_minute":5,"price_guard":5,"require_approval_above":"3"}}`,
		until: `{"max_payment":"7","daily_budget":"10","per_minute":2}`,
	} {
		if got, err := json.Marshal(pol.At(at)); err != nil || string(got) != want {
			t.Errorf("at %s: %s, %v", at, got, err)
		}
	}
	zero := policy.CapOf(money.Amount{})
	minus := -1
	for field, wrong := range map[string]policy.Raise{
		"raise": {Until: until}, "raise.until": {DailyBudget: policy.NoCap()}, "raise.daily_budget": {Until: until, DailyBudget: zero},
		"raise.per_minute": {Until: until, PerMinute: &minus},
	} {
		malformed, is := errors.AsType[*policy.FieldError](policy.Policy{Raise: &wrong}.Validate())
		if !is || malformed.Field != field {
			t.Errorf("%s: %v", field, malformed)
		}
	}
}
