package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNodeAdvice(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"v20.20.2\n": "does not heed", "v22.20.9": "does not heed", "v23.11.0": "does not heed", "v8.0.0": "does not heed",
		"v24.0.0": "fetch only", "v24.4.1": "fetch only",
		"v22.21.0": "", "v22.22.1": "", "v24.5.0": "", "v25.0.0-nightly": "", "v26.5.1": "",
	} {
		major, minor, ok := readNodeVersion(text)
		if got := nodeAdvice(major, minor); !ok || (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %t, %q", text, ok, got)
		}
	}
	for _, text := range []string{"", "v", "20.1.2", "v20", "v20.1", "vx.y.z", "v-1.2.3", "usage: v1.2.3.4", "v1.2.3.4", "v99999999999999999999.1.0"} {
		if _, _, ok := readNodeVersion(text); ok {
			t.Errorf("%q is a version", text)
		}
	}
}

// script is a program in a folder.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil { //nolint:gosec // executable on purpose
		t.Fatal(err)
	}
	return path
}

// Whoever runs an old Node is told once; nothing else is asked for its version, and what does
// not say it is run all the same.
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
			o := patiently(c.warns, func() outcome {
				began = time.Now()
				return command(t, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, "exec", "--key", "pk_12345678", "--proxy", proxy.URL, "--", c.program, "agent.js")
			})
			if o.status() != 0 || o.stdout != "ran agent.js\n" || time.Since(began) > 15*time.Second {
				t.Errorf("%s after %s, %q, %q", o.state, time.Since(began), o.stdout, o.stderr)
			}
			if lines := strings.Count(o.stderr, "\n"); c.warns == "" && lines != 0 || c.warns != "" && (lines != 1 || !strings.Contains(o.stderr, c.warns)) {
				t.Errorf("%q", o.stderr)
			}
		})
	}
	// A program with the path of an old one is told of as well, and other programs start no Node.
	marker := filepath.Join(t.TempDir(), "asked")
	dir := t.TempDir()
	node := script(t, dir, "node", "touch "+marker+"; echo v16.1.0")
	o := command(t, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, "exec", "--key", "pk_12345678", "--proxy", proxy.URL, "true")
	if _, err := os.Stat(marker); o.status() != 0 || o.stderr != "" || err == nil {
		t.Errorf("%s, %q, %v", o.state, o.stderr, err)
	}
	o = patiently("Node 16.1", func() outcome { return command(t, nil, "exec", "--key", "pk_12345678", "--proxy", proxy.URL, node) })
	if o.status() != 0 || strings.Count(o.stderr, "Node 16.1") != 1 {
		t.Errorf("%s, %q", o.state, o.stderr)
	}
}
