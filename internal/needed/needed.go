// Package needed says what becomes of a test on a machine that lacks something it runs.
//
// On a developer's machine the test is skipped. With CI=true it fails, so that no pipeline passes
// without having tested what it is there to test.
package needed

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Program returns the path of the first of some programs that PATH has, else calls Missing.
// hint names the package that has it.
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

// File calls Missing unless a file is there.
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
	}
	t.Skipf("NOT TESTED: "+format, args...)
}
