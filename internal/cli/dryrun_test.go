package cli_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/internal/environment"
)

// reading lists the commands that change nothing, apart from files that they are given a name for. exec, mcp and mcp run act for agents.
var reading = []string{
	"approvals", "approvals list", "approvals show", "archive", "audit", "backup", "check", "declined", "doctor", "env", "exec", "export",
	"keys", "keys list", "keys show", "mcp", "mcp run", "organizations", "organizations list", "payments", "payments dispute", "payments list", "payments show",
	"quote", "rotate", "rpc", "spend", "statement", "status", "tail", "wallets", "wallets authorizations", "wallets list",
	"webhooks", "webhooks events", "webhooks list",
}

// Each command that is not known to change nothing has --dry-run.
func TestChangesHaveDryRun(t *testing.T) {
	t.Parallel()
	env := &cli.Env{Getenv: func(string) string { return "" }, Environ: func() []string { return nil }, Layer: environment.OfProcess()}
	names := map[string]bool{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "purser ")
		names[name] = true
		if has, reads := c.Flags().Lookup("dry-run") != nil, slices.Contains(reading, name); has == reads {
			t.Errorf("%s: has --dry-run: %t, only reads: %t", name, has, reads)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	root := &cobra.Command{Use: "purser"}
	for _, command := range env.Commands() {
		c := &cobra.Command{Use: command.Name + " " + command.Usage}
		root.AddCommand(c)
		command.Setup(c)
		walk(c)
	}
	for _, name := range reading {
		if !names[name] {
			t.Errorf("there is no command %s", name)
		}
	}
}

// contents returns the files of a folder with their contents.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range filesIn(t, dir) {
		text, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // the test's own folder
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}

// A dry run of a command that works on files leaves every file as it is.
func TestDryRunsOfFiles(t *testing.T) {
	t.Parallel()
	dir := settled(t, "")
	before := contents(t, dir)
	for _, c := range []struct {
		line   string
		status int
		says   string
	}{
		{"move --to ../there", 0, "retire this folder"},
		{"move --to ../there --yes", 0, "will never pay again"},
		{"move --to purser-data/x", 1, "in the data directory"},
		{"move --undo", 0, "take this folder back"},
		{"compact", 0, "rewrite it"},
		{"compact missing.db", 1, "missing.db"},
		{"migrate --from bolt --to postgres", 0, "into PostgreSQL"},
		{"migrate --from bolt --to mysql", 1, "one way"},
		{"restore --taken 2026-01-02T03:04:05Z", 0, "2026-01-02"},
		{"restore --taken tomorrow", 1, "--taken"},
		{"init --yes --force --rpc https://rpc.example.com/SECRET", 0, "write Caddyfile"},
		{"init --yes", 1, "--force"},
	} {
		o := clitest.Line{Dir: dir, Environ: []string{"DATABASE_URL=postgres://127.0.0.1:1/none"}}.Run(t, append(strings.Fields(c.line), "--dry-run")...)
		if all := o.Stdout + o.Stderr; o.Status != c.status || !strings.Contains(all, c.says) || strings.Contains(o.Stdout, "SECRET") {
			t.Errorf("%s: %d, %s", c.line, o.Status, all)
		}
	}
	if after := contents(t, dir); !maps.Equal(before, after) {
		t.Errorf("files: %q, were %q", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
	if _, err := os.Stat(filepath.Join(dir, "../there")); err == nil {
		t.Error("something was packed")
	}
}
