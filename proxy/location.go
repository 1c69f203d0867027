package proxy

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/idna"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/pay"
)

// maxRefresh bounds the delay of a Refresh header. A longer one is taken out, because purser would
// have to remember it for as long.
const maxRefresh = 5 * time.Minute

// leads reports whether an answer may make its client ask for something by itself.
func leads(resp *http.Response) bool {
	return isRedirect(resp) || len(resp.Header.Values("Refresh")) > 0
}

func isRedirect(resp *http.Response) bool {
	return resp.StatusCode >= 300 && resp.StatusCode < 400 && len(resp.Header.Values("Location")) > 0
}

// rewrite writes the Location and Refresh of an answer anew, so that every client reads them as purser
// does: absolute, and in one spelling. It takes out what cannot be read. base is the client's URL. If
// rooted is true, URLs of the same origin are written without it, because a server in front may have
// given the client another one.
func rewrite(resp *http.Response, base *url.URL, rooted bool) (targets []*url.URL, delay time.Duration) {
	write := func(to *url.URL) string {
		targets = append(targets, to)
		if here := normal(base); rooted && here != nil && to.Scheme == here.Scheme && to.Host == here.Host && !strings.HasPrefix(to.EscapedPath(), "//") {
			local := *to
			local.Scheme, local.Host = "", ""
			return local.String()
		}
		return to.String()
	}
	if isRedirect(resp) {
		location := resp.Header.Get("Location")
		if to := locate(base, location); to != nil {
			location = write(to)
		} else if !leadsElsewhere(location) {
			location = ""
		}
		setOrDelete(resp.Header, "Location", location)
	}
	if len(resp.Header.Values("Refresh")) > 0 {
		seconds, to := refresh(base, resp.Header.Get("Refresh"))
		value := ""
		if to != nil {
			delay = time.Duration(seconds) * time.Second
			value = strconv.Itoa(seconds) + "; url=" + write(to)
		}
		setOrDelete(resp.Header, "Refresh", value)
	}
	return targets, delay
}

func setOrDelete(h http.Header, name, value string) {
	if h.Del(name); value != "" {
		h.Set(name, value)
	}
}

// refresh reads a Refresh header. The URL is nil if clients may read it in different ways.
func refresh(base *url.URL, value string) (seconds int, to *url.URL) {
	value = strings.TrimSpace(value)
	digits := value[:len(value)-len(strings.TrimLeft(value, "0123456789"))]
	seconds, err := strconv.Atoi(digits)
	if err != nil || time.Duration(seconds)*time.Second > maxRefresh {
		return 0, nil
	}
	rest := strings.TrimLeft(value[len(digits):], "0123456789.")
	where := strings.TrimLeft(rest, "; ,\t")
	if where == "" { // the same page again
		return seconds, normal(base)
	}
	if where == rest { // no separator
		return 0, nil
	}
	if len(where) > 3 && strings.EqualFold(where[:3], "url") {
		if after, is := strings.CutPrefix(strings.TrimLeft(where[3:], " \t"), "="); is {
			where = strings.TrimLeft(after, " \t")
		}
	}
	if where != "" && strings.ContainsAny(where[:1], `'"`) {
		where, _, _ = strings.Cut(where[1:], where[:1])
	}
	return seconds, locate(base, where)
}

// leadsElsewhere reports whether a Location is for another program than an HTTP client.
func leadsElsewhere(location string) bool {
	u, err := url.Parse(location)
	return err == nil && u.Scheme != "" && !slices.Contains([]string{"http", "https", "ws", "wss"}, u.Scheme)
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
