package proxy

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/purserpay/purser/internal/guard"
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

// locate resolves a reference in an answer. It returns nil for one that is no HTTP URL, or that clients
// are known to read in different ways.
func locate(base *url.URL, location string) *url.URL {
	ref, err := url.Parse(escapeStray(location))
	if err != nil || ref.Opaque != "" || ref.Host == "" && (ref.Scheme != "" || strings.HasPrefix(location, "//")) {
		return nil
	}
	return normal(base.ResolveReference(ref))
}

// normal returns an HTTP URL in the one spelling that purser writes, without credentials; nil: its host or
// scheme cannot be used.
func normal(u *url.URL) *url.URL {
	scheme := strings.ToLower(u.Scheme)
	own := map[string]string{"http": "80", "https": "443"}[scheme]
	name, err := idna.Lookup.ToASCII(u.Hostname())
	if err != nil { // names with an underscore, and addresses
		name = u.Hostname()
	}
	if name, err = guard.NormalHost(name); err != nil || own == "" {
		return nil
	}
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return nil
		}
		if port = strconv.FormatUint(n, 10); port != own {
			name += ":" + port
		}
	}
	out := &url.URL{Scheme: scheme, Host: name, RawQuery: spelt(u.RawQuery, "/?")}
	out.RawPath = withoutDots(spelt(u.EscapedPath(), "/"))
	out.Path, _ = url.PathUnescape(out.RawPath) // spelt has left no stray escape
	if fragment := spelt(u.EscapedFragment(), "/?"); fragment != "" {
		out.RawFragment = fragment
		out.Fragment, _ = url.PathUnescape(fragment)
	}
	return out
}

// withoutDots takes out the segments . and .. of an escaped path.
func withoutDots(escaped string) string {
	plain, _ := url.PathUnescape(escaped)
	root := &url.URL{Path: "/"}
	return "/" + strings.TrimPrefix(root.ResolveReference(&url.URL{Path: "/" + strings.TrimPrefix(plain, "/"), RawPath: "/" + strings.TrimPrefix(escaped, "/")}).EscapedPath(), "/")
}

// spelt returns a part of a URL with one spelling of each character: as itself where all clients leave it
// so, else percent-encoded.
func spelt(part, also string) string {
	const upperHex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		c, escaped := part[i], false
		if c == '%' && isEscape(part[i:]) {
			n, _ := strconv.ParseUint(part[i+1:i+3], 16, 8)
			c, escaped, i = byte(n), true, i+2
		}
		switch {
		case unreserved(c), !escaped && strings.IndexByte("!$&()*+,;=:@"+also, c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		}
	}
	return b.String()
}

// escapeStray makes percent signs that begin no escape ones that stand for themselves.
func escapeStray(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if b.WriteByte(s[i]); s[i] == '%' && !isEscape(s[i:]) {
			b.WriteString("25")
		}
	}
	return b.String()
}

func isEscape(s string) bool {
	return len(s) > 2 && strings.Trim(s[1:3], "0123456789abcdefABCDEF") == ""
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// placeOf returns the same text for all spellings of a URL that clients may take for one another, and for
// some further ones. The scheme does not count, because clients change http to https by themselves.
func placeOf(u *url.URL) string {
	where, _ := url.PathUnescape(spelt(u.EscapedPath(), "/"))
	query, _ := url.PathUnescape(spelt(u.RawQuery, "/?"))
	return siteOf(u) + path.Clean("/"+where) + "?" + query
}

// siteOf returns the host and port of a URL in the form of the books.
func siteOf(u *url.URL) string { return pay.RecordedHost(strings.ToLower(u.Scheme) + "://" + u.Host) }
