package caddymodule

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/internal/testing/needed"
)

// process runs this test program as purser's command line, in a folder of its own and with
// nothing else in its environment.
func process(t *testing.T, environ []string, args ...string) clitest.Outcome {
	t.Helper()
	return finish(t, inFolder(t, t.TempDir(), environ, args...))
}

// inFolder prepares a command in a folder that stays.
func inFolder(t *testing.T, dir string, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Dir = dir
	c.Env = append([]string{
		asCommand + "=purser", "PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_CACHE_HOME=" + filepath.Join(dir, "cache"),
	}, environ...)
	return c
}

// finish runs a command to its end.
func finish(t *testing.T, c *exec.Cmd) clitest.Outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		if _, is := errors.AsType[*exec.ExitError](err); !is {
			t.Fatal(err)
		}
	}
	return clitest.Outcome{Stdout: stdout.String(), Stderr: stderr.String(), Status: c.ProcessState.ExitCode()}
}

// commandSite is a running purser for commands, with a seller over TLS behind it.
func commandSite(t *testing.T) (s *site, admin string, seller *httptest.Server) {
	t.Helper()
	seller, trust := tlsSeller(t)
	s = intercepting(t, trust, "")
	socket, _ := adminSite(t, s)
	return s, "--admin=unix/" + socket, seller
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
		o := clitest.Run(t, []string{"KEPT=yes", "PURSER_MASTER_KEY=secret"}, append(append([]string{"exec"}, c.args...),
			"sh", "-c", `echo "$HTTPS_PROXY $KEPT$PURSER_MASTER_KEY $1"; grep -c "BEGIN CERTIFICATE" "$NODE_EXTRA_CA_CERTS"; exit 7`, "sh", "--key")...)
		if o.Status != 7 || !strings.Contains(o.Stdout, c.want) || !strings.Contains(o.Stdout, " yes --key\n1\n") {
			t.Errorf("%s: %d, %q, %q", c.name, o.Status, o.Stdout, o.Stderr)
		}
		if asked := strings.Contains(o.Stderr, "payments come from 0x"); asked != (c.args[0] == admin) {
			t.Errorf("%s: asked for money: %t, %q", c.name, asked, o.Stderr)
		}
	}
	curl := needed.Program(t, "Debian: apt-get install curl", "curl")
	for _, flags := range [][]string{{admin}, {"--key", key, "--proxy", s.url()}} {
		o := clitest.Run(t, nil, append(append([]string{"exec"}, flags...), curl, "-sS", url)...)
		if o.Status != 0 || !strings.HasPrefix(o.Stdout, "paid, Host example.com") {
			t.Errorf("%d, %q, %q", o.Status, o.Stdout, o.Stderr)
		}
	}
}

// The process ends with the status of its command, and tells a mistake in one line.
func TestProcessExits(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		"status": 1, "status x": 1, "keys --nonsense": 1, "keys create x": 1, "exec": 125, "exec --nonsense": 125, "exec --key pk_12345678 --proxy http://127.0.0.1:1 true": 125,
		"exec no-such-program-anywhere": 127, "doctor x": 2, "doctor --nonsense": 2,
	} {
		if o := process(t, nil, strings.Fields(line)...); o.Status != want || strings.Count(o.Stderr, "\n") != 1 || !strings.HasPrefix(o.Stderr, "purser: ") {
			t.Errorf("%s: %+v", line, o)
		}
	}
	proxy := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(proxy.Close)
	with := []string{"exec", "--key", "pk_12345678", "--proxy", proxy.URL, "sh", "-c"}
	if o := process(t, nil, append(with, "exit 7")...); o.Status != 7 || o.Stderr != "" {
		t.Errorf("%+v", o)
	}
	// A signal is the program's own, and so is its end by one.
	c := inFolder(t, t.TempDir(), nil, append(with, "kill -TERM $$")...)
	o := finish(t, c)
	if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || !s.Signaled() || s.Signal() != syscall.SIGTERM {
		t.Errorf("%s, %q", c.ProcessState, o.Stderr)
	}
}

func TestEnv(t *testing.T) {
	s, admin, _ := commandSite(t)
	key := newKey(t, s.url())
	o := clitest.Run(t, nil, "env", "--key", key, "--proxy", s.url())
	if o.Status != 0 || !strings.Contains(o.Stdout, "export HTTPS_PROXY='http://"+key+":exec@") || !strings.Contains(o.Stdout, "export SSL_CERT_FILE='/") || o.Stderr != "" {
		t.Errorf("%d, %q, %q", o.Status, o.Stdout, o.Stderr)
	}
	o = clitest.Run(t, []string{"NO_PROXY=a.example"}, "env", admin, "--shell", "json", "--task", "t")
	if o.Status != 0 || !strings.Contains(o.Stdout, `"NO_PROXY": "a.example,`+strings.TrimPrefix(s.url(), "http://")+`"`) || !strings.Contains(o.Stderr, "fund") {
		t.Errorf("%d, %q, %q", o.Status, o.Stdout, o.Stderr)
	}
	// Nothing is printed that would be taken for an environment.
	for _, args := range [][]string{{"--shell", "cmd"}, {"--admin", "127.0.0.1:1"}, {"more"}} {
		if o := clitest.Run(t, nil, append([]string{"env"}, args...)...); o.Status != 1 || o.Stdout != "" || o.Stderr == "" {
			t.Errorf("%q: %d, %q, %q", args, o.Status, o.Stdout, o.Stderr)
		}
	}
	o = clitest.Run(t, nil, "env", "--help")
	if o.Status != 0 || !strings.Contains(o.Stdout, "unset HTTP_PROXY") {
		t.Errorf("%s", o.Stdout)
	}
}

func TestStatusCommand(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	o := clitest.Run(t, []string{"PURSER_ADMIN=unix/" + socket + "|0600"}, "status")
	if o.Status != 0 || !strings.Contains(o.Stdout, Version()) || !strings.Contains(o.Stdout, s.dir) || o.Stderr != "" {
		t.Errorf("%d, %q, %q", o.Status, o.Stdout, o.Stderr)
	}
	if o := clitest.Run(t, nil, "status"); o.Status != 1 || !strings.Contains(o.Stderr, "is purser running") || o.Stdout != "" {
		t.Errorf("%d, %q, %q", o.Status, o.Stdout, o.Stderr)
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
