package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
)

// Hostile has all that sellers and agents may write: escapes of both kinds, a bell, a change of
// direction, a tab and a line's end.
const Hostile = "a\x1b[31mb\u009b2Jc\u202ed\ae\tf\ng"

// Steers reports whether a text has more in it than lines of characters.
func Steers(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	tab := newTable(&b)
	tab.row("LABEL", "N", "")
	tab.row("a\tb\n", "1", "x")
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "LABEL  N\na�b�   1  x\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestPlainJSON(t *testing.T) {
	t.Parallel()
	want := Hostile + "\U000E0041日本<\u2028"
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]string{"x": want}); err != nil {
		t.Fatal(err)
	}
	plain := plainJSON(text.Bytes())
	var got map[string]string
	if err := json.Unmarshal(plain, &got); err != nil || got["x"] != want || Steers(string(plain)) || !strings.Contains(string(plain), "日本<") {
		t.Errorf("%v: %s", err, plain)
	}
	if got := plainJSON([]byte("\"\x9b\"")); !json.Valid(got) || Steers(string(got)) {
		t.Errorf("%q", got)
	}
}

// An exported cell begins no formula, except that amounts are numbers.
func TestCSVIsInert(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := csvTable{csv.NewWriter(&b)}
	w.row("=1+1", "-0.5", "a;=x", "@x\"", "-task", "plain, text", "http://x/?a=b")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if want := `["'=1+1" "-0.5" "a;'=x" "'@x\"" "'-task" "plain, text" "http://x/?a=b"]`; err != nil || fmt.Sprintf("%q", rows[0]) != want {
		t.Errorf("%q, %v", rows, err)
	}
}

func TestSayIsOneLine(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	c := new(cobra.Command)
	c.SetErr(&b)
	say(c, "%s", "purser: store: \x1b[2Jfull\nand more")
	if want := "purser: store: �[2Jfull; and more\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}
