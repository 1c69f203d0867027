package pay_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

func usdc(n uint64) *pay.Cap { return pay.CapOf(x402.NewAmount(n)) }

// each makes n map entries.
func each(n int, name string) map[string]pay.Budget {
	m := map[string]pay.Budget{}
	for i := range n {
		m[fmt.Sprintf(name, i)] = pay.Budget{DailyBudget: usdc(1)}
	}
	return m
}

func TestValidate(t *testing.T) {
	t.Parallel()
	minus, zero, one := -1, 0, 1
	hosts := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("h%d.example.com", i))
		}
		return list
	}
	off := pay.Budget{MaxPayment: pay.NoCap(), DailyBudget: pay.NoCap(), MonthlyBudget: pay.NoCap()}
	for _, c := range []struct {
		pol   pay.Policy
		field string // "": valid
		says  string
	}{
		{pol: pay.Policy{}},
		{pol: pay.Policy{
			MaxPayment: usdc(1), DailyBudget: usdc(1), MonthlyBudget: pay.NoCap(), PerMinute: &zero, PriceGuard: &one,
			Doors: []pay.Door{pay.DoorAPI, pay.DoorProxy, pay.DoorTransport}, AllowHosts: []string{"*.example.com", "[::1]:80"},
			DenyHosts: []string{"a.example.com:8443"}, AllowPayees: make([]x402.Address, 1000), DenyPayees: []x402.Address{{1}},
			Hosts: map[string]pay.Budget{"a.example.com": off, "*.b.example.com": {}},
			Tasks: map[string]pay.Budget{"*": off, "a-B_3.4": {DailyBudget: usdc(1)}, strings.Repeat("a", 64): {}},
		}},
		{pol: pay.Policy{AllowHosts: hosts(1000), Hosts: each(1000, "h%d.example.com"), Tasks: each(1000, "t%d")}},
		// What reads like nothing being allowed must not allow everything.
		{pay.Policy{AllowHosts: []string{}}, "allow_hosts", "an empty list"},
		{pay.Policy{AllowPayees: []x402.Address{}}, "allow_payees", "an empty list"},
		{pay.Policy{Doors: []pay.Door{}}, "doors", "an empty list"},
		{pay.Policy{MaxPayment: usdc(0)}, "max_payment", "more than 0"},
		{pay.Policy{DailyBudget: usdc(0)}, "daily_budget", "more than 0"},
		{pay.Policy{MonthlyBudget: usdc(0)}, "monthly_budget", "more than 0"},
		{pay.Policy{PerMinute: &minus}, "per_minute", "-1"},
		{pay.Policy{PriceGuard: &minus}, "price_guard", "-1"},
		{pay.Policy{Doors: []pay.Door{pay.DoorAPI, "window"}}, "doors", `"window"`},
		{pay.Policy{Doors: []pay.Door{""}}, "doors", `""`},
		{pay.Policy{Doors: make([]pay.Door, 1001)}, "doors", "1001 entries"},
		{pay.Policy{AllowHosts: hosts(1001)}, "allow_hosts", "1001 entries"},
		{pay.Policy{DenyHosts: hosts(1001)}, "deny_hosts", "1001 entries"},
		{pay.Policy{AllowPayees: make([]x402.Address, 1001)}, "allow_payees", "1001 entries"},
		{pay.Policy{DenyPayees: make([]x402.Address, 1001)}, "deny_payees", "1001 entries"},
		{pay.Policy{Hosts: each(1001, "h%d.example.com")}, "hosts", "1001 entries"},
		{pay.Policy{Tasks: each(1001, "t%d")}, "tasks", "1001 entries"},
		{pay.Policy{AllowHosts: []string{"a.example.com", "https://b.example.com"}}, "allow_hosts", `"https://b.example.com" is neither`},
		{pay.Policy{DenyHosts: []string{"*"}}, "deny_hosts", `"*" is neither`},
		{pay.Policy{DenyHosts: []string{"API.example.com."}}, "deny_hosts", `write "API.example.com." as "api.example.com"`},
		{pay.Policy{Hosts: map[string]pay.Budget{"a b": {}}}, "hosts", `"a b" is neither`},
		{pay.Policy{Hosts: map[string]pay.Budget{"A.example": {}}}, "hosts", `as "a.example"`},
		{pay.Policy{Hosts: map[string]pay.Budget{"a.example": {MaxPayment: usdc(0)}}}, "hosts[a.example].max_payment", "more than 0"},
		{pay.Policy{Hosts: map[string]pay.Budget{"*.a.example": {DailyBudget: usdc(0)}}}, "hosts[*.a.example].daily_budget", "more than 0"},
		{pay.Policy{Tasks: map[string]pay.Budget{"*": {MonthlyBudget: usdc(0)}}}, "tasks[*].monthly_budget", "more than 0"},
		{pay.Policy{Tasks: map[string]pay.Budget{"": {}}}, "tasks", `""`},
		{pay.Policy{Tasks: map[string]pay.Budget{"a/b": {}}}, "tasks", `"a/b"`},
		{pay.Policy{Tasks: map[string]pay.Budget{"a*": {}}}, "tasks", `"a*"`},
		{pay.Policy{Tasks: map[string]pay.Budget{strings.Repeat("a", 65): {}}}, "tasks", "64 characters"},
	} {
		err := c.pol.Validate()
		if c.field == "" {
			if err != nil {
				t.Errorf("%v", err)
			}
			continue
		}
		var input *pay.InputError
		if !errors.As(err, &input) || input.Field != c.field || !strings.Contains(input.Reason, c.says) {
			t.Errorf("got %v, want %s: …%s…", err, c.field, c.says)
		}
	}
}

// Whatever sets a policy refuses one that cannot be meant.
func TestInvalidPoliciesAreNotSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bad := pay.Policy{DenyHosts: []string{"EVIL.example.com"}}
	_, err := pay.New(pay.Options{Store: w.store, Wallets: w.ring, DefaultPolicy: bad})
	_, _, err1 := w.books.CreateKey(t.Context(), books.KeyRequest{Policy: &bad})
	_, err2 := w.books.SetPolicy(t.Context(), w.key.ID, &bad)
	for _, err := range []error{err, err1, err2} {
		var input *pay.InputError
		if !errors.As(err, &input) || input.Field != "deny_hosts" {
			t.Errorf("got %v", err)
		}
	}
	if k, err := w.books.Key(t.Context(), w.key.ID); err != nil || k.Policy != nil || k.PolicyRevision != 0 {
		t.Errorf("key %+v, %v", k, err)
	}
}

func TestValidTask(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]bool{
		"a": true, "night-run_2.5": true, strings.Repeat("Z", 64): true,
		"": false, "*": false, "a b": false, "a/b": false, "ä": false, "a\x00": false, "a\n": false, strings.Repeat("a", 65): false,
	} {
		if pay.ValidTask(label) != want {
			t.Errorf("%q", label)
		}
	}
	w := newWorld(t, nil)
	r := w.proxied("https://a.example/x", "1", "")
	r.Task = "a/b"
	_, err := w.payer.Open(t.Context(), r)
	var input *pay.InputError
	if !errors.As(err, &input) || input.Field != "task" {
		t.Errorf("got %v", err)
	}
	if _, _, err := w.books.Spend(t.Context(), w.key, pay.SpendQuery{Task: "*", Limit: 1}); !errors.As(err, &input) || input.Field != "task" {
		t.Errorf("got %v", err)
	}
}

func TestPolicyJSON(t *testing.T) {
	t.Parallel()
	const text = `{"max_payment":"5","daily_budget":"off","per_minute":3,"doors":["proxy"],"allow_hosts":["*.example.com"],` +
		`"deny_payees":["0x1111111111111111111111111111111111111111"],"hosts":{"a.example.com":{"monthly_budget":"7"}},"tasks":{"*":{"daily_budget":"1"}}}`
	var pol pay.Policy
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
