// Package endpoint calls an HTTP service that the operator configured: a facilitator, an RPC. It is about what such
// calls have in common: one host and never another, answers of a bounded size, and errors that can be shown to anybody
// because they name the setting instead of the URL, whose path or query may hold a key.
//
// What is sent and what an answer means is the caller's.
package endpoint

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Options describe a service.
type Options struct {
	// URL is the base address, http or https. A user and password in it are sent as Basic authorization.
	URL string
	// Setting is what the operator sets the URL with, such as "PURSER_RPC_URL"; errors name it.
	Setting string
	// MaxAnswer bounds an answer's decoded body in bytes.
	MaxAnswer int64
	// Transport carries the calls; nil is one that ignores the environment's proxy variables, which in a program that
	// pays through purser name purser itself.
	Transport http.RoundTripper
	// Dates hears of each answer's Date: it is called before a request is sent, and what it returns when the header of the
	// answer has come. Nil: no Date is read.
	Dates func() (answered func(date time.Time))
}

// Endpoint calls one service. It is safe for concurrent use.
type Endpoint struct {
	base      *url.URL
	maxAnswer int64
	client    *http.Client
	secrets   []string
	dates     func() func(date time.Time)
}

// idleConnections is how many connections are kept for the next calls.
const idleConnections = 64

// New checks the URL. Its errors name the setting and never repeat the URL.
func New(o Options) (*Endpoint, error) {
	base, err := url.Parse(o.URL)
	switch {
	case err != nil: // err repeats the URL
		return nil, fmt.Errorf("%s: not a URL", o.Setting)
	case base.Scheme != "http" && base.Scheme != "https":
		return nil, fmt.Errorf("%s: must start with http:// or https://", o.Setting)
	case base.Hostname() == "":
		return nil, fmt.Errorf("%s: has no host", o.Setting)
	case base.Fragment != "":
		return nil, fmt.Errorf("%s: has a #fragment, which is never sent", o.Setting)
	}
	transport := o.Transport
	if transport == nil {
		transport = newTransport()
	}
	return &Endpoint{
		base: base, maxAnswer: o.MaxAnswer, secrets: secretsOf(base), dates: o.Dates,
		client: &http.Client{
			Transport: transport,
			// A redirect is an answer like any other: following it would hand keys and signed payments to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConns:        idleConnections,
		MaxIdleConnsPerHost: idleConnections,
		// Shorter than the idle times of many servers, so that a POST that must not be repeated seldom meets a connection
		// that the other side is just closing.
		IdleConnTimeout: 20 * time.Second,
	}
}

// Answer is a complete answer of any status.
type Answer struct {
	Status int
	Body   []byte
}

// StatusText is the status for messages, such as "502 Bad Gateway".
func (a Answer) StatusText() string {
	text := strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status)))
	if a.Status >= 300 && a.Status < 400 {
		text += " (redirects are not followed)"
	}
	return text
}

// repeatable is a header of which nothing is sent: it is how net/http is told.
const repeatable = "X-Idempotency-Key"

// Repeatable marks in a request's header that the service may get the request twice without harm. One that meets a kept
// connection just as the other side closes it (servers on Node do so after 5 s) is then sent again on another.
func Repeatable(header http.Header) http.Header {
	header[repeatable] = nil
	return header
}

// Call sends one request to the base address joined with path and reads the whole answer. A body is sent as JSON. Every
// error is an *Error. A POST that is not marked as Repeatable is processed by the service at most once.
func (e *Endpoint) Call(ctx context.Context, method, path string, header http.Header, body []byte) (Answer, error) {
	target := e.base
	if path != "" {
		target = e.base.JoinPath(path)
	}
	var reach reach
	req, err := http.NewRequestWithContext(reach.watch(ctx), method, target.String(), bytes.NewReader(body))
	if err != nil {
		return Answer{}, &Error{Reason: "request could not be built", Cause: err, NotSent: true}
	}
	if header != nil {
		req.Header = header.Clone()
	}
	if _, ok := req.Header[repeatable]; !ok && body != nil {
		req.GetBody = func() (io.ReadCloser, error) { return reach.again(body) }
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "purser")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	var answered func(time.Time)
	if e.dates != nil {
		answered = e.dates()
	}
	resp, err := e.client.Do(req)
	if err == nil && answered != nil {
		if date, ok := dateOf(resp.Header); ok {
			answered(date)
		}
	}
	if err != nil {
		failure := failed(err)
		failure.NotSent = reach.missed()
		return Answer{}, failure
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, e.maxAnswer+1))
	if err != nil {
		return Answer{}, failed(err)
	}
	if int64(len(text)) > e.maxAnswer {
		return Answer{}, &Error{Reason: fmt.Sprintf("answer over %d KiB", e.maxAnswer>>10), Cause: ErrTooLarge}
	}
	return Answer{resp.StatusCode, text}, nil
}

// WatchDates sets Options.Dates. It must be called before the first Call.
func (e *Endpoint) WatchDates(dates func() (answered func(date time.Time))) { e.dates = dates }

// dateOf reads when an answer was made. One that comes from a cache was made earlier, and tells nothing of the time.
func dateOf(h http.Header) (time.Time, bool) {
	if age := h.Get("Age"); age != "" && age != "0" {
		return time.Time{}, false
	}
	date, err := http.ParseTime(h.Get("Date"))
	return date, err == nil
}

// reach follows how far a request got.
type reach struct{ asked, connected, http2, written atomic.Bool }

func (r *reach) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { r.asked.Store(true) },
		GotConn: func(info httptrace.GotConnInfo) {
			r.connected.Store(true)
			conn, ok := info.Conn.(*tls.Conn)
			r.http2.Store(ok && conn.ConnectionState().NegotiatedProtocol == "h2")
		},
		WroteHeaders: func() { r.written.Store(true) },
	})
}

var errNotTwice = errors.New("the request may have been processed and is not sent again")

// again is for net/http, which asks for a body when it is about to repeat a request by itself. Over HTTP/1 it does that to
// a POST only when nothing of it was written, whatever was put into the buffer. Over HTTP/2 it repeats, up to seven times,
// also what the other side has taken whole before it reset the stream (golang/go#47635).
func (r *reach) again(body []byte) (io.ReadCloser, error) {
	if r.http2.Load() && r.written.Load() {
		return nil, errNotTwice
	}
	return io.NopCloser(bytes.NewReader(body)), nil
}

// missed reports that a connection was looked for and never had. A transport that does not report the looking proves
// nothing.
func (r *reach) missed() bool { return r.asked.Load() && !r.connected.Load() }

// Encrypted reports whether calls are out of others' sight: https, or a loopback address.
func (e *Endpoint) Encrypted() bool {
	if e.base.Scheme == "https" || e.base.Hostname() == "localhost" {
		return true
	}
	ip := net.ParseIP(e.base.Hostname())
	return ip != nil && ip.IsLoopback()
}

// HasUser reports whether the URL has a user or password.
func (e *Endpoint) HasUser() bool { return e.base.User != nil }

// Close ends idle connections.
func (e *Endpoint) Close() { e.client.CloseIdleConnections() }

// redacted stands where a secret was.
const redacted = "[redacted]"

// Scrub removes from a text whatever in the URL may be a key, and the other secrets given, in any letter
// case. What is shorter than 8 characters stays.
func (e *Endpoint) Scrub(text string, secrets ...string) string {
	for _, list := range [][]string{e.secrets, secrets} {
		for _, secret := range list {
			text = replaceFold(text, secret)
		}
	}
	return text
}

// replaceFold replaces a secret in any letter case.
func replaceFold(text, secret string) string {
	if len(secret) < minSecret || len(text) < len(secret) {
		return text
	}
	folded, secret := lower(text), lower(secret)
	var out strings.Builder
	for {
		i := strings.Index(folded, secret)
		if i < 0 {
			break
		}
		out.WriteString(text[:i])
		out.WriteString(redacted)
		text, folded = text[i+len(secret):], folded[i+len(secret):]
	}
	out.WriteString(text)
	return out.String()
}

// lower folds ASCII only, so that offsets stay what they are.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// minSecret is the length from which a secret is taken out of texts: a shorter one would tear up ordinary words.
const minSecret = 8

// minPathSecret is the length from which a path segment may be a key: shorter ones are words such as "platform".
const minPathSecret = 16

func secretsOf(u *url.URL) []string {
	var secrets []string
	if password, ok := u.User.Password(); ok {
		secrets = append(secrets, password)
	} else if u.User != nil {
		secrets = append(secrets, u.User.Username())
	}
	for _, segment := range strings.Split(u.Path, "/") {
		if len(segment) >= minPathSecret {
			secrets = append(secrets, segment)
		}
	}
	for _, values := range u.Query() {
		secrets = append(secrets, values...)
	}
	return secrets
}

// ErrTooLarge is the cause of an error about an answer over the bound.
var ErrTooLarge = errors.New("answer too large")
