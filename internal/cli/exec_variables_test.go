package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/cli/clitest"
)

// installed is a folder with a configuration, one that it imports, and variables.
func installed(t *testing.T, variables string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Caddyfile": "{\n\tpurser {\n\t\tstore postgres {\n\t\t\turl {env.LEDGER}\n\t\t}\n\t\trpc_url {env.NODE_TOKEN}\n\t\tdata_dir {env.HOME}/purser\n\t}\n}\nimport sites/*\n",
		"sites/a":   "http://:{$SITE_PORT:8402} {\n\tbasic_auth {\n\t\tadmin {env.SITE_HASH}\n\t}\n}\n",
		"sites/b":   "import {$NOWHERE}\nimport ../Caddyfile\n", "purser.env": variables,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// child runs a program by exec and returns its variables that are asked for, NAME=value, sorted.
func child(t *testing.T, l clitest.Line, args []string, names ...string) string {
	t.Helper()
	o := l.Run(t, append(append([]string{"exec"}, args...), "env")...)
	if o.Status != 0 {
		t.Fatalf("%d, %q", o.Status, o.Stderr)
	}
	var found []string
	for entry := range strings.Lines(o.Stdout) {
		if name, _, _ := strings.Cut(entry, "="); slices.Contains(names, name) {
			found = append(found, strings.TrimSpace(entry))
		}
	}
	slices.Sort(found)
	return strings.Join(found, " ")
}

// An agent gets none of the credentials of the installation, wherever they and the choice of the store
// come from.
func TestExecWithholdsWhatTheInstallationUses(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(proxy.Close)
	key := []string{"--key", "pk_12345678", "--proxy", proxy.URL}
	names := []string{
		"DATABASE_URL", "DATABASE_URL_FILE", "PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "PURSER_STORE", "PURSER_WEBHOOKS", "CDP_WALLET_SECRET",
		"LEDGER", "LEDGER_FILE", "NODE_TOKEN", "SITE_HASH", "SITE_PORT", "MAIL_TOKEN", "OTEL_EXPORTER_OTLP_HEADERS", "MINE",
	}
	var environ []string
	for _, name := range names {
		environ = append(environ, name+"=s3cret")
	}
	for _, store := range []string{"PURSER_STORE=postgres\n", "PURSER_STORE=bolt\n", ""} {
		// A service manager may have read the same file, so MAIL_TOKEN is purser's.
		l := clitest.Line{Dir: installed(t, store+"MAIL_TOKEN=s3cret\nFROM_FILE=x\n"), Environ: environ}
		if got := child(t, l, key, append(names, "FROM_FILE")...); got != "MINE=s3cret" {
			t.Errorf("%q: the program has %s", store, got)
		}
		if got := child(t, l, key, "HOME", "PATH"); !strings.HasPrefix(got, "HOME="+l.Dir+" PATH=") {
			t.Errorf("a reference has taken away what every program has: %s", got)
		}
		keep := append(slices.Clone(key), "--keep-env", "DATABASE_URL", "--keep-env", "FROM_FILE", "--keep-env=UNSET", "--keep-env", "MINE", "--keep-env", "HTTPS_PROXY")
		if got := child(t, l, keep, append(names, "FROM_FILE", "UNSET")...); got != "DATABASE_URL=s3cret FROM_FILE=x MINE=s3cret" {
			t.Errorf("%q: the program that is to have them has %s", store, got)
		}
	}
	for _, name := range []string{"", "A=b", "A B"} {
		if o := clitest.Run(t, nil, append(append([]string{"exec", "--keep-env", name}, key...), "true")...); o.Status != 125 || !strings.Contains(o.Stderr, "--keep-env") {
			t.Errorf("%q: %+v", name, o)
		}
	}
}

// The purser that pays may run elsewhere, with a configuration that came from no file.
func TestExecWithholdsWhatTheServerUses(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(proxy.Close)
	admin := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/purser/exec":
			fmt.Fprintf(rw, `{"key":"pk_12345678","key_id":"1","address":"0x1","balance":"1","network":"base","proxy":%q,"variables":["OF_THE_FILE"]}`, proxy.URL)
		case "/purser/status":
			_, _ = io.WriteString(rw, `{"ok":true,"variables":["OF_THE_FILE"]}`)
		case "/config/":
			_, _ = io.WriteString(rw, `{"apps":{"purser":{"rpc_url":"{env.LOADED}"}}}`)
		default:
			t.Errorf("asked for %s %s", r.Method, r.URL)
		}
	}))
	t.Cleanup(admin.Close)
	l := clitest.Line{Environ: []string{"PURSER_ADMIN=" + strings.TrimPrefix(admin.URL, "http://"), "OF_THE_FILE=x", "LOADED=x", "MINE=x"}}
	if got := child(t, l, nil, "OF_THE_FILE", "LOADED", "MINE", "PURSER_ADMIN"); got != "MINE=x" {
		t.Errorf("with the exec key: %s", got)
	}
	if got := child(t, l, []string{"--key", "pk_12345678", "--proxy", proxy.URL}, "OF_THE_FILE", "MINE", "PURSER_ADMIN"); got != "MINE=x" {
		t.Errorf("with a key: %s", got)
	}
}

// A shell keeps its own variables, so its user is told of those that programs get from it.
func TestEnvNamesWhatTheShellHandsOn(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(proxy.Close)
	for _, c := range []struct{ environ, want string }{
		{"DATABASE_URL=x PGPASSWORD=x PURSER_DAILY_BUDGET=1 LEDGER=x MINE=x", "withholds: DATABASE_URL, LEDGER, PGPASSWORD\n"},
		{"PURSER_DAILY_BUDGET=1 MINE=x", ""},
	} {
		o := clitest.Line{Dir: installed(t, ""), Environ: strings.Fields(c.environ)}.Run(t, "env", "--key", "pk_12345678", "--proxy", proxy.URL)
		if o.Status != 0 || !strings.HasSuffix(o.Stderr, c.want) || strings.Contains(o.Stdout, "DATABASE") || c.want == "" && o.Stderr != "" {
			t.Errorf("%+v", o)
		}
	}
}
