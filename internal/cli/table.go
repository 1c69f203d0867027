package cli

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/bookkeeping"
)

// table prints rows of cells in columns. Cells hold what sellers and agents wrote: nothing in them
// is more than text on one line. Text that is written to it ends the columns.
type table struct {
	*tabwriter.Writer
	to io.Writer
}

func newTable(to io.Writer) *table {
	return &table{tabwriter.NewWriter(to, 0, 0, 2, ' ', 0), to}
}

func (t *table) Write(text []byte) (int, error) {
	if _, err := t.Writer.Write([]byte(typed(t.to, string(text)))); err != nil {
		return 0, err
	}
	return len(text), nil
}

func (t *table) row(values ...string) {
	shown := make([]string, len(values))
	for i, v := range values {
		shown[i] = label(v)
	}
	_, _ = fmt.Fprintln(t, strings.TrimRight(strings.Join(shown, "\t"), " \t")) // Flush returns the error
}

// some prints a name with a value, unless that is empty.
func (t *table) some(name, value string) {
	if value != "" {
		t.row(name, value)
	}
}

// label is a text on one line of a terminal. It replaces characters that would steer the terminal,
// or turn the direction of the line.
func label(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}

// plainJSON is JSON that steers no terminal: what is no printable character is escaped. Space
// between the values stays as it is.
func plainJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch high, low := utf16.EncodeRune(r); {
		case r == utf8.RuneError && n == 1:
			out = append(out, `\ufffd`...)
		case r < ' ' || unicode.IsPrint(r): // JSON has no control characters below the space in strings
			out = append(out, text[:n]...)
		case high != unicode.ReplacementChar:
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[n:]
	}
	return out
}

// csvTable writes rows of CSV. A cell that is no number steers neither spreadsheets nor terminals.
type csvTable struct{ *csv.Writer }

func (c csvTable) row(values ...string) {
	safe := make([]string, len(values))
	for i, v := range values {
		if safe[i] = v; strings.Trim(strings.TrimPrefix(v, "-"), "0123456789.") != "" {
			safe[i] = label(bookkeeping.Inert(v))
		}
	}
	_ = c.Write(safe) // Flush returns the error
}

// Flush prints the rows.
func (c csvTable) Flush() error {
	c.Writer.Flush()
	return c.Error()
}
