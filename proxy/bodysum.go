package proxy

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"mime"
	"net/http"
	"strings"

	"github.com/purserpay/purser/pay"
)

// bodySum hashes a request's body by what it says. Libraries choose the boundary of a multipart body anew for each
// repeat, so it counts as the same text wherever it parts the body. Bodies of other kinds are hashed as they come.
type bodySum struct {
	plain     hash.Hash
	parts     hash.Hash // nil: the body is no multipart
	delimiter []byte
	matched   int // bytes of the delimiter that a line began with so far; -1: it does not
}

// sameDelimiter stands for each delimiter. No part's line begins so: header fields and delimiters have no zero byte.
const sameDelimiter = "--\x00boundary\x00"

// newBodySum makes the hash of a body with this header.
func newBodySum(h http.Header) *bodySum {
	s := &bodySum{plain: sha256.New()}
	if b := boundaryOf(h.Get("Content-Type")); b != "" && h.Get("Content-Encoding") == "" {
		s.parts, s.delimiter = sha256.New(), []byte("--"+b)
	}
	return s
}

// boundaryOf returns the boundary that a multipart body has; "": it is none. Libraries leave the quotes out where the
// boundary needs them, as in ----=_Part_1, and separate it by a comma.
func boundaryOf(contentType string) string {
	if kind, parameters, err := mime.ParseMediaType(contentType); err == nil && parameters["boundary"] != "" {
		if !strings.HasPrefix(kind, "multipart/") {
			return ""
		}
		return parameters["boundary"]
	}
	const name = "boundary="
	text := strings.ToLower(contentType)
	at := strings.Index(text, name)
	if at < 0 || len(text) != len(contentType) || !strings.HasPrefix(strings.TrimSpace(text), "multipart/") {
		return ""
	}
	value, _, _ := strings.Cut(contentType[at+len(name):], ";")
	return strings.Trim(value, " \t\"")
}

// Write implements io.Writer. It never fails.
func (s *bodySum) Write(p []byte) (int, error) {
	_, _ = s.plain.Write(p)
	if s.parts == nil {
		return len(p), nil
	}
	for rest := p; len(rest) > 0; {
		if s.matched < 0 {
			line := rest
			if end := bytes.IndexByte(rest, '\n'); end >= 0 {
				line, s.matched = rest[:end+1], 0
			}
			_, _ = s.parts.Write(line)
			rest = rest[len(line):]
			continue
		}
		switch {
		case rest[0] != s.delimiter[s.matched]:
			_, _ = s.parts.Write(s.delimiter[:s.matched])
			s.matched = -1
		case s.matched+1 == len(s.delimiter):
			_, _ = s.parts.Write([]byte(sameDelimiter))
			rest, s.matched = rest[1:], -1
		default:
			rest, s.matched = rest[1:], s.matched+1
		}
	}
	return len(p), nil
}

// sums returns the hash of what has been written by what it says, and as it came. More must not be written then.
func (s *bodySum) sums() (says, plain pay.Hash) {
	plain = pay.Hash(s.plain.Sum(nil))
	if s.parts == nil {
		return plain, plain
	}
	_, _ = s.parts.Write(s.delimiter[:max(0, s.matched)])
	s.matched = -1
	return pay.Hash(s.parts.Sum(nil)), plain
}
