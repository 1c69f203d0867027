package caddymodule

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// limitsOf parses flags of `purser limits`.
func limitsOf(t *testing.T, args ...string) *cobra.Command {
	t.Helper()
	c := &cobra.Command{Use: "limits"}
	limitsCommand(c)
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLimitsPatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, `{}`},
		{
			[]string{"--max-payment", "0.5", "--daily-budget", "off", "--monthly-budget", "default"},
			`{"daily_budget":"off","max_payment":"500000","monthly_budget":null}`,
		},
		{[]string{"--per-minute", "10", "--price-guard", "off"}, `{"per_minute":10,"price_guard":0}`},
		{[]string{"--per-minute", "default"}, `{"per_minute":null}`},
		{
			[]string{"--door", "proxy", "--door", "api", "--deny-host", "default", "--allow-host", "*.a.example"},
			`{"allow_hosts":["*.a.example"],"deny_hosts":null,"doors":["proxy","api"]}`,
		},
		{[]string{"--allow-payee", "0xa", "--deny-payee", "0xb"}, `{"allow_payees":["0xa"],"deny_payees":["0xb"]}`},
		{
			[]string{"--host", "a.example:81=daily:2, max:0.1", "--host", "*.b=monthly:off,daily:default", "--task", "nightly=default", "--task", "*=max:1"},
			`{"hosts":{"*.b":{"daily_budget":null,"monthly_budget":"off"},"a.example:81":{"daily_budget":"2000000","max_payment":"100000"}},` +
				`"tasks":{"*":{"max_payment":"1000000"},"nightly":null}}`,
		},
	} {
		patch, err := limitsPatch(limitsOf(t, c.args...))
		got, _ := json.Marshal(patch)
		if err != nil || string(got) != c.want {
			t.Errorf("%q: %s, %v; want %s", c.args, got, err, c.want)
		}
	}
	for _, args := range [][]string{
		{"--max-payment", "1,5"},
		{"--max-payment", ""},
		{"--daily-budget", "-1"},
		{"--monthly-budget", "0.0000001"},
		{"--per-minute", "0"},
		{"--per-minute", "many"},
		{"--price-guard", "1.5"},
		{"--price-guard", "-1"},
		{"--allow-host", ""},
		{"--allow-host", "a", "--allow-host", "default"},
		{"--host", "a.example"},
		{"--host", "=daily:1"},
		{"--host", "a="},
		{"--host", "a=weekly:1"},
		{"--host", "a=daily"},
		{"--host", "a=daily:1,daily:2"},
		{"--host", "a=daily:1", "--host", "a=max:1"},
		{"--task", "t=max:x"},
	} {
		if patch, err := limitsPatch(limitsOf(t, args...)); err == nil || !strings.HasPrefix(err.Error(), args[0]) {
			t.Errorf("%q: %v, error %v", args, patch, err)
		}
	}
}

func TestLimitsCommand(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	admin := "--admin=unix/" + socket
	key := mustCall(t, 201, "POST", s.url()+"/api-keys", "", `{"label":"tab\there"}`)
	id := key["id"].(string)
	limits := func(want bool, args ...string) string {
		t.Helper()
		c := limitsOf(t, append([]string{admin}, args...)...)
		var b bytes.Buffer
		c.SetOut(&b)
		c.SetContext(t.Context())
		if err := runLimits(c, c.Flags().Args()); (err == nil) != want {
			t.Errorf("%q: %v, %s", args, err, &b)
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	has := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in %s", part, text)
			}
		}
	}
	has(limits(true), id+" tab�here 1 10 0 10 - 0 of 3000 - all")
	has(limits(true, id, "--max-payment", "0.5", "--host", "a.example=daily:2"),
		"LIMIT OWN AT PROXY AT TRANSPORT AT API max payment 0.5 0.5 0.5 0.5 daily budget - 10 10 -", "host a.example daily:2 daily:2")
	has(limits(true, id, "--daily-budget", "off"), "max payment 0.5 0.5", "daily budget off off", "host a.example daily:2")
	has(limits(true), id+" tab�here 0.5 off 0 - - 0 of 3000 - all hosts")
	file := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(file, []byte(`{"monthly_budget":"7000000"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := limits(true, id, "--json", file); strings.Contains(text, "daily:2") {
		t.Errorf("%s", text)
	} else {
		has(text, "monthly budget 7 7")
	}
	has(limits(true, id, "--reset"), "monthly budget - -")
	has(limits(true, "exec", "--per-minute", "3"), "per minute 3 3", "doors proxy")
	for _, args := range [][]string{
		{"--max-payment", "1"},
		{"--reset"},
		{"none"},
		{id, "--reset", "--max-payment", "1"},
		{id, "--json", file, "--reset"},
		{id, "--json", "/nowhere"},
		{id, "--json", os.Args[0]},
		{id, "--door", "window"},
		{id, "--allow-host", "https://a"},
	} {
		limits(false, args...)
	}
	if o := command(t, nil, "limits", "none", admin); o.status() != 1 || o.stdout != "" || o.stderr != "purser: no key has the id or label \"none\"\n" {
		t.Errorf("%s, %q, %q", o.state, o.stdout, o.stderr)
	}
	if o := command(t, nil, "limits", "--nonsense"); o.status() != 1 || !strings.Contains(o.stderr, "--nonsense") {
		t.Errorf("%s, %q", o.state, o.stderr)
	}
	if o := command(t, nil, "limits", "--help"); o.status() != 0 || !strings.Contains(o.stdout, "--max-payment 0.5") {
		t.Errorf("%s", o.stdout)
	}
}
