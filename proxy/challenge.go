package proxy

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/protocol/mpp"
	"github.com/purserpay/purser/x402"
)

// tellsMore reports whether a 402 without a challenge may have one for clients that ask as those of x402 or MPP do.
// Sellers of x402 version 1 show a page in its place to clients that look like browsers, as agents' fetch tools do. Some
// sellers of MPP name no terms to clients that do not list what they can pay by.
func tellsMore(req *http.Request, resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return methodOf(req) == http.MethodGet && asksFor(resp.Header) == "" || methodOf(req) == http.MethodHead && kind == "text/html"
}

// behindPaywall asks the seller once more, unpaid, for something that programs read. Without a challenge in
// its answer everything stays as it was.
func (t *Transport) behindPaywall(req *http.Request, call *Call, page *http.Response, seen *sendTrace) (
	*http.Response, *sendTrace, x402.Challenge, bool, error,
) {
	out := req.WithContext(req.Context())
	out.Header = req.Header.Clone()
	if kind, _, _ := mime.ParseMediaType(page.Header.Get("Content-Type")); kind == "text/html" {
		out.Header.Set("Accept", "application/json")
	}
	out.Header.Set(mpp.HeaderAccept, mpp.Accepts)
	call.cookies.send(out)
	again := new(sendTrace)
	resp, _, err := t.pass(out, again)
	if err != nil {
		t.log.InfoContext(req.Context(), "402 with a page, and no answer to a program", "host", req.URL.Host, "error", err)
		return page, seen, x402.Challenge{}, false, nil
	}
	if t.carrierFor(req).asks(resp) {
		if challenge, found, problem := t.carrierFor(req).offers(req, resp); found {
			call.cookies.take(req, resp)
			closeBody(page)
			return resp, again, challenge, true, problem
		}
	}
	closeBody(resp)
	return page, seen, x402.Challenge{}, false, nil
}

// declineForeign hands a 402 without a challenge on as it is, with a reason. Its body may mean something to
// the client that has nothing to do with purser. Where the answer to a payment has led, a client that pays by itself finds
// no other way to pay in its header.
func (t *Transport) declineForeign(req *http.Request, call *Call, resp *http.Response) (*http.Response, string, error) {
	e := Explain(DeclinedNoChallenge)
	if seen := asksFor(resp.Header); seen != "" {
		e.Detail += ": it asks for " + seen
	}
	if t.redirects.onWay(req, call) {
		resp.Header.Del("WWW-Authenticate")
	}
	t.tellDeclined(req, e.Reason, e.Detail, nil, nil)
	e.Detail = printable(e.Detail)
	t.logDeclined(req, e, nil)
	mark(req, resp.Header, e.Reason, e.Detail, notPaid+e.Detail)
	return resp, ResultDeclined, nil
}

// asksFor names another way to pay than x402 by the headers of a 402; "" if none is known.
func asksFor(h http.Header) string {
	for _, value := range h.Values("WWW-Authenticate") {
		scheme, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		if scheme = strings.ToLower(scheme); scheme == "l402" || scheme == "lsat" {
			return "L402 (Lightning)"
		}
	}
	if h.Get("Crawler-Price") != "" {
		return "Cloudflare's pay per crawl"
	}
	return ""
}

// fitting returns a challenge without the offers that are for another body.
func (c content) fitting(challenge x402.Challenge) x402.Challenge {
	challenge.Accepts = slices.Clone(challenge.Accepts)
	for i := range challenge.Accepts {
		if r := &challenge.Accepts[i]; r.Body != nil && pay.Hash(*r.Body) != c.plain && r.Problem == nil {
			r.Problem = &x402.FieldError{Field: "digest", Reason: "not that of the request's body"}
		}
	}
	return challenge
}

// signIn sends a request once more that was answered with a challenge, with a signature of the wallet
// in the place of a payment: see [pay.Payer.SignIn]. It returns nil, and no error, if the request is to
// be paid for without that. A call signs in once.
func (t *Transport) signIn(req *http.Request, call *Call, challenge x402.Challenge, body content, seen *sendTrace) (*http.Response, error) {
	if call.signedIn || call.Anew || call.Dry || len(req.Header.Values(x402.HeaderSignIn)) > 0 || !challenge.OffersSignIn() {
		return nil, nil
	}
	if !maySignIn(req, seen.remote()) || call.readKey() != nil { // what is wrong with the key, the payment will tell
		return nil, nil
	}
	leave, err := t.gate.Enter(call.caller, call.Key.ID)
	if err != nil { // nor is there room for a payment
		return nil, nil
	}
	proof, err := t.payer.SignIn(call.caller, pay.SignInRequest{Key: call.Key, Door: t.door, Challenge: challenge, URL: req.URL})
	leave()
	if err != nil {
		if !errors.Is(err, pay.ErrNoSignIn) {
			t.log.WarnContext(req.Context(), "not signed in", "key", call.Key.ID, "host", req.URL.Host, "error", err)
		}
		return nil, nil
	}
	call.signedIn = true
	resp, astray, err := t.sendSignIn(req, call, body, proof)
	if astray {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sending a sign-in: %w", err)
	}
	t.log.InfoContext(req.Context(), "signed in", "key", call.Key.ID, "host", req.URL.Host, "status", resp.StatusCode)
	return resp, nil
}

// maySignIn reports whether a proof may go there: over TLS, or to this machine. Any machine on another way
// could use it as well.
func maySignIn(req *http.Request, remote net.Addr) bool {
	if strings.EqualFold(req.URL.Scheme, "https") {
		return true
	}
	if remote == nil {
		return false
	}
	addr, err := netip.ParseAddrPort(remote.String())
	return err == nil && addr.Addr().Unmap().IsLoopback()
}

// sendSignIn sends a request with the proof of a sign-in. astray reports that no connection led where
// the proof may go, so it has not left.
func (t *Transport) sendSignIn(req *http.Request, call *Call, body content, proof string) (resp *http.Response, astray bool, err error) {
	again, err := body.reader()
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	trace := new(sendTrace)
	out := req.Clone(trace.watch(ctx, func(remote net.Addr) bool { return maySignIn(req, remote) }, cancel))
	StripOwn(out.Header)
	call.cookies.send(out)
	notCached(out.Header)
	out.Header.Set(x402.HeaderSignIn, proof)
	out.Trailer, out.GetBody = req.Trailer, nil
	switch {
	case again != nil:
		out.Body = again
		if out.ContentLength >= 0 {
			out.ContentLength = body.size
		}
	case len(req.Trailer) > 0:
		out.Body = empty{}
	default:
		out.Body, out.ContentLength = http.NoBody, 0
	}
	resp, err = t.sendThrough(out)
	if err == nil {
		resp, err = guarded(resp)
	}
	if err != nil {
		cancel(nil)
		return nil, trace.astray(), err
	}
	onClose(resp, func() { cancel(nil) })
	neverStored(resp.Header)
	return resp, false, nil
}

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
