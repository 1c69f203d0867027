package needed

import (
	"fmt"
	"testing"
)

// told is a test that notes how it was ended.
type told struct {
	testing.TB
	how string
}

func (t *told) Helper() {}

func (t *told) Fatalf(format string, args ...any) {
	t.how = "fails: " + fmt.Sprintf(format, args...)
}

func (t *told) Skipf(format string, args ...any) {
	t.how = "skips: " + fmt.Sprintf(format, args...)
}

func TestMissing(t *testing.T) {
	for ci, want := range map[string]string{
		"true": "fails: there is no no-such-program in PATH (nobody has it)",
		"":     "skips: NOT TESTED: there is no no-such-program in PATH (nobody has it)",
	} {
		t.Setenv("CI", ci)
		one := &told{TB: t}
		if Program(one, "nobody has it", "no-such-program"); one.how != want {
			t.Errorf("CI=%s: %q", ci, one.how)
		}
		one.how = ""
		if path := Program(one, "every system has one", "no-such-program", "sh"); path == "" || one.how != "" {
			t.Errorf("CI=%s: %q, %q", ci, path, one.how)
		}
	}
}
