package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
)

// composed is the environment that deploy/compose.yaml gives purser, with a secret of its own in
// each file and nothing in the variables that its user sets.
func composed(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, service, found := strings.Cut(string(text), "\n  purser:\n")
	_, block, found2 := strings.Cut(service, "\n    environment:\n")
	block, _, found3 := strings.Cut(block, "\n    healthcheck:")
	if !found || !found2 || !found3 {
		t.Fatal("deploy/compose.yaml has no environment of purser where it was")
	}
	dir := t.TempDir()
	reference := regexp.MustCompile(`^\$\{[A-Z_]+:(-?)([^}]*)\}$`)
	var environ []string
	for line := range strings.SplitSeq(block, "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("%q", line)
		}
		value = strings.Trim(value, `"`)
		switch m := reference.FindStringSubmatch(value); {
		case strings.HasPrefix(value, "/run/secrets/"):
			value = filepath.Join(dir, filepath.Base(value))
			if err := os.WriteFile(value, []byte("pk_of-the-user\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		case m != nil && m[1] == "-":
			value = m[2]
		case m != nil:
			value = "http://127.0.0.1:9" // which the user must set
		}
		environ = append(environ, name+"="+value)
	}
	if !slices.Contains(environ, "PURSER_MAX_PAYMENT=1") || !slices.Contains(environ, "PURSER_DAILY_BUDGET=10") || !slices.Contains(environ, "PURSER_REGISTRATION=off") {
		t.Fatalf("%q", environ)
	}
	return environ
}

// deploy/compose.yaml gives an agent PURSER_KEY. The limits that it sets hold for that key at
// every door, it gets one authorization for a request however often that is refused, and neither it
// nor a stranger keeps the others from paying.
func TestAttackOnTheComposeFile(t *testing.T) {
	t.Parallel()
	binary := process.Program(t, process.Plain)
	want := []string{
		"price-above-limit", "daily-budget", "limits-on-rest", "shared-budget", "wrong-amount", "endless-challenge", "refused-and-sent",
		"uploads", "registration", "failing-flood",
	}
	var only []string
	for _, name := range want {
		only = append(only, "--only", name)
	}
	e, status := examine(t, binary, append(composed(t), "PURSER_BIND=0.0.0.0"), only...) // as the image listens
	held := e.names("ok")
	slices.Sort(held)
	slices.Sort(want)
	if status != 0 || !slices.Equal(held, want) {
		t.Errorf("status %d: %+v", status, e.Findings)
	}
	for _, f := range e.Findings {
		if f.Attack == "limits-on-rest" && !strings.Contains(f.Says, "PURSER_KEY") {
			t.Errorf("%s", f.Says)
		}
	}
}
