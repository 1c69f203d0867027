package environment

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		name  string
		value any
		want  string // of the error; "": the value is found
	}{
		{"env.A", "1", ""},
		{"env.A", "", "{env.A} is empty or not set"},
		{"env.A", "\t\n", "{env.A} is empty or not set"},
		{"system.hostname", "h", ""},
		{"time.now.year", 2026, ""},
		{"time.now", time.Time{}, ""},
		{"system.wd", "", "{system.wd} is empty"},
		{"http.request.host", nil, "{http.request.host} is nothing that is known when purser starts"},
		{"file." + dir + "/none", nil, "cannot be read: open " + dir + "/none: no such file or directory"},
		{"file." + dir, nil, "is a directory"},
		{"file./dev/null", nil, "{file./dev/null} cannot be read"},
		{"file./x", " ", "{file./x} is empty"},
		{"file./x", "s", ""},
	} {
		got, err := Referenced(c.name, c.value)
		of, is := errors.AsType[*ReferenceError](err)
		if (err == nil) != (c.want == "") || err == nil && got != c.value || err != nil && (!is || !strings.Contains(err.Error(), c.want) || of.Reference != "{"+c.name+"}") {
			t.Errorf("%s %v: %v, %v", c.name, c.value, got, err)
		}
	}
	for _, c := range []struct {
		written, value string
		whole          bool
	}{
		{"{env.A}", "x", true},
		{"{env.A}-{env.B}", "x-y", true},
		{`\{`, "{", true},
		{"{env.A", "{env.A", false},
		{"{env.A}{file./x", "x{file./x", false},
		{" ", " ", false},
	} {
		if err := CheckReferences(c.written, c.value); (err == nil) != c.whole {
			t.Errorf("%q: %v", c.written, err)
		}
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct{ name, text, want, refused string }{
		{"good", " s3cret\n", "s3cret", ""},
		{"blank", " \n", "", "is empty"},
		{"large", "s3cret" + strings.Repeat("x", MaxSecret), "", "too large"},
	} {
		path := filepath.Join(dir, c.name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadSecret(path)
		if got != c.want || (err == nil) != (c.refused == "") || err != nil && (!strings.Contains(err.Error(), c.refused) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "none")} {
		if _, err := ReadSecret(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
