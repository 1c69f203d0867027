package toolcall

import (
	"bytes"
	"encoding/json"
)

// maxDeep bounds how deep objects and arrays of an answer behind a payment are read. Package json reads ten times as deep.
// Clients have no bound, and what is deeper is never terms.
const maxDeep = 1000

// byteOrderMark stands before texts of some servers. Clients leave it out.
const byteOrderMark = "\ufeff"

// lenient returns a text as clients read it that take more than package json does: without a byte order mark, with 0 in
// the place of Python's words for numbers that are none, and with 0 in the place of values that are nested too deeply.
func lenient(text []byte) []byte {
	out := make([]byte, 0, len(text))
	depth, quoted, escaped := 0, false, false
	keep := func(c byte) {
		if depth <= maxDeep {
			out = append(out, c)
		}
	}
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted:
			quoted = escaped || c != '"'
			escaped = !escaped && c == '\\'
			keep(c)
		case c == '"':
			quoted = true
			keep(c)
		case c == '{', c == '[':
			if depth++; depth == maxDeep+1 {
				out = append(out, '0')
			}
			keep(c)
		case c == '}', c == ']':
			keep(c)
			depth--
		default:
			if word := noNumber(text[i:]); word != "" {
				c = '0'
				i += len(word) - 1
			}
			keep(c)
		}
	}
	return out
}

// noNumber returns the word for a number that is none, which a text begins with; "": it begins with none.
func noNumber(text []byte) string {
	for _, word := range []string{"NaN", "Infinity"} {
		if bytes.HasPrefix(text, []byte(word)) {
			return word
		}
	}
	return ""
}

// readable returns a text that package json reads, if there is one. loose: it may be a [lenient] reading.
func readable(text []byte, loose bool) (_ []byte, ok bool) {
	if json.Valid(text) {
		return text, true
	}
	if !loose {
		return nil, false
	}
	text = lenient(text)
	return text, json.Valid(text)
}
