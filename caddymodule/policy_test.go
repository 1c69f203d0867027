package caddymodule

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestPolicyOptions(t *testing.T) {
	t.Setenv("PURSER_MONTHLY_BUDGET", "40")
	t.Setenv("PURSER_PER_MINUTE", "7")
	t.Setenv("PURSER_PRICE_GUARD", "off")
	t.Setenv("PURSER_REQUIRE_APPROVAL_ABOVE", "0.25")
	t.Setenv("PURSER_REQUIRE_APPROVAL_NEW_HOSTS", "true")
	t.Setenv("PURSER_APPROVAL_WAIT", "off")
	t.Setenv("PURSER_OFFER_SIGNERS", "0x209693Bc6afc0C5328bA36FaF03C514EF312287C")
	t.Setenv("PURSER_SIGN_IN_HOSTS", "a.example, *.b.example")
	a := &App{PolicyOptions: PolicyOptions{
		BudgetOptions: BudgetOptions{MaxPayment: "off", DailyBudget: "2.5"},
		AllowHosts:    "a.example, *.b.example c.example:81", DenyHosts: "d.example",
		AllowPayees: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", DenyPayees: "0x00000000000000000000000000000000000A11cE",
		Hosts: map[string]BudgetOptions{"a.example": {MaxPayment: "0.5", MonthlyBudget: "off"}},
		Tasks: map[string]BudgetOptions{"*": {DailyBudget: "1"}, "nightly": {MonthlyBudget: "3"}},
	}}
	s, err := a.resolve()
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(s.policy)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"max_payment":"off","daily_budget":"2500000","monthly_budget":"40000000","per_minute":7,"price_guard":0,"require_approval_above":"250000","require_approval_new_hosts":true,` +
		`"allow_hosts":["a.example","*.b.example","c.example:81"],"deny_hosts":["d.example"],"sign_in_hosts":["a.example","*.b.example"],` +
		`"allow_payees":["0x209693Bc6afc0C5328bA36FaF03C514EF312287C"],"deny_payees":["0x00000000000000000000000000000000000A11cE"],"offer_signers":["0x209693Bc6afc0C5328bA36FaF03C514EF312287C"],` +
		`"hosts":{"a.example":{"max_payment":"500000","monthly_budget":"off"}},` +
		`"tasks":{"*":{"daily_budget":"1000000"},"nightly":{"monthly_budget":"3000000"}}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if s.approvalWait != 0 || s.approvalExpiry != time.Hour {
		t.Errorf("approvals: %s, %s", s.approvalWait, s.approvalExpiry)
	}
	if !s.dailyGiven {
		t.Error("the daily budget was given")
	}
}

func TestPolicyRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		o    PolicyOptions
		want string
	}{
		{"month", PolicyOptions{BudgetOptions: BudgetOptions{MonthlyBudget: "much"}}, "PURSER_MONTHLY_BUDGET"},
		{"nothing at all", PolicyOptions{BudgetOptions: BudgetOptions{MonthlyBudget: "0"}}, "monthly_budget"},
		{"no number", PolicyOptions{PerMinute: "many"}, "PURSER_PER_MINUTE"},
		{"zero", PolicyOptions{PerMinute: "0"}, "PURSER_PER_MINUTE"},
		{"negative", PolicyOptions{PriceGuard: "-2"}, "PURSER_PRICE_GUARD"},
		{"a part", PolicyOptions{PriceGuard: "1.5"}, "PURSER_PRICE_GUARD"},
		{"URL for a host", PolicyOptions{AllowHosts: "https://a.example"}, "allow_hosts"},
		{"no host", PolicyOptions{AllowHosts: " , "}, "allow_hosts"},
		{"host in capitals", PolicyOptions{DenyHosts: "A.example"}, "deny_hosts"},
		{"no signer", PolicyOptions{OfferSigners: "0x12"}, "PURSER_OFFER_SIGNERS"},
		{"URL to sign in to", PolicyOptions{SignInHosts: "https://a.example"}, "sign_in_hosts"},
		{"no host to sign in to", PolicyOptions{SignInHosts: ","}, "PURSER_SIGN_IN_HOSTS"},
		{"no payee", PolicyOptions{AllowPayees: ","}, "allow_payees"},
		{"payee", PolicyOptions{DenyPayees: "0x12"}, "deny_payees"},
		{"mistyped payee", PolicyOptions{AllowPayees: "0x209693Bc6afc0C5328bA36FaF03C514EF312287D"}, "mistyped"},
		{"limit of a host", PolicyOptions{Hosts: map[string]BudgetOptions{"a.example": {DailyBudget: "x"}}}, "host a.example daily_budget"},
		{"host of a limit", PolicyOptions{Hosts: map[string]BudgetOptions{"a/b": {DailyBudget: "1"}}}, "hosts"},
		{"host without limits", PolicyOptions{Hosts: map[string]BudgetOptions{"a.example": {}}}, "host a.example"},
		{"task", PolicyOptions{Tasks: map[string]BudgetOptions{"a b": {DailyBudget: "1"}}}, "tasks"},
		{"task without limits", PolicyOptions{Tasks: map[string]BudgetOptions{"*": {}}}, "task *"},
	} {
		if _, err := (&App{PolicyOptions: c.o}).resolve(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func TestDoorOptionsRefuse(t *testing.T) {
	t.Setenv("PURSER_TEST_KEY", "short")
	for _, c := range []struct {
		name string
		o    DoorOptions
		want string
	}{
		{"secret", DoorOptions{Key: "pk_0123456789"}, "reference"},
		{"malformed", DoorOptions{Key: "{env.PURSER_TEST_KEY}"}, "not an API key"},
		{"empty", DoorOptions{Key: "{env.PURSER_TEST_NOTHING}"}, "{env.PURSER_TEST_NOTHING} is empty"},
		{"no file", DoorOptions{KeyFile: "/nowhere/key"}, "/nowhere/key"},
		{"twice", DoorOptions{Key: "{env.PURSER_TEST_KEY}", KeyFile: "/nowhere/key"}, "keep one"},
		{"task", DoorOptions{Task: "a b"}, "task"},
		{"replay", DoorOptions{MaxReplay: "big"}, "max_replay"},
		{"spool", DoorOptions{MaxSpool: "-1"}, "max_spool"},
	} {
		if _, err := c.o.resolve(); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "pk_0123456789") {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	d, err := DoorOptions{Task: "t", MaxReplay: "2MiB", MaxSpool: "off"}.resolve()
	if err != nil || d != (payingDoor{task: "t", maxReplay: 2 << 20, maxSpool: -1}) {
		t.Errorf("%+v, %v", d, err)
	}
}
