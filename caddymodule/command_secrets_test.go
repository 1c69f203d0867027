package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// References in purser.env are resolved by the server alone, which does not start without the secret. A reload resolves
// them again, and the commands that work on a stopped purser's database do.
func TestSecretsCommand(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	bin, asked := filepath.Join(w.dir, "bin"), filepath.Join(w.dir, "asked")
	key, fake := strings.Repeat("4b", 32), filepath.Join(bin, "op")
	secrets := func(master string) {
		t.Helper()
		text := "#!/bin/sh\necho \"$*\" >> " + asked + "\ncase \"$2\" in\n*/master) echo " + master + " ;;\n*/agent) echo pk_0123456789abcdef ;;\n*) echo \"no item\" >&2; exit 1 ;;\nesac\n"
		if err := os.MkdirAll(bin, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(fake, []byte(text), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	count := func() int {
		text, err := os.ReadFile(asked)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
	path := "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")
	secrets(key)
	file := []string{"PURSER_SECRETS_COMMAND=op read", "PURSER_MASTER_KEY=op://vault/purser/master", "PURSER_KEY=op://vault/purser/agent"}

	// It fails closed, in words that name the variable.
	for change, want := range map[string]string{
		"PURSER_KEY=op://vault/purser/none":    "PURSER_KEY): is a reference that begins with op://, and the command of PURSER_SECRETS_COMMAND failed (exit status 1)",
		"PURSER_SECRETS_COMMAND=":              "PURSER_SECRETS_COMMAND, which resolves it, is not set",
		"PURSER_SECRETS_COMMAND=no-such-thing": "cannot be run",
	} {
		w.variables(t, append(file, change)...)
		c := w.prepare(t, "run")
		c.Env = append(c.Env, path)
		o := finish(t, c)
		if o.Status == 0 || !strings.Contains(o.Stderr, want) || strings.Contains(o.Stderr, key) {
			t.Errorf("%s: %d, %s", change, o.Status, o.Stderr)
		}
	}
	w.variables(t, file...)
	c := w.prepare(t, "run")
	c.Env = append(c.Env, path)
	before := count()
	s := w.start(t, c)
	if n := count() - before; n == 0 || n > 4 {
		t.Errorf("a start has asked %d times", n)
	}

	// The commands that ask the server need no secret.
	before = count()
	for _, args := range [][]string{{"status"}, {"keys"}, {"doctor"}, {"limits", "--json=-", "none", "--dry-run"}, {"exec", "true"}} {
		c := w.prepare(t, args...)
		c.Env = append(c.Env, path)
		if o := finish(t, c); strings.Contains(o.Stdout+o.Stderr, key) {
			t.Errorf("%v tells the secret", args)
		}
	}
	if n := count() - before; n != 0 {
		t.Errorf("commands have asked %d times", n)
	}
	before = count()
	said(t, w.do(t, "reload"), 0, "no variable has changed", "")
	if count() == before {
		t.Error("a reload has not asked")
	}
	said(t, w.do(t, "stop"), 0, "Stopped", "")
	<-s.ended
	if text := s.said(); strings.Contains(text, key) {
		t.Errorf("the log has the secret: %s", text)
	}

	check := func() string {
		c := w.prepare(t, "check", "--data-dir", "purser-data")
		c.Env = append(c.Env, path)
		o := finish(t, c)
		return o.Stdout + o.Stderr
	}
	if text := check(); !strings.Contains(text, "faults") || strings.Contains(text, "not tried") || !strings.Contains(text, "none") {
		t.Errorf("check: %s", text)
	}
	secrets(strings.Repeat("4c", 32))
	if text := check(); strings.Contains(text, strings.Repeat("4c", 32)) || !strings.Contains(text, "master key") {
		t.Errorf("check with another key: %s", text)
	}
}
