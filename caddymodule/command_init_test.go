package caddymodule

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
)

// inFolder prepares a command in a folder that stays.
func inFolder(t *testing.T, dir string, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Dir = dir
	c.Env = append([]string{asCommand + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + dir}, environ...)
	return c
}

func initIn(t *testing.T, dir, stdin string, environ []string, args ...string) outcome {
	t.Helper()
	c := inFolder(t, dir, environ, append([]string{"init"}, args...)...)
	var stdout, stderr bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &stdout, &stderr
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{stdout: stdout.String(), stderr: stderr.String(), state: c.ProcessState}
}

// written are the names in a folder.
func written(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func readText(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const initMade = "Caddyfile purser-data purser.env"

func TestInit(t *testing.T) {
	t.Parallel()
	var dir string
	rpc := chainStandIn(t, "0x2105", "Geth/v1", "")
	o := patiently("    answers: Base (chain 8453)", func() outcome {
		dir = t.TempDir()
		return initIn(t, dir, "9402\n?\nnonsense\n"+rpc+"/v2/s3cret\n\n0.5\noff\n", nil)
	})
	if o.status() != 0 || written(t, dir) != initMade || strings.Count(o.stdout, "0x") != 1 || strings.Contains(o.stdout, "s3cret") || strings.Contains(o.stdout, "pk_") ||
		!strings.Contains(o.stdout, "not an absolute http or https URL") || !strings.Contains(o.stdout, "purser run --envfile purser.env") {
		t.Fatalf("%s, %s: %s%s", o.state, written(t, dir), o.stdout, o.stderr)
	}
	for _, want := range []string{
		"a payment that nobody confirms stays open", "    answers: Base (chain 8453)", "USDC on Base (chain 8453)", "Back up purser-data/master.key now",
		"version control", "purser status", "people who sign in",
	} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("does not say %q: %s", want, o.stdout)
		}
	}
	for name, mode := range map[string]os.FileMode{"Caddyfile": 0o644, "purser.env": 0o600, "purser-data/exec.key": 0o600, "purser-data": 0o700 | os.ModeDir} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if text := readText(t, dir, "purser.env"); !strings.Contains(text, "\nPURSER_RPC_URL="+rpc+"/v2/s3cret\n") || !strings.Contains(text, "\n# PURSER_FACILITATOR_URL=\n") {
		t.Errorf("%s", text)
	}
	text := readText(t, dir, "Caddyfile")
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
	if a.Apps.Purser["max_payment"] != "0.5" || a.Apps.Purser["daily_budget"] != "off" {
		t.Errorf("%v", a.Apps.Purser)
	}

	// Again: nothing is overwritten, and with --force key and wallet stay.
	secret := readText(t, dir, "purser-data", "exec.key")
	if again := initIn(t, dir, "", nil, "--yes"); again.status() != 1 || !strings.Contains(again.stderr, "--force writes Caddyfile and purser.env anew; keys, wallets and books stay") || readText(t, dir, "Caddyfile") != text {
		t.Errorf("%s %s", again.state, again.stderr)
	}
	again := initIn(t, dir, "", nil, "--yes", "--force")
	if again.status() != 0 || readText(t, dir, "purser-data", "exec.key") != secret || lineWith(again.stdout, "0x") != lineWith(o.stdout, "0x") {
		t.Errorf("%s %s%s", again.state, again.stdout, again.stderr)
	}
	if !strings.Contains(again.stdout, "key that was here stays") {
		t.Errorf("%s", again.stdout)
	}
	_, ours, _ := strings.Cut(readText(t, dir, "Caddyfile"), "\n\n")
	_, theirs, _ := strings.Cut(shipped(t), "\n\n")
	if strings.ReplaceAll(ours, documentation, "docs/") != theirs {
		t.Error("the defaults are not the shipped Caddyfile")
	}
	if text := readText(t, dir, "Caddyfile"); !strings.HasPrefix(text, "# Made by 'purser init'") || strings.Contains(text, " docs/") || strings.Contains(text, ".md.") {
		t.Errorf("the Caddyfile speaks of files that are not here: %s", text)
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

// Whoever leaves before the end leaves nothing behind.
func TestInitGivenUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if o := initIn(t, dir, "\n\n", nil); o.status() != interrupted || !strings.Contains(o.stderr, "nothing was written") || written(t, dir) != "" {
		t.Errorf("%s, %q: %s", o.state, written(t, dir), o.stderr)
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
	if c.ProcessState.ExitCode() != interrupted || written(t, dir) != "" {
		t.Errorf("%s, %q", c.ProcessState, written(t, dir))
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
		if o.status() != 1 || !strings.Contains(o.stderr, c.want) || strings.Contains(o.stderr, "s3cret") || written(t, dir) != "" {
			t.Errorf("%s: %s, %q: %s", c.name, o.state, written(t, dir), o.stderr)
		}
	}
}

// A purser that runs makes the key; one that cannot be asked keeps its database to itself.
func TestInitBesideRunning(t *testing.T) {
	s, socket := bookSite(t)
	dir := t.TempDir()
	o := initIn(t, dir, "", []string{"PURSER_ADMIN=unix/" + socket}, "--yes")
	_, text := adminCall(t, socket, "POST", "/purser/exec")
	have := decode[adminapi.Exec](t, text)
	if o.status() != 0 || written(t, dir) != "Caddyfile purser.env" || !strings.Contains(o.stdout, *have.Address) || strings.Contains(o.stdout, have.Key) ||
		!strings.Contains(o.stdout, "restart it") || strings.Contains(o.stdout, "Back up") {
		t.Errorf("%s, %s: %s%s", o.state, written(t, dir), o.stdout, o.stderr)
	}
	dir = t.TempDir()
	o = initIn(t, dir, "", []string{"PURSER_DATA_DIR=" + s.dir}, "--yes")
	if o.status() != 1 || !strings.Contains(o.stderr, "use") || written(t, dir) != "" {
		t.Errorf("%s, %s: %s", o.state, written(t, dir), o.stderr)
	}
}

func TestInitQuestions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"8402": "127.0.0.1:8402", "0.0.0.0:80": "0.0.0.0:80", "[::1]:8402": "[::1]:8402", "localhost:1": "127.0.0.1:1", ":9": "127.0.0.1:9",
		"10.0.0.1": "10.0.0.1:8402", "example.com:1": "", "127.0.0.1:0": "", "0": "", "127.0.0.1:65536": "", "x": "",
	} {
		if got, err := readListen(text); got != want || (err != nil) != (want == "") {
			t.Errorf("listen %q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"0.50": "0.5", "off": "off", "1": "1", "0": "", "-1": "", "1e3": "", "0.0000001": ""} {
		if got, err := readLimit(text); got != want || (err != nil) != (want == "") {
			t.Errorf("limit %q: %q, %v", text, got, err)
		}
	}
	for text, ok := range map[string]bool{
		"https://a.example/k?x=1&y=2": true, "none": true, "": true, "ftp://a": false, "https://a/{x}": false, "https://a/$X": false, "https://a b": false,
	} {
		if _, err := readServiceURL(text); (err == nil) != ok {
			t.Errorf("URL %q: %v", text, err)
		}
	}
}
