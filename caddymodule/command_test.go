package caddymodule

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/needed"
	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

// outcome is what a command came to.
type outcome struct {
	stdout, stderr string
	state          *os.ProcessState
}

func (o outcome) status() int { return o.state.ExitCode() }

// command runs this test program as purser's command line, in a folder of its own and with
// nothing else in its environment.
func command(t *testing.T, environ []string, args ...string) (o outcome) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	dir := t.TempDir()
	c.Dir = dir
	c.Env = append([]string{
		asCommand + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_CACHE_HOME=" + filepath.Join(dir, "cache"),
	}, environ...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{stdout: stdout.String(), stderr: stderr.String(), state: c.ProcessState}
}

// patiently runs a command, and once more if it did not say what is wanted: it gives what it asks
// little time, which a busy machine may take.
func patiently(want string, run func() outcome) outcome {
	o := run()
	if !strings.Contains(o.stdout+o.stderr, want) {
		o = run()
	}
	return o
}

// commandSite is a running purser for commands, with a seller over TLS behind it.
func commandSite(t *testing.T) (s *site, admin string, seller *httptest.Server) {
	t.Helper()
	seller, trust := tlsSeller(t)
	s = intercepting(t, trust, "")
	socket, _ := adminSite(t, s)
	return s, "--admin=unix/" + socket, seller
}

func TestExecKeepsPursersVariables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		environ []string
		anyCase bool
		want    string
	}{
		{
			"all of purser's", []string{
				"PURSER_MASTER_KEY=x", "PURSER_KEY_FILE=x", "CDP_API_KEY_ID=x", "CDP_API_KEY_SECRET=x", "CDP_API_KEY_SECRET_FILE=x",
				"CDP_WALLET_SECRET=x", "CDP_WALLET_SECRET_FILE=x", "PATH=/bin", "A=PURSER_KEY",
			}, false, "[PATH=/bin A=PURSER_KEY]",
		},
		{"the program's database", []string{"DATABASE_URL=x", "PURSER_STORE=bolt"}, false, "[DATABASE_URL=x]"},
		{
			"purser's database",
			[]string{"DATABASE_URL=x", "DATABASE_URL_FILE=x", "DATABASE_URLS=x", "PURSER_STORE= postgres"},
			false,
			"[DATABASE_URLS=x]",
		},
		{"capitals matter", []string{"purser_x=1", "Cdp_x=1"}, false, "[purser_x=1 Cdp_x=1]"},
		{"capitals do not", []string{"Purser_Store=postgres", "cdp_x=1", "Database_Url=x", "Path=x"}, true, "[Path=x]"},
	} {
		if got := fmt.Sprint(withoutOwn(c.environ, c.anyCase)); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

func TestExecRuns(t *testing.T) {
	s, admin, seller := commandSite(t)
	key := newKey(t, s.url())
	url := httpsURL(seller)
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"exec key", []string{admin}, ":exec@"},
		{"exec key and task", []string{admin, "--task", "t-1", "--"}, ":t-1@"},
		{"key", []string{"--key", key, "--proxy", s.url()}, "http://" + key + ":exec@" + strings.TrimPrefix(s.url(), "http://")},
		{"key that needs escaping", []string{"--key", "pk_a+b/c=d", "--proxy", s.url() + "/"}, "http://pk_a%2Bb%2Fc%3Dd:exec@"},
	} {
		o := command(t, []string{"KEPT=yes", "PURSER_MASTER_KEY=secret"}, append(append([]string{"exec"}, c.args...),
			"sh", "-c", `echo "$HTTPS_PROXY $KEPT$PURSER_MASTER_KEY $1"; grep -c "BEGIN CERTIFICATE" "$NODE_EXTRA_CA_CERTS"; exit 7`, "sh", "--key")...)
		if o.status() != 7 || !strings.Contains(o.stdout, c.want) || !strings.Contains(o.stdout, " yes --key\n1\n") {
			t.Errorf("%s: %s, %q, %q", c.name, o.state, o.stdout, o.stderr)
		}
		if asked := strings.Contains(o.stderr, "payments come from 0x"); asked != (c.args[0] == admin) {
			t.Errorf("%s: asked for money: %t, %q", c.name, asked, o.stderr)
		}
	}
	curl := needed.Program(t, "Debian: apt-get install curl", "curl")
	for _, flags := range [][]string{{admin}, {"--key", key, "--proxy", s.url()}} {
		o := command(t, nil, append(append([]string{"exec"}, flags...), curl, "-sS", url)...)
		if o.status() != 0 || !strings.HasPrefix(o.stdout, "paid, Host example.com") {
			t.Errorf("%s, %q, %q", o.state, o.stdout, o.stderr)
		}
	}
}

// execHere is `purser exec` in this process. It must fail, or this process is gone.
func execHere(t *testing.T, args ...string) (status int, stderr string) {
	t.Helper()
	c := &cobra.Command{Use: "exec"}
	execCommand(c)
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	c.SetErr(&b)
	c.SetContext(t.Context())
	status = runExec(c, c.Flags().Args())
	return status, b.String()
}

func TestExecExits(t *testing.T) {
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
		if o := command(t, nil, c.args...); o.status() != c.status || o.stderr != "" {
			t.Errorf("%s: %s, %q", c.name, o.state, o.stderr)
		}
	}
	if o := command(t, nil, with("--nonsense", "true")...); o.status() != 125 || !strings.Contains(o.stderr, "--nonsense") {
		t.Errorf("unknown flag: %s, %q", o.state, o.stderr)
	}
	if o := command(t, nil, with("no-such-program-anywhere")...); o.status() != 127 {
		t.Errorf("not found: %s, %q", o.state, o.stderr)
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
		status, stderr := execHere(t, c.args[1:]...)
		if status != c.status || !strings.Contains(stderr, c.stderr) || strings.Contains(stderr, "pk_") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: %d, %q", c.name, status, stderr)
		}
	}
	// A signal is the program's own, and so is its end by one.
	o := command(t, nil, with("sh", "-c", "kill -TERM $$")...)
	if s, ok := o.state.Sys().(syscall.WaitStatus); !ok || !s.Signaled() || s.Signal() != syscall.SIGTERM {
		t.Errorf("%s, %q", o.state, o.stderr)
	}
}

// What does not answer is given up.
func TestExecDoesNotWaitForEver(t *testing.T) {
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(release) })
	began := time.Now()
	status, stderr := execHere(t, "--key", "pk_12345678", "--proxy", silent.URL, "true")
	if status != 125 || !strings.Contains(stderr, silent.URL) || time.Since(began) > 4*askTime {
		t.Errorf("%d after %s, %q", status, time.Since(began), stderr)
	}
}

func TestEnv(t *testing.T) {
	s, admin, _ := commandSite(t)
	key := newKey(t, s.url())
	o := command(t, nil, "env", "--key", key, "--proxy", s.url())
	if o.status() != 0 || !strings.Contains(o.stdout, "export HTTPS_PROXY='http://"+key+":exec@") || !strings.Contains(o.stdout, "export SSL_CERT_FILE='/") || o.stderr != "" {
		t.Errorf("%s, %q, %q", o.state, o.stdout, o.stderr)
	}
	o = command(t, []string{"NO_PROXY=a.example"}, "env", admin, "--shell", "json", "--task", "t")
	if o.status() != 0 || !strings.Contains(o.stdout, `"NO_PROXY": "a.example,`+strings.TrimPrefix(s.url(), "http://")+`"`) || !strings.Contains(o.stderr, "fund") {
		t.Errorf("%s, %q, %q", o.state, o.stdout, o.stderr)
	}
	// Nothing is printed that would be taken for an environment.
	for _, args := range [][]string{{"--shell", "cmd"}, {"--admin", "127.0.0.1:1"}, {"more"}} {
		if o := command(t, nil, append([]string{"env"}, args...)...); o.status() != 1 || o.stdout != "" || o.stderr == "" {
			t.Errorf("%q: %s, %q, %q", args, o.state, o.stdout, o.stderr)
		}
	}
	o = command(t, nil, "env", "--help")
	if o.status() != 0 || !strings.Contains(o.stdout, "unset HTTP_PROXY") {
		t.Errorf("%s", o.stdout)
	}
}

// The defaults of the shipped Caddyfile are those of the commands.
func TestDefaultProxyURL(t *testing.T) {
	for _, c := range []struct{ bind, port, want string }{
		{"", "", "http://127.0.0.1:8402"},
		{"127.0.0.9", "9000", "http://127.0.0.9:9000"},
		{"0.0.0.0", "", "http://127.0.0.1:8402"},
		{"::", "", "http://[::1]:8402"},
		{"::1", "1", "http://[::1]:1"},
		{"purser.example", "", "http://purser.example:8402"},
		{"a/b", "", ""},
		{"", "x", ""},
	} {
		t.Setenv("PURSER_BIND", c.bind)
		t.Setenv("PURSER_PORT", c.port)
		u, err := defaultProxyURL()
		if got := fmt.Sprint(u); err == nil && got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %v, %v", c, u, err)
		}
	}
	text := shipped(t)
	for _, part := range []string{"{$PURSER_PORT:" + defaultPort + "}", "{$PURSER_BIND:" + defaultBind + "}", "{$PURSER_ADMIN:" + defaultAdmin + "|0600}"} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is not in the shipped Caddyfile", part)
		}
	}
}

func TestNotice(t *testing.T) {
	t.Parallel()
	address, zero, some := "0xabc", "0", "1"
	for want, e := range map[string]adminapi.Exec{
		"":               {Address: &address, Balance: &some},
		"balance is 0":   {Address: &address, Balance: &zero, Network: "base"},
		"not known":      {Address: &address, Network: "base"},
		"PURSER_WALLETS": {},
	} {
		got := fundNotice(e)
		if (got == "") != (want == "") || !strings.Contains(got, want) || want != "" && e.Address != nil && !strings.Contains(got, address) {
			t.Errorf("%+v: %q", e, got)
		}
	}
}

func TestStatusCommand(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	o := command(t, []string{"PURSER_ADMIN=unix/" + socket + "|0600"}, "status")
	if o.status() != 0 || !strings.Contains(o.stdout, Version()) || !strings.Contains(o.stdout, s.dir) || o.stderr != "" {
		t.Errorf("%s, %q, %q", o.state, o.stdout, o.stderr)
	}
	if o := command(t, nil, "status"); o.status() != 1 || !strings.Contains(o.stderr, "is purser running") || o.stdout != "" {
		t.Errorf("%s, %q, %q", o.state, o.stdout, o.stderr)
	}
}
