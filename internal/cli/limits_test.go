package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// patchOf returns what flags of `purser limits` say.
func patchOf(t *testing.T, args ...string) (map[string]any, error) {
	t.Helper()
	c := new(cobra.Command)
	patch := changeFlags(c, limitAdditions)
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return patch()
}

// A raise has the numbers that other flags name, and how long it holds.
func TestRaisePatch(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		args []string
		want string
	}{
		"2h":  {[]string{"--daily-budget", "20", "--per-minute", "off"}, `{"raise":{"daily_budget":"20000000","for":"2h0m0s","per_minute":0}}`},
		"3d":  {[]string{"--require-approval-above", "off"}, `{"raise":{"for":"72h0m0s","require_approval_above":"off"}}`},
		"off": {nil, `{"raise":null}`},
	} {
		patch, err := patchOf(t, c.args...)
		if err == nil {
			patch, err = raisePatch(patch, text)
		}
		if got, _ := json.Marshal(patch); err != nil || string(got) != c.want {
			t.Errorf("%s %q: %s, %v; want %s", text, c.args, got, err, c.want)
		}
	}
	for _, args := range [][]string{
		{"2h"},
		{"two hours", "--daily-budget", "20"},
		{"-1h", "--daily-budget", "20"},
		{"off", "--daily-budget", "20"},
		{"2h", "--daily-budget", "default"},
		{"2h", "--daily-budget", "20", "--task", "nightly=daily:1"},
		{"2h", "--require-approval-new-hosts", "off"},
	} {
		patch, err := patchOf(t, args[1:]...)
		if err != nil {
			t.Fatal(err)
		}
		if patch, err = raisePatch(patch, args[0]); err == nil {
			t.Errorf("%q: %v", args, patch)
		}
	}
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
		patch, err := patchOf(t, c.args...)
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
		{"--host", "a=yearly:1"},
		{"--host", "a=daily"},
		{"--host", "a=daily:1,daily:2"},
		{"--host", "a=daily:1", "--host", "a=max:1"},
		{"--task", "t=max:x"},
	} {
		if patch, err := patchOf(t, args...); err == nil || !strings.HasPrefix(err.Error(), args[0]) {
			t.Errorf("%q: %v, error %v", args, patch, err)
		}
	}
}
