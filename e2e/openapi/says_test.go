package openapi

import (
	"fmt"
	"strings"
	"testing"
)

// What a failure shows of a program's words. It must be short: of a long log only the end is read.
const (
	mostLines = 60 // of what failed
	mostBytes = 1000
	lastLines = 8 // of a log
	lastBytes = 240
)

// failures are the failing cases in what Schemathesis said: neither what went well before nor the
// summary after. When it named none, it is the end.
func failures(said string) string {
	lines := strings.Split(said, "\n")
	first, last := -1, len(lines)
	for i, line := range lines {
		switch heading(line) {
		case "FAILURES", "ERRORS":
			if first < 0 {
				first = i + 1
			}
		case "SUMMARY":
			last = i
		}
	}
	if first < 0 || first > last {
		return ending(said)
	}
	return shortened(lines[first:last], mostLines, mostBytes)
}

// heading is the text of a line like "==== FAILURES ====", and empty for any other.
func heading(line string) string {
	text := strings.Trim(line, "=")
	if len(line)-len(text) < 8 {
		return ""
	}
	return strings.TrimSpace(text)
}

// ending is the end of a log.
func ending(log string) string {
	lines := strings.Split(strings.TrimRight(log, "\n"), "\n")
	if n := len(lines) - lastLines; n > 0 {
		lines = append([]string{fmt.Sprintf("(%d lines before)", n)}, lines[n:]...)
	}
	return shortened(lines, len(lines), lastBytes)
}

// about is a log from its first line with the word on.
func about(log, word string) string {
	before, _, found := strings.Cut(log, word)
	if !found {
		return ending(log)
	}
	return shortened(strings.Split(log[strings.LastIndexByte(before, '\n')+1:], "\n"), mostLines, mostBytes)
}

// shortened is at most so many lines of so many bytes, without empty ones at both ends.
func shortened(lines []string, most, length int) string {
	text := strings.TrimSpace(strings.Join(lines, "\n"))
	lines = strings.Split(text, "\n")
	if n := len(lines) - most; n > 0 {
		lines = append(lines[:most:most], fmt.Sprintf("(%d lines more)", n))
	}
	for i, line := range lines {
		if len(line) > length {
			lines[i] = strings.ToValidUTF8(line[:length], "") + " …"
		}
	}
	return strings.Join(lines, "\n")
}

func TestFailuresAreShort(t *testing.T) {
	t.Parallel()
	const failing = "____ POST /api-keys ____\n1. Test Case ID: x\n\n- ST201 Schema-violating request accepted"
	said := "Schemathesis v4\n" + strings.Repeat("fine\n", 100) + "=========== FAILURES ===========\n" + failing +
		"\n\n=========== SUMMARY ===========\nAPI Operations:\n" + strings.Repeat("more\n", 100)
	if got := failures(said); got != failing {
		t.Errorf("%q", got)
	}
	said = strings.Replace(said, failing, "a\n=========== ERRORS ===========\n"+strings.Repeat("b\n", 100), 1)
	if got := failures(said); !strings.HasPrefix(got, "a\n") || !strings.HasSuffix(got, "b\n(42 lines more)") {
		t.Errorf("%q", got)
	}
	if got := failures(strings.Repeat("x\n", 100) + "no such option"); strings.Count(got, "\n") != lastLines || !strings.HasSuffix(got, "no such option") {
		t.Errorf("%q", got)
	}
	if got := ending("one\n" + strings.Repeat("é", lastBytes) + "\n"); got != "one\n"+strings.Repeat("é", lastBytes/2)+" …" {
		t.Errorf("%q", got)
	}
	if got := ending(""); got != "" {
		t.Errorf("%q", got)
	}
	if got := about("fine\nit panics: panic\ngoroutine 1\n", "panic"); got != "it panics: panic\ngoroutine 1" {
		t.Errorf("%q", got)
	}
}
