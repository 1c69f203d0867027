// Package sandboxed gives a test a running purser-sandbox, as people start it, and the programs
// of this repository.
//
// What is done with it, and worlds that are not purser-sandbox's, are the tests'.
package sandboxed

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	buildTime = 10 * time.Minute
	startTime = time.Minute
	stopTime  = 20 * time.Second
)

// Program is the path of a command of this repository: what PURSER_BIN or PURSER_SANDBOX_BIN
// names, else one that is built here.
func Program(t *testing.T, name string) string {
	t.Helper()
	variable := map[string]string{"purser": "PURSER_BIN", "purser-sandbox": "PURSER_SANDBOX_BIN"}[name]
	if path := os.Getenv(variable); variable != "" && path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), name)
	ctx, cancel := context.WithTimeout(t.Context(), buildTime)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/purserpay/purser/cmd/"+name) //nolint:gosec // a name that a test gives
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return path
}

// Sandbox is a running purser-sandbox: what it says of itself with -json.
type Sandbox struct {
	API         string
	Proxy       string
	Key         string
	Wallet      string
	Seller      string
	SellerTLS   string `json:"seller_tls"`
	Facilitator string
	RPC         string
	Token       string // the contract's address
	CA          string // file of the root that opens HTTPS
	Metrics     string
	Admin       string // unix/ and the socket's path

	// Log is its standard error.
	Log Log
}

// Start starts one with arguments, and with variables beside the test's own. It ends with the
// test, and fails that if it does not end well.
func Start(t *testing.T, arguments, variables []string) *Sandbox {
	t.Helper()
	s := new(Sandbox)
	arguments = append([]string{"-json", "-port", "0"}, arguments...)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), Program(t, "purser-sandbox"), arguments...) //nolint:gosec // our own program
	cmd.Dir = t.TempDir()
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PURSER_") }), variables...)
	cmd.Stderr = &s.Log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	Background(t, cmd, &s.Log)
	late := time.AfterFunc(startTime, func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	late.Stop()
	if err == nil {
		err = json.Unmarshal(line, s)
	}
	if err != nil {
		t.Fatalf("purser-sandbox did not start: %v\n%s", err, s.Log.End())
	}
	return s
}

// Background starts a program that is to go on until the test ends, and to end well then.
func Background(t *testing.T, cmd *exec.Cmd, log *Log) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", filepath.Base(cmd.Path), err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
		late := time.AfterFunc(stopTime, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", filepath.Base(cmd.Path), err, log.End())
		}
	})
}

// AdminClient calls the admin endpoint, whatever host a URL names.
func (s *Sandbox) AdminClient() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(s.Admin, "unix/"))
		},
		DisableKeepAlives: true,
	}}
}
