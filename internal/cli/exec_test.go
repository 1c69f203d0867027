package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/cli/clitest"
)

func TestExecExits(t *testing.T) {
	t.Parallel()
	root := httptest.NewServer(http.NotFoundHandler()) // a proxy that does not intercept
	t.Cleanup(root.Close)
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("no program"), 0o700); err != nil { //nolint:gosec // executable on purpose
		t.Fatal(err)
	}
	with := func(args ...string) []string {
		return append([]string{"exec", "--key", "pk_12345678", "--proxy", root.URL}, args...)
	}
	for _, c := range []struct {
		name   string
		args   []string
		status int
	}{
		{"0", with("true"), 0},
		{"1", with("false"), 1},
		{"7", with("--", "sh", "-c", "exit 7"), 7},
		{"no certificates", with("sh", "-c", `test -z "$SSL_CERT_FILE$NODE_EXTRA_CA_CERTS" && test -n "$https_proxy"`), 0},
	} {
		if o := clitest.Run(t, nil, c.args...); o.Status != c.status || o.Stderr != "" {
			t.Errorf("%s: %d, %q", c.name, o.Status, o.Stderr)
		}
	}
	for _, c := range []struct {
		name   string
		args   []string
		status int
		stderr string
	}{
		{"not found", with("no-such-program-anywhere"), 127, "no-such-program-anywhere: not found"},
		{"no such file", with("./no-such-program"), 127, "not found"},
		{"not executable", with(plain), 126, plain},
		{"a folder", with(dir), 126, dir},
		{"no program", with(garbage), 126, garbage},
		{"nothing", with(), 125, "which program?"},
		{"unknown flag", with("--nonsense", "true"), 125, "--nonsense"},
		{"task", with("--task", "a b", "true"), 125, "--task"},
		{"key", []string{"exec", "--key", "short", "true"}, 125, "--key is not an API key"},
		{"empty key", []string{"exec", "--key", "", "true"}, 125, "--key is not an API key"},
		{"proxy", []string{"exec", "--key", "pk_12345678", "--proxy", "127.0.0.1:1", "true"}, 125, "--proxy"},
		{"credentials", []string{"exec", "--key", "pk_12345678", "--proxy", "http://pk_secret@127.0.0.1:1", "true"}, 125, "--proxy takes no credentials"},
		{"nobody there", []string{"exec", "--key", "pk_12345678", "--proxy", "http://127.0.0.1:1", "true"}, 125, "http://127.0.0.1:1"},
		{"no admin", []string{"exec", "true"}, 125, "/purser-admin.sock"},
		{"admin that is off", []string{"exec", "--admin", "off", "true"}, 125, "PURSER_ADMIN"},
		{"admin on TCP", []string{"exec", "--admin", "127.0.0.1:1", "true"}, 125, "127.0.0.1:1"},
		{"not an admin", []string{"exec", "--admin", strings.TrimPrefix(root.URL, "http://"), "true"}, 125, "404"},
		{"not an address", []string{"exec", "--admin", "127.0.0.1:1-5", "true"}, 125, "127.0.0.1:1-5"},
	} {
		o := clitest.Run(t, nil, c.args...)
		if o.Status != c.status || !strings.Contains(o.Stderr, c.stderr) || strings.Contains(o.Stderr, "pk_") || strings.Count(o.Stderr, "\n") != 1 {
			t.Errorf("%s: %d, %q", c.name, o.Status, o.Stderr)
		}
	}
}

// A proxy that does not answer is given up.
func TestExecDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(release) })
	o := clitest.Line{AskTime: 100 * time.Millisecond}.Run(t, "exec", "--key", "pk_12345678", "--proxy", silent.URL, "true")
	if o.Status != 125 || !strings.Contains(o.Stderr, silent.URL) || !strings.Contains(o.Stderr, "exceeded") {
		t.Errorf("%+v", o)
	}
}

// With a key of its own, too, exec finds the purser that runs here, on whatever port. Variables count for
// more, and without an answer there is the default.
func TestExecFindsTheProxy(t *testing.T) {
	t.Parallel()
	at := func(handler http.HandlerFunc) *httptest.Server {
		s := httptest.NewServer(handler)
		t.Cleanup(s.Close)
		return s
	}
	running, named := at(http.NotFound), at(http.NotFound) // proxies that do not intercept
	admin := at(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/purser/status" {
			t.Errorf("asked for %s %s", r.Method, r.URL)
		}
		_, _ = io.WriteString(rw, `{"ok":true,"proxy":"`+running.URL+`"}`)
	})
	host := strings.TrimPrefix
	where := "PURSER_ADMIN=" + host(admin.URL, "http://")
	exec := []string{"exec", "--key", "pk_12345678", "sh", "-c", `test "$https_proxy" = "http://pk_12345678:exec@$1"`, "sh"}
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{[]string{where}, host(running.URL, "http://")},
		{[]string{where, "PURSER_PORT=" + host(named.URL, "http://127.0.0.1:")}, host(named.URL, "http://")},
	} {
		if o := clitest.Run(t, c.environ, append(exec, c.want)...); o.Status != 0 || o.Stderr != "" {
			t.Errorf("%q: %d, %q", c.environ, o.Status, o.Stderr)
		}
	}
	for _, admin := range []string{"127.0.0.1:1", "off", "unix//nowhere/purser.sock"} {
		o := clitest.Run(t, []string{"PURSER_ADMIN=" + admin}, append(exec, "127.0.0.1:8402")...)
		if o.Status != 0 && !strings.Contains(o.Stderr, "no answer from purser at http://127.0.0.1:8402") {
			t.Errorf("%s: %d, %q", admin, o.Status, o.Stderr)
		}
	}
}
