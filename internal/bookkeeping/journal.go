package bookkeeping

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// oneLine is a text without control characters, and without those that turn the direction of a line.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
}

// beancount writes plain text for Beancount 2 and 3.
type beancount struct{ out *bufio.Writer }

func newBeancount(to io.Writer, over Range) *beancount {
	b := &beancount{bufio.NewWriter(to)}
	_, _ = fmt.Fprintf(b.out, ";; purser: %s. Days are those of UTC.\n"+ // Close returns the error
		";; Accounts open by themselves. A file that includes this one needs the same line:\nplugin \"beancount.plugins.auto_accounts\"\n", over)
	return b
}

// quoted is a string of Beancount.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(oneLine(text)) + `"`
}

func (w *beancount) Write(b Booking) error {
	if err := b.check(); err != nil {
		return err
	}
	link := ""
	if b.PaymentID != "" {
		link = " ^" + b.PaymentID // it joins a correction with what it corrects
	}
	_, _ = fmt.Fprintf(w.out, "\n%s * %s %s%s\n", b.At.UTC().Format(time.DateOnly), quoted(b.payee()), quoted(b.narration()), link)
	for _, d := range b.details() {
		_, _ = fmt.Fprintf(w.out, "  %s: %s\n", d[0], quoted(d[1]))
	}
	_, err := w.out.WriteString(postings(b, "  "))
	return err
}

func (w *beancount) Close() error { return w.out.Flush() }

// postings writes the two sides of a booking.
func postings(b Booking, indent string) string {
	wallet, other := b.change(), "-"+b.units()
	if !b.Enters() {
		other = b.units()
	}
	accounts := [2]string{b.otherAccount(), b.walletAccount()}
	width := max(len(accounts[0]), len(accounts[1]))
	return fmt.Sprintf("%s%-*s  %12s %s\n%s%-*s  %12s %s\n", indent, width, accounts[0], other, b.Symbol, indent, width, accounts[1], wallet, b.Symbol)
}

// journal writes the journal that hledger and Ledger both read.
type journal struct{ out *bufio.Writer }

func newJournal(to io.Writer, over Range) *journal {
	j := &journal{bufio.NewWriter(to)}
	_, _ = fmt.Fprintf(j.out, "; purser: %s. Days are those of UTC.\n", over) // Close returns the error
	return j
}

// noted is a text without what ends a description or a tag, or begins a comment, a date or an expression
// in one of the two programs.
func noted(text string) string {
	text = strings.Map(func(r rune) rune {
		switch r {
		case ';', ',', '|', '"', '{', '}', '`', '\\':
			return '_'
		case '[':
			return '('
		case ']':
			return ')'
		}
		return r
	}, oneLine(text))
	return strings.Join(strings.Fields(text), " ")
}

func (w *journal) Write(b Booking) error {
	if err := b.check(); err != nil {
		return err
	}
	payee := noted(b.payee())
	if payee == "" || !startsPlain(payee) {
		payee = "host " + payee
	}
	_, _ = fmt.Fprintf(w.out, "\n%s * (%s) %s\n", b.At.UTC().Format(time.DateOnly), noted(b.ID), payee)
	for _, d := range append([][2]string{{"narration", b.narration()}}, b.details()...) {
		_, _ = fmt.Fprintf(w.out, "    ; %s: %s\n", d[0], strings.TrimLeft(noted(d[1]), ": "))
	}
	_, err := w.out.WriteString(postings(b, "    "))
	return err
}

// startsPlain reports whether a description cannot be read as a status, a code or an amount.
func startsPlain(text string) bool {
	c := text[0]
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

func (w *journal) Close() error { return w.out.Flush() }
