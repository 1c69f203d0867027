package proxy

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"
)

// cookies holds what the 402s of a call have set. A seller that answers on several machines, or knows its
// challenge by a session, needs it in the paid request. The client gets it with the answer.
type cookies struct {
	live  *cookiejar.Jar // what is sent
	named *cookiejar.Jar // the same, and what a 402 deletes
	set   []setCookie
}

// setCookie is one Set-Cookie of a 402.
type setCookie struct {
	line string
	is   cookieID // zero: it cannot be read
}

// cookieID names a cookie as RFC 6265 stores it.
type cookieID struct{ name, domain, path string }

// take notes what a 402 to a request sets.
func (c *cookies) take(req *http.Request, resp *http.Response) {
	for _, line := range resp.Header.Values("Set-Cookie") {
		s := setCookie{line: line}
		if cookie, err := http.ParseSetCookie(line); err == nil {
			s.is = identify(req.URL, cookie)
			if !cookie.Secure || strings.EqualFold(req.URL.Scheme, "https") { // the jar makes an exception for loopback
				c.keep(req.URL, cookie)
			}
		}
		c.set = append(c.set, s)
	}
}

func (c *cookies) keep(from *url.URL, cookie *http.Cookie) {
	if c.live == nil {
		o := &cookiejar.Options{PublicSuffixList: publicsuffix.List}
		c.live, _ = cookiejar.New(o) // never fails
		c.named, _ = cookiejar.New(o)
	}
	c.live.SetCookies(from, []*http.Cookie{cookie})
	lasting := *cookie //nolint:gosec // it is the seller's, with its attributes
	lasting.MaxAge, lasting.Expires = 0, time.Time{}
	c.named.SetCookies(from, []*http.Cookie{&lasting})
}

// send adds the cookies that a request may have to those of its client. A cookie of the same name is replaced,
// or taken out if the 402 deletes it. A client's signature over its cookies leaves no room for others.
func (c *cookies) send(req *http.Request) {
	if c.named == nil || signs(req.Header, "cookie") {
		return
	}
	ours := make(map[string]bool)
	for _, cookie := range c.named.Cookies(req.URL) {
		ours[cookie.Name] = true
	}
	var kept []string
	for _, line := range req.Header.Values("Cookie") {
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(pair, "=")
			if pair = strings.TrimSpace(pair); pair != "" && !ours[strings.TrimSpace(name)] {
				kept = append(kept, pair)
			}
		}
	}
	setOrDelete(req.Header, "Cookie", strings.Join(kept, "; "))
	for _, cookie := range c.live.Cookies(req.URL) {
		req.AddCookie(cookie)
	}
}

// hand gives the client what the 402s have set, before what the answer sets. The answer's own cookies win.
func (c *cookies) hand(req *http.Request, resp *http.Response) {
	if len(c.set) == 0 {
		return
	}
	own := resp.Header.Values("Set-Cookie")
	var won []cookieID
	for _, line := range own {
		if cookie, err := http.ParseSetCookie(line); err == nil {
			won = append(won, identify(req.URL, cookie))
		}
	}
	var all []string
	for _, s := range c.set {
		if !slices.Contains(own, s.line) && (s.is.name == "" || !slices.Contains(won, s.is)) {
			all = append(all, s.line)
		}
	}
	if all = append(all, own...); len(all) > 0 {
		resp.Header["Set-Cookie"] = all
	}
}

// identify names a cookie that an answer from a URL sets, with the defaults of RFC 6265, sections 5.1.4 and 5.3.
func identify(from *url.URL, cookie *http.Cookie) cookieID {
	id := cookieID{cookie.Name, strings.ToLower(strings.TrimPrefix(cookie.Domain, ".")), cookie.Path}
	if id.domain == "" {
		id.domain = strings.ToLower(from.Hostname())
	}
	if !strings.HasPrefix(id.path, "/") {
		id.path = path.Dir("/" + strings.TrimPrefix(from.Path, "/") + "x")
	}
	return id
}

// signs reports whether a signature of the client's covers one of its headers, given in lower case: RFC 9421, its
// drafts, or AWS's. purser sends a signed header as it came.
func signs(h http.Header, header string) bool {
	for _, name := range []string{"Signature-Input", "Signature", "Authorization"} {
		for _, value := range h.Values(name) {
			value = strings.ToLower(value)
			if name == "Authorization" && !strings.Contains(value, "headers=") {
				continue
			}
			if slices.Contains(strings.FieldsFunc(value, func(r rune) bool { return !unreserved(byte(r)) || r > 0x7f }), header) {
				return true
			}
		}
	}
	return false
}
