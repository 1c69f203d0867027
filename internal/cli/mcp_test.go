package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/cli/clitest"
)

const mcpHello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// conversation is the input of a client that closes it when the last answer has come.
type conversation struct {
	*io.PipeReader
	client *io.PipeWriter
	until  []string // words of all the answers
	said   []byte
}

func newConversation(text string, until ...string) *conversation {
	c := &conversation{until: until}
	c.PipeReader, c.client = io.Pipe()
	go func() { _, _ = io.WriteString(c.client, mcpHello+text) }()
	return c
}

func (c *conversation) Write(p []byte) (int, error) {
	c.said = append(c.said, p...)
	if !slices.ContainsFunc(c.until, func(words string) bool { return !bytes.Contains(c.said, []byte(words)) }) {
		_ = c.client.Close()
	}
	return len(p), nil
}

// `purser mcp` speaks on its streams, and ends with its input.
func TestMCPOnStreams(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/limits" || r.Header.Get("X-Api-Key") != "pk_12345678" {
			http.NotFound(w, r) // nothing is intercepted
			return
		}
		_, _ = w.Write([]byte(`{"door":"proxy","pays":true,"limits":[]}`))
	}))
	t.Cleanup(proxy.Close)
	c := newConversation(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"limits","arguments":{}}}
`, `"id":2`, `"id":3`)
	o := clitest.Line{Stdin: c, Stdout: c}.Run(t, "mcp", "--key", "pk_12345678", "--proxy", proxy.URL)
	if o.Status != 0 || o.Stderr != "" || !strings.Contains(o.Stdout, `"fetch_paid"`) || !strings.Contains(o.Stdout, `\"pays\":true`) {
		t.Errorf("%+v", o)
	}
	for line := range strings.Lines(o.Stdout) {
		if !json.Valid([]byte(line)) || strings.Contains(line, "pk_12345678") {
			t.Errorf("printed %s", line)
		}
	}
}

// An agent may start before purser does: then the tools say that it does not answer.
func TestMCPBeforePurser(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"limits","arguments":{}}}` + "\n"
	for want, args := range map[string][]string{
		"no answer from purser at http://" + l.Addr().String(): {"mcp", "--key", "pk_12345678", "--proxy", "http://" + l.Addr().String()},
		"no answer from purser's admin endpoint":               {"mcp"},
	} {
		c := newConversation(call, `"isError"`)
		o := clitest.Line{Stdin: c, Stdout: c}.Run(t, args...)
		if o.Status != 0 || !strings.Contains(o.Stderr, want) || !strings.Contains(o.Stdout, want) || !strings.Contains(o.Stdout, `"isError":true`) {
			t.Errorf("%q: %+v", args, o)
		}
	}
}

func TestMCPConfiguration(t *testing.T) {
	t.Parallel()
	strict := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/limits" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(strict.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "agent.key")
	if err := os.WriteFile(file, []byte("not a key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		stderr string
		args   []string
	}{
		{"--listen \"0.0.0.0:0\" is not an address of loopback", []string{"--listen", "0.0.0.0:0"}},
		{"need --allow-remote", []string{"--listen", ":8410"}},
		{"--allow-remote is for --listen", []string{"--allow-remote"}},
		{"--max-body", []string{"--max-body", "0"}},
		{"--key-file is not an API key", []string{"--key-file", file}},
		{"no such file", []string{"--key-file", filepath.Join(dir, "none")}},
		{"not both", []string{"--key", "pk_12345678", "--key-file", file}},
		{"--task", []string{"--task", "a b"}},
		{"--proxy takes no credentials", []string{"--proxy", "http://pk_secret@127.0.0.1:1"}},
		{"takes no arguments", []string{"serve"}},
		{"purser does not know the key", []string{"--key", "pk_12345678", "--proxy", strict.URL}},
	} {
		o := clitest.Run(t, nil, append([]string{"mcp"}, c.args...)...)
		if o.Status != 1 || o.Stdout != "" || !strings.Contains(o.Stderr, c.stderr) || strings.Contains(o.Stderr, "pk_") || strings.Count(o.Stderr, "\n") != 1 {
			t.Errorf("%q: %+v", c.args, o)
		}
	}
}

// A wrapped server has its streams, its exit status and a clean environment. purser may be away.
func TestMCPRun(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	script := `echo to people >&2; read line; echo "$line"; env | grep -c SECRET; exit 5`
	o := clitest.Line{Stdin: strings.NewReader("{\"id\":1}\n"), Environ: []string{"PURSER_SECRET=1", "KEPT_SECRET=1"}}.Run(t,
		"mcp", "run", "--key", "pk_12345678", "--proxy", gone.URL, "--", "sh", "-c", script)
	if o.Status != 5 || o.Stdout != "{\"id\":1}\n1\n" || !strings.Contains(o.Stderr, "to people\n") || !strings.Contains(o.Stderr, "no answer from purser at "+gone.URL) {
		t.Errorf("%+v", o)
	}
	for want, line := range map[int][]string{
		128 + 15: {"kill -TERM $$"},
		0:        {"cat > /dev/null"}, // until the input ends
		3:        {"exec 1>&-; read line; exit 3"},
	} {
		o := clitest.Run(t, nil, append([]string{"mcp", "run", "--key", "pk_12345678", "--proxy", gone.URL, "--", "sh", "-c"}, line...)...)
		if o.Status != want || o.Stdout != "" {
			t.Errorf("%q: %+v", line, o)
		}
	}
	for _, c := range []struct {
		status int
		stderr string
		args   []string
	}{
		{125, "which server?", nil},
		{125, "--name", []string{"--name", "Weather!", "sh"}},
		{125, "--keep-env", []string{"--keep-env", "A=B", "sh"}},
		{125, "--key-file", []string{"--key-file", "none", "sh"}},
		{127, "mcp run: no-such-program: not found", []string{"no-such-program"}},
	} {
		o := clitest.Run(t, nil, append([]string{"mcp", "run"}, c.args...)...)
		if o.Status != c.status || o.Stdout != "" || !strings.Contains(o.Stderr, c.stderr) {
			t.Errorf("%q: %+v", c.args, o)
		}
	}
}
