// Package words cleans the texts of other parties, so that people, agents and logs can read them.
package words

import (
	"strings"
	"unicode"
)

// maxWords bounds what is kept of another party's words, in bytes.
const maxWords = 300

// Of returns another party's text on one line of at most 300 bytes, for people and agents to read.
// Characters that cannot be seen are taken out, because agents read them. The text stays untrusted.
func Of(text string) string {
	return Truncate(strings.Join(strings.Fields(seen(text)), " "), maxWords)
}

// OfSeller is Words for what a seller says, which may be a page: markup is taken out, too.
func OfSeller(text string) string { return Of(withoutMarkup(seen(text))) }

// seen returns the characters of a text that can be seen.
func seen(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r), r == unicode.ReplacementChar:
			return ' '
		case !unicode.IsPrint(r), unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			return -1
		}
		return r
	}, Truncate(text, 4*maxWords))
}

// withoutMarkup puts a space in the place of each tag or comment of HTML. One that does not end goes on to the end.
func withoutMarkup(text string) string {
	var out strings.Builder
	for {
		before, tag, found := strings.Cut(text, "<")
		out.WriteString(before)
		switch {
		case !found:
			return out.String()
		case tag == "" || tag[0] != '/' && tag[0] != '!' && tag[0] != '?' && (tag[0]|0x20 < 'a' || tag[0]|0x20 > 'z'):
			out.WriteByte('<') // less than
			text = tag
		default:
			out.WriteByte(' ')
			_, text, _ = strings.Cut(tag, ">")
		}
	}
}

// Quote puts words that [Words] has cleaned between quotes that they cannot end.
func Quote(words string) string { return `"` + strings.ReplaceAll(words, `"`, "'") + `"` }

// ReasonIn returns the reason by x402 that another party's words begin with, such as "insufficient_funds",
// and else "". Only such reasons may be where logs are made: free words can repeat a signature or a query.
// A reason is small letters and digits in parts of up to 16, joined by underscores.
func ReasonIn(words string) string {
	first, _, _ := strings.Cut(words, ":")
	for part := range strings.SplitSeq(first, "_") {
		if part == "" || len(part) > 16 || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return ""
		}
	}
	if len(first) > maxReasonIn {
		return ""
	}
	return first
}

// maxReasonIn bounds a reason by x402, in bytes.
const maxReasonIn = 80

// Truncate cuts s to at most n bytes for messages; it never splits a UTF-8 sequence.
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
