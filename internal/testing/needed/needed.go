// Package needed handles tests on a machine that lacks a program or file.
//
// On a developer's machine such a test is skipped. With CI=true it fails, so that a pipeline cannot
// pass without it.
package needed

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Program returns the path of the first program that PATH has, or calls Missing. hint names the
// package that contains it.
func Program(t testing.TB, hint string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(t, "there is no %s in PATH (%s)", strings.Join(names, " or "), hint)
	return ""
}

// File calls Missing if the file does not exist.
func File(t testing.TB, hint, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		Missing(t, "%v (%s)", err, hint)
	}
}

// Missing skips the test, or fails it if CI is true.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	} else {
		t.Skipf("NOT TESTED: "+format, args...)
	}
}
