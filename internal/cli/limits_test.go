package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // not each system has zones

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

// A total has an amount, an end and a restart, each of which may change alone.
func TestTotalPatch(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"nightly=total:5": `{"tasks":{"nightly":{"total":{"amount":"5000000"}}}}`,
		"nightly=total:5,until:2026-12-01T18:00:00+01:00": `{"tasks":{"nightly":{"total":{"amount":"5000000","until":"2026-12-01T17:00:00Z"}}}}`,
		"nightly=daily:1,total:5,restart":                 `{"tasks":{"nightly":{"daily_budget":"1000000","total":{"amount":"5000000","restart":true}}}}`,
		"nightly=restart":                                 `{"tasks":{"nightly":{"total":{"restart":true}}}}`,
		"nightly=until:off":                               `{"tasks":{"nightly":{"total":{"until":null}}}}`,
		"nightly=total:off":                               `{"tasks":{"nightly":{"total":null}}}`,
		"nightly=total:default":                           `{"tasks":{"nightly":{"total":null}}}`,
	} {
		patch, err := patchOf(t, "--task", flag)
		if got, _ := json.Marshal(patch); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", flag, got, err, want)
		}
	}
	for _, args := range [][]string{
		{"--task", "nightly=total:"},
		{"--task", "nightly=total:5,total:6"},
		{"--task", "nightly=total:off,restart"},
		{"--task", "nightly=total:off,until:18:00"},
		{"--task", "nightly=until:"},
		{"--task", "nightly=until:6pm"},
		{"--task", "nightly=until:+0s"},
		{"--task", "nightly=until:-2h"},
		{"--task", "nightly=until:25:00"},
		{"--task", "nightly=restart:yes"},
		{"--host", "a.example=total:5"},
		{"--host", "a.example=until:18:00"},
	} {
		if patch, err := patchOf(t, args...); err == nil {
			t.Errorf("%q: %v", args, patch)
		}
	}
}

// A time of the day is the next one where the person is, also over the days on which clocks change.
func TestReadUntil(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 10, 24, 17, 30, 0, 0, berlin)
	for text, want := range map[string]string{
		"18:00": "2026-10-24T16:00:00Z", "17:30": "2026-10-25T16:30:00Z", "09:00": "2026-10-25T08:00:00Z", "+8h": "2026-10-24T23:30:00Z",
		"+2d": "2026-10-26T15:30:00Z", "+90m": "2026-10-24T17:00:00Z", "2026-12-01T18:00:00Z": "2026-12-01T18:00:00Z", "2026-12-01T18:00:00.5+01:00": "2026-12-01T17:00:00Z",
	} {
		if got, err := readUntil(text, now); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %s", text, got, err, want)
		}
	}
}
