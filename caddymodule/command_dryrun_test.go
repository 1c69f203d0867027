package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/clitest"
)

// rows returns all that a running purser lists of its database, and its keys in files. The audit has a row for each change.
func rows(t *testing.T, s *site, socket string) (text string) {
	t.Helper()
	for _, name := range []string{"master.key", "ca.crt"} {
		content, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		text += name + ":" + string(content)
	}
	for _, list := range []string{"audit", "keys", "wallets", "payments", "approvals", "rotate", "webhooks"} {
		text += told(t, socket, list, "--json")
	}
	return text
}

// With --dry-run each command that asks a running purser to change something says what it would do, and changes nothing.
func TestDryRunsChangeNothing(t *testing.T) {
	s, socket := bookSite(t)
	agent := newKey(t, s.url())
	mustCall(t, 200, "POST", s.url()+"/v1/pay", agent, payBody(5, "https://api.example.com/a"))
	created := decode[adminapi.CreatedKey](t, told(t, socket, "keys", "create", "--label", "research", "--json"))
	wallets := decode[map[string][]adminapi.Wallet](t, told(t, socket, "wallets", "--key", created.ID, "--json"))["wallets"]
	payments := decode[map[string][]adminapi.Payment](t, told(t, socket, "payments", "--json"))["payments"]
	if len(wallets) != 1 || len(payments) != 1 {
		t.Fatalf("%d wallets, %d payments", len(wallets), len(payments))
	}
	fill := strings.NewReplacer("KEY", created.ID, "WALLET", wallets[0].ID, "PAYMENT", payments[0].ID, "THERE", "0x"+strings.Repeat("7", 40))
	lines := []struct {
		line   string
		status int
		says   string
	}{
		{"approvals approve none", 1, "none"},
		{"approvals deny none --reason no", 1, "none"},
		{"dashboard", 0, "make a link"},
		{"dashboard --sign-out", 0, "end all sessions"},
		{"keys create --label more --daily-budget 5", 0, "--daily-budget=5 --label=more"},
		{"keys create --daily-budget none", 1, "daily-budget"},
		{"keys pause research --reason x", 0, "stop new payments of the key KEY (research)"},
		{"keys pause nobody --reason x", 1, "nobody"},
		{"keys resume research", 0, "let the key KEY (research) pay again"},
		{"keys revoke research", 0, "revoke the key KEY (research) for ever"},
		{"keys revoke research --yes", 0, "cannot pay any more"},
		{"keys end-overlap research", 0, "stop the old secret"},
		{"keys reissue research --overlap 24h", 0, "works for 24h yet"},
		{"limits research --daily-budget 7", 0, "change the limits of the key KEY (research)"},
		{"limits research --reset", 0, "take all limits"},
		{"limits nobody --daily-budget 7", 1, "nobody"},
		{"organizations plan org_1 agency", 0, "move the organization org_1 to the plan agency"},
		{"pause --reason x", 0, "stop new payments of all keys"},
		{"pause", 1, "--reason"},
		{"resume", 0, "begin again"},
		{"payments resolve PAYMENT --as void --reason x", 0, "close the payment PAYMENT"},
		{"payments resolve 0199 --as void --reason x", 1, "0199"},
		{"reconcile --accept-risk", 0, "let payments resume"},
		{"rotate data-key", 0, "data key"},
		{"rotate master-key", 0, "master key"},
		{"rotate authority", 0, "root"},
		{"rpc trust base", 0, "the block of base"},
		{"wallets approve WALLET --amount 5", 1, "RPC"},
		{"wallets cancel WALLET --sign-only", 0, "cancel nothing"},
		{"wallets create --key research", 0, "for the key KEY (research)"},
		{"wallets delete WALLET", 0, "hide the wallet WALLET"},
		{"wallets delete WALLET --yes", 0, "Delete the wallet"},
		{"wallets export WALLET --out key.json", 0, "write the key of the wallet WALLET"},
		{"wallets import missing.json --key research", 1, "missing.json"},
		{"wallets restore WALLET", 0, "undo the deletion"},
		{"wallets share WALLET --with exec", 0, "--with=[exec]"},
		{"wallets unshare WALLET --with exec", 0, "take the wallet WALLET"},
		{"wallets withdraw WALLET --to THERE --amount 5 --yes", 0, "Move 5 USDC"},
		{"webhooks replay hooks.example.com --since 2h", 0, "send notices again to hooks.example.com"},
		{"webhooks test", 0, "test notice"},
	}
	tried := map[string]bool{}
	before := rows(t, s, socket)
	for _, c := range lines {
		line := fill.Replace(c.line)
		dir := t.TempDir()
		o := clitest.Line{Dir: dir, Environ: []string{"PURSER_ADMIN=unix/" + socket}}.Run(t, append(strings.Fields(line), "--dry-run")...)
		if all := o.Stdout + o.Stderr; o.Status != c.status || !strings.Contains(all, fill.Replace(c.says)) || strings.Contains(o.Stdout, "nothing was changed") != (c.status == 0) {
			t.Errorf("%s: %d, %s", line, o.Status, all)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", line, left, err)
		}
		words := strings.Fields(c.line)
		tried[words[0]], tried[words[0]+" "+words[min(1, len(words)-1)]] = true, true
	}
	if after := rows(t, s, socket); after != before {
		t.Error("a dry run has changed the database")
	}
	o := clitest.Run(t, []string{"PURSER_ADMIN=unix/" + socket}, "keys", "revoke", "research", "--dry-run", "--json")
	said := decode[struct {
		DryRun   bool   `json:"dry_run"`
		Would    string `json:"would"`
		Question string `json:"question"`
	}](t, o.Stdout)
	if o.Status != 0 || !said.DryRun || said.Would != "revoke the key "+created.ID+" (research) for ever" || said.Question == "" {
		t.Errorf("%+v, %+v", o, said)
	}
	// Package cli tries the commands that work on files.
	ofFiles := map[string]bool{"compact": true, "init": true, "migrate": true, "move": true, "restore": true}
	for _, c := range ownCommands() {
		if name := commandName(c); c.Flags().Lookup("dry-run") != nil && !tried[name] && !ofFiles[name] {
			t.Errorf("%s was not tried", name)
		}
	}
}

func commandName(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), "purser ") }
