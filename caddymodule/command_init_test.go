package caddymodule

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/clitest"
)

func TestInit(t *testing.T) {
	t.Parallel()
	rpc := rpc(t, "0x"+strings.Repeat("01", 32)).URL
	dir := t.TempDir()
	o := initIn(t, dir, "9402\n?\nnonsense\n"+rpc+"/v2/s3cret\n\n0.5\noff\nhttps://api.example.com\napi.example.com, *.example.org\n", nil)
	if o.Status != 0 || clitest.Written(t, dir) != clitest.InitMade || strings.Count(o.Stdout, "0x") != 1 || strings.Contains(o.Stdout, "s3cret") || strings.Contains(o.Stdout, "pk_") ||
		!strings.Contains(o.Stdout, "not an absolute http or https URL") || !strings.Contains(o.Stdout, "    purser run\n") {
		t.Fatalf("%d, %s: %s%s", o.Status, clitest.Written(t, dir), o.Stdout, o.Stderr)
	}
	for _, want := range []string{
		"nobody confirms stays open", "    answers: Base (chain 8453)", "USDC on Base (chain 8453)", "Back up purser-data/master.key now",
		"version control", "purser status", "purser dashboard",
	} {
		if !strings.Contains(o.Stdout, want) {
			t.Errorf("does not say %q: %s", want, o.Stdout)
		}
	}
	for name, mode := range map[string]os.FileMode{"Caddyfile": 0o644, "purser.env": 0o600, "purser-data/master.key": 0o600, "purser-data": 0o700 | os.ModeDir} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if text := clitest.ReadText(t, dir, "purser.env"); !strings.Contains(text, "\nPURSER_RPC_URL="+rpc+"/v2/s3cret\n") || !strings.Contains(text, "\n# PURSER_FACILITATOR_URL=\n") {
		t.Errorf("%s", text)
	}
	text := clitest.ReadText(t, dir, "Caddyfile")
	if strings.Contains(text, "s3cret") {
		t.Error("the Caddyfile has the RPC's key")
	}
	config, err := adapt(text)
	if err != nil {
		t.Fatal(err)
	}
	a := decodeAdapted(t, config)
	if got := fmt.Sprint(a.listen()); got != "[127.0.0.1:8406 127.0.0.1:8407 127.0.0.1:9402]" {
		t.Errorf("listens on %s", got)
	}
	if a.Apps.Purser["max_payment"] != "0.5" || a.Apps.Purser["daily_budget"] != "off" || a.Apps.Purser["allow_hosts"] != "api.example.com,*.example.org" {
		t.Errorf("%v", a.Apps.Purser)
	}

	// Again: nothing is overwritten, and with --force key and wallet stay.
	if again := initIn(t, dir, "", nil, "--yes"); again.Status != 1 || !strings.Contains(again.Stderr, "--force writes Caddyfile and purser.env anew; keys, wallets and books stay") || clitest.ReadText(t, dir, "Caddyfile") != text {
		t.Errorf("%d %s", again.Status, again.Stderr)
	}
	asks := initIn(t, dir, "", nil, "--yes", "--force")
	if config, err = adapt(clitest.ReadText(t, dir, "Caddyfile")); err != nil || decodeAdapted(t, config).Apps.Purser["require_approval_new_hosts"] != "on" || !strings.Contains(asks.Stdout, "purser approvals") {
		t.Errorf("by default nobody is asked about new hosts: %v, %s", err, asks.Stdout)
	}
	again := initIn(t, dir, "", nil, "--yes", "--force", "--hosts", "any")
	if again.Status != 0 || lineWith(again.Stdout, "0x") != lineWith(o.Stdout, "0x") {
		t.Errorf("%d %s%s", again.Status, again.Stdout, again.Stderr)
	}
	if !strings.Contains(again.Stdout, "key that was here stays") {
		t.Errorf("%s", again.Stdout)
	}
	_, ours, _ := strings.Cut(clitest.ReadText(t, dir, "Caddyfile"), "\n\n")
	_, theirs, _ := strings.Cut(shipped(t), "\n\n")
	if strings.ReplaceAll(ours, "https://github.com/purserpay/purser/blob/main/docs/", "docs/") != theirs {
		t.Error("the defaults are not the shipped Caddyfile")
	}
	if text := clitest.ReadText(t, dir, "Caddyfile"); !strings.HasPrefix(text, "# Made by 'purser init'") || strings.Contains(text, " docs/") || strings.Contains(text, ".md.") {
		t.Errorf("the Caddyfile speaks of files that are not here: %s", text)
	}
}

// A purser that runs makes the key; one that cannot be asked keeps its database to itself.
func TestInitBesideRunning(t *testing.T) {
	s, socket := bookSite(t)
	dir := t.TempDir()
	o := initIn(t, dir, "", []string{"PURSER_ADMIN=unix/" + socket}, "--yes")
	_, text := adminCall(t, socket, "POST", "/purser/exec")
	have := decode[adminapi.Exec](t, text)
	if o.Status != 0 || clitest.Written(t, dir) != "Caddyfile purser.env" || !strings.Contains(o.Stdout, *have.Address) || strings.Contains(o.Stdout, have.Key) ||
		!strings.Contains(o.Stdout, "makes it read the files") || strings.Contains(o.Stdout, "Back up") {
		t.Errorf("%d, %s: %s%s", o.Status, clitest.Written(t, dir), o.Stdout, o.Stderr)
	}
	dir = t.TempDir()
	o = initIn(t, dir, "", []string{"PURSER_DATA_DIR=" + s.dir}, "--yes")
	if o.Status != 1 || !strings.Contains(o.Stderr, "use") || clitest.Written(t, dir) != "" {
		t.Errorf("%d, %s: %s", o.Status, clitest.Written(t, dir), o.Stderr)
	}
}

func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}

func initIn(t *testing.T, dir, stdin string, environ []string, args ...string) clitest.Outcome {
	t.Helper()
	c := inFolder(t, dir, environ, append([]string{"init"}, args...)...)
	c.Stdin = strings.NewReader(stdin)
	return finish(t, c)
}

// An operator who leaves before the end leaves nothing behind.
func TestInitGivenUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if o := initIn(t, dir, "\n\n", nil); o.Status != 130 || !strings.Contains(o.Stderr, "nothing was written") || clitest.Written(t, dir) != "" {
		t.Errorf("%d, %q: %s", o.Status, clitest.Written(t, dir), o.Stderr)
	}
	c := inFolder(t, dir, nil, "init")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer stuck.Stop()
	if _, err := io.ReadFull(out, make([]byte, 20)); err != nil { // it asks
		t.Fatal(err)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = c.Wait()
	_ = in.Close()
	if c.ProcessState.ExitCode() != 130 || clitest.Written(t, dir) != "" {
		t.Errorf("%s, %q", c.ProcessState, clitest.Written(t, dir))
	}
}

func TestInitRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		environ    []string
		args       []string
	}{
		{"flag", "--listen", nil, []string{"--listen", "nowhere"}},
		{"limit", "--max-payment", nil, []string{"--max-payment", "0"}},
		{"secret URL", "cannot be kept", nil, []string{"--rpc", "https://example.com/#s3cret"}},
		{"master key", "PURSER_MASTER_KEY", []string{"PURSER_MASTER_KEY=s3cret"}, nil},
		{"store", "PURSER_STORE", []string{"PURSER_STORE=paper"}, nil},
	} {
		dir := t.TempDir()
		o := initIn(t, dir, "", c.environ, append([]string{"--yes"}, c.args...)...)
		if o.Status != 1 || !strings.Contains(o.Stderr, c.want) || strings.Contains(o.Stderr, "s3cret") || clitest.Written(t, dir) != "" {
			t.Errorf("%s: %d, %q: %s", c.name, o.Status, clitest.Written(t, dir), o.Stderr)
		}
	}
}
