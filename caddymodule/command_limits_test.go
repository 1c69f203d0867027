package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/cli/clitest"
)

func TestLimitsCommand(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	admin := "--admin=unix/" + socket
	key := mustCall(t, 201, "POST", s.url()+"/api-keys", "", `{"label":"tab\there"}`)
	id := key["id"].(string)
	limits := func(want bool, args ...string) string {
		t.Helper()
		o := clitest.Run(t, nil, append([]string{"limits", admin}, args...)...)
		if (o.Status == 0) != want {
			t.Errorf("%q: %+v", args, o)
		}
		return strings.Join(strings.Fields(o.Stdout), " ")
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
	if o := clitest.Run(t, nil, "limits", "none", admin); o.Status != 1 || o.Stdout != "" || o.Stderr != "purser: no key has the id or label \"none\"\n" {
		t.Errorf("%d, %q, %q", o.Status, o.Stdout, o.Stderr)
	}
	if o := clitest.Run(t, nil, "limits", "--nonsense"); o.Status != 1 || !strings.Contains(o.Stderr, "--nonsense") {
		t.Errorf("%d, %q", o.Status, o.Stderr)
	}
	if o := clitest.Run(t, nil, "limits", "--help"); o.Status != 0 || !strings.Contains(o.Stdout, "--max-payment 0.5") {
		t.Errorf("%s", o.Stdout)
	}
}
