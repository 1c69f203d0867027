package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/cli/clitest"
)

// script is a program in a folder.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil { //nolint:gosec // executable on purpose
		t.Fatal(err)
	}
	return path
}

// A user with an old Node is warned once. No other program is asked for its version, and a Node that
// does not tell it runs all the same.
func TestExecWarnsOfOldNodes(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.NotFoundHandler()) // does not intercept
	t.Cleanup(proxy.Close)
	const version = `if [ "$1" = --version ]; then echo `
	for _, c := range []struct {
		name, program, node, warns string
	}{
		{"old", "node", version + `v20.20.2; else echo ran "$@"; fi`, "Node 20.20 does not heed proxies"},
		{"new", "node", version + `v22.21.0; else echo ran "$@"; fi`, ""},
		{"a tool of an old one", "npx", version + "v18.0.0; fi", "Node 18.0"},
		{"silent", "node", `test "$1" = --version || echo ran "$@"`, ""},
		{"fails", "node", `if [ "$1" = --version ]; then echo v18.0.0; exit 1; fi; echo ran "$@"`, ""},
		{"talks on", "node", `if [ "$1" = --version ]; then yes v18.0.0; fi; echo ran "$@"`, ""},
		{"hangs", "node", `if [ "$1" = --version ]; then sleep 20; fi; echo ran "$@"`, ""},
		{"not Node", "other", "exit 9", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			script(t, dir, "node", c.node)
			if c.program != "node" {
				script(t, dir, c.program, `echo ran "$@"`)
			}
			began := time.Now()
			o := patiently(c.warns, func() clitest.Outcome {
				began = time.Now()
				return clitest.Run(t, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, "exec", "--key", "pk_12345678", "--proxy", proxy.URL, "--", c.program, "agent.js")
			})
			if o.Status != 0 || o.Stdout != "ran agent.js\n" || time.Since(began) > 15*time.Second {
				t.Errorf("%d after %s, %q, %q", o.Status, time.Since(began), o.Stdout, o.Stderr)
			}
			if lines := strings.Count(o.Stderr, "\n"); c.warns == "" && lines != 0 || c.warns != "" && (lines != 1 || !strings.Contains(o.Stderr, c.warns)) {
				t.Errorf("%q", o.Stderr)
			}
		})
	}
	// A program with the path of an old one is told of as well, and other programs start no Node.
	marker := filepath.Join(t.TempDir(), "asked")
	dir := t.TempDir()
	node := script(t, dir, "node", "touch "+marker+"; echo v16.1.0")
	o := clitest.Run(t, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, "exec", "--key", "pk_12345678", "--proxy", proxy.URL, "true")
	if _, err := os.Stat(marker); o.Status != 0 || o.Stderr != "" || err == nil {
		t.Errorf("%d, %q, %v", o.Status, o.Stderr, err)
	}
	o = patiently("Node 16.1", func() clitest.Outcome {
		return clitest.Run(t, nil, "exec", "--key", "pk_12345678", "--proxy", proxy.URL, node)
	})
	if o.Status != 0 || strings.Count(o.Stderr, "Node 16.1") != 1 {
		t.Errorf("%d, %q", o.Status, o.Stderr)
	}
}
