package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/clitest"
)

// Lists end where they are told to, and say that there is more.
func TestLists(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	ids := journaled(t, time.Hour, 60*24*time.Hour, 0)
	if text := told(t, socket, "payments", "--since", "2d"); !strings.Contains(text, ids[0]) || !strings.Contains(text, ids[2]) || strings.Contains(text, ids[1]) {
		t.Errorf("%s", text)
	}
	if text := told(t, socket, "payments", "--until", "30d"); !strings.Contains(text, ids[1]) || strings.Contains(text, ids[2]) {
		t.Errorf("%s", text)
	}
	if page := decode[adminapi.Payments](t, told(t, socket, "payments", "--limit", "2", "--json")); len(page.Payments) != 2 || page.Next != ids[1] {
		t.Errorf("%+v", page)
	}
	// What the days leave out does not count.
	if page := decode[adminapi.Payments](t, told(t, socket, "payments", "--since", "2d", "--limit", "1", "--json")); len(page.Payments) != 1 || page.Next != ids[2] {
		t.Errorf("%+v", page)
	}
	if page := decode[adminapi.Payments](t, told(t, socket, "payments", "--until", "30d", "--limit", "1", "--json")); len(page.Payments) != 1 ||
		page.Payments[0].ID != ids[1] || page.Next != ids[1] {
		t.Errorf("%+v", page)
	}
	for args, want := range map[string][3]bool{
		"--task task-1":                                 {1: true},
		"--task task-2 --since 2d":                      {2: true},
		"--task task-1 --since 2d":                      {},
		"--host https://API.example.com/x --state open": {true, true, true},
		"--host api.example.com --task task-0":          {0: true},
		"--host api.example.com:8443":                   {},
	} {
		text := told(t, socket, append([]string{"payments"}, strings.Fields(args)...)...)
		for i, id := range ids {
			if strings.Contains(text, id) != want[i] {
				t.Errorf("%s, payment %d: %s", args, i, text)
			}
		}
	}
	for range 3 {
		told(t, socket, "keys", "create")
	}
	o := clitest.Run(t, []string{"PURSER_ADMIN=unix/" + socket}, "wallets", "--limit", "2")
	if strings.Count(o.Stdout, "\n") != 3 || !strings.Contains(o.Stderr, "there are more") {
		t.Errorf("%q, %q", o.Stdout, o.Stderr)
	}
	if text := told(t, socket, "__complete", "limits", ""); strings.Count(text, "-") < 12 || !strings.HasPrefix(text, "exec\n") {
		t.Errorf("%s", text)
	}
	if text := told(t, socket, "__complete", "payments", "resolve", ""); !strings.Contains(text, ids[1]+"\topen, 0.01 USDC, api.example.com") {
		t.Errorf("%s", text)
	}
}

// A ruling comes before what it did, once; and a repeat of what is void is a new payment.
func TestStoryOfARuling(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	ids := journaled(t, time.Hour, time.Hour, 0)
	text := told(t, socket, "payments", "resolve", ids[0], "--as", "void", "--reason", "nothing came in")
	ruling, void := strings.Index(text, "said that it is void: nothing came in\n"), strings.Index(text, "Z  void\n")
	if ruling < 0 || void < ruling || !strings.Contains(text, "a repeat of the request is a new payment") || strings.Contains(text, "gets this payment") {
		t.Errorf("%s", text)
	}
	text = told(t, socket, "payments", "show", ids[1])
	if !strings.Contains(text, "purser payments resolve "+ids[1]+" --as") || !strings.Contains(text, "1 of place/key-1/") || !strings.Contains(text, ", held\n") {
		t.Errorf("%s", text)
	}
	if text = told(t, socket, "payments", "show", ids[2]); !strings.Contains(text, "cannot be resolved: it is valid until") {
		t.Errorf("%s", text)
	}
}

// A key in a file is in no history and no list of processes, and a wrong one is not repeated.
func TestExecWithKeyFile(t *testing.T) {
	s, _, _ := commandSite(t)
	key := newKey(t, s.url())
	file := filepath.Join(t.TempDir(), "agent.key")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := clitest.Run(t, nil, "exec", "--key-file", file, "--proxy", s.url(), "--", "sh", "-c", `echo "$HTTPS_PROXY"`)
	if o.Status != 0 || !strings.Contains(o.Stdout, key+":exec@") {
		t.Errorf("%d, %q, %q", o.Status, o.Stdout, o.Stderr)
	}
	for want, args := range map[string][]string{
		"not both":                     {"--key", key, "--key-file", file},
		"no such file":                 {"--key-file", file + "x"},
		"--key-file is not an API key": {"--key-file", "/dev/null"},
	} {
		o := clitest.Run(t, nil, append(append([]string{"exec"}, args...), "true")...)
		if o.Status != 125 || !strings.Contains(o.Stderr, want) || strings.Contains(o.Stderr, key) {
			t.Errorf("%s: %d, %q", want, o.Status, o.Stderr)
		}
	}
}
