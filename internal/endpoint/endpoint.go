// Package endpoint calls an HTTP service that the operator configured, such as a facilitator or an
// RPC. It calls one host only, bounds the size of answers, and returns errors that are safe to
// show: they name the setting instead of the URL, because the URL's path or query may hold a key.
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
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Options configures an Endpoint.
type Options struct {
	// URL holds the base address, http or https. A user and password in it are sent as Basic
	// authorization.
	URL string
	// Setting names the variable that holds the URL, such as "PURSER_RPC_URL". Errors show it.
	Setting string
	// MaxAnswer bounds the decoded body of an answer, in bytes.
	MaxAnswer int64
	// Transport carries the calls. Default: one that ignores the proxy variables of the
	// environment. In a program that pays through purser, those variables name purser itself.
	Transport http.RoundTripper
}

// Endpoint calls one service. It is safe for concurrent use.
type Endpoint struct {
	base      *url.URL
	maxAnswer int64
	client    *http.Client
	secrets   []string
	dates     func() func(date time.Time)
}

// idleConnections is the number of connections kept for later calls.
const idleConnections = 64

// New returns an Endpoint, or an error about the URL.
func New(o Options) (*Endpoint, error) {
	base, err := url.Parse(o.URL)
	switch {
	case err != nil: // its text repeats the URL
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
		base: base, maxAnswer: o.MaxAnswer, secrets: secretsOf(base),
		client: &http.Client{
			Transport: transport,
			// Redirects are not followed, because they would hand keys and signed payments to
			// another host.
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
		// Many servers close idle connections later than this. A POST that must not be repeated
		// therefore seldom meets a connection that the server is closing.
		IdleConnTimeout: 20 * time.Second,
	}
}

// Answer holds a complete answer of any status.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// StatusText returns the status for messages, such as "502 Bad Gateway".
func (a Answer) StatusText() string {
	text := strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status)))
	if a.Status >= 300 && a.Status < 400 {
		text += " (redirects are not followed)"
	}
	return text
}

// repeatable permits net/http to repeat a request. Without a value it is not sent.
const repeatable = "X-Idempotency-Key"

// Repeatable marks a request that the service may receive twice without harm. If the server closes
// a kept connection just as the request uses it, the request is sent again on a new one.
func Repeatable(header http.Header) http.Header {
	header[repeatable] = nil
	return header
}

// Call sends one request to the base address joined with path, and reads the whole answer. A body
// is JSON. Every error is an *Error. The service processes a POST at most once, unless its header is
// marked by Repeatable.
func (e *Endpoint) Call(ctx context.Context, method, path string, header http.Header, body []byte) (Answer, error) {
	target := e.Target(path)
	var sent progress
	req, err := http.NewRequestWithContext(sent.watch(ctx), method, target.String(), bytes.NewReader(body))
	if err != nil {
		return Answer{}, &Error{Reason: "request could not be built", Cause: err, NotSent: true}
	}
	if header != nil {
		req.Header = header.Clone()
	}
	if _, ok := req.Header[repeatable]; !ok && body != nil {
		req.GetBody = func() (io.ReadCloser, error) { return sent.bodyForRetry(body) }
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "purser")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	answered := func(time.Time) {}
	if e.dates != nil {
		answered = e.dates()
	}
	resp, err := e.client.Do(req)
	if err != nil {
		failure := newError(err)
		failure.NotSent = sent.neverConnected()
		return Answer{}, failure
	}
	defer resp.Body.Close()
	if date, ok := dateOf(resp.Header); ok {
		answered(date)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, e.maxAnswer+1))
	if err != nil {
		return Answer{}, newError(err)
	}
	if int64(len(text)) > e.maxAnswer {
		return Answer{}, &Error{Reason: fmt.Sprintf("answer over %d KiB", e.maxAnswer>>10), Cause: ErrTooLarge}
	}
	return Answer{resp.StatusCode, resp.Header, text}, nil
}

// Target returns the address that Call sends to for a path.
func (e *Endpoint) Target(path string) *url.URL {
	if path == "" {
		return e.base
	}
	return e.base.JoinPath(path)
}

// Sendable reports whether a key can be sent as a token: only visible ASCII characters can.
func Sendable(key string) bool {
	return !slices.ContainsFunc([]byte(key), func(c byte) bool { return c <= ' ' || c > '~' })
}

// WatchDates has dates called before each request is sent. The function that it returns receives the
// Date of the answer's header. You must call WatchDates before the first Call.
func (e *Endpoint) WatchDates(dates func() (answered func(date time.Time))) { e.dates = dates }

// dateOf returns the Date of an answer. It returns false for an answer from a cache, which was made
// earlier.
func dateOf(h http.Header) (time.Time, bool) {
	if age := h.Get("Age"); age != "" && age != "0" {
		return time.Time{}, false
	}
	date, err := http.ParseTime(h.Get("Date"))
	return date, err == nil
}

// progress records how far a request got.
type progress struct{ asked, connected, http2, written atomic.Bool }

func (p *progress) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { p.asked.Store(true) },
		GotConn: func(info httptrace.GotConnInfo) {
			p.connected.Store(true)
			conn, ok := info.Conn.(*tls.Conn)
			p.http2.Store(ok && conn.ConnectionState().NegotiatedProtocol == "h2")
		},
		WroteHeaders: func() { p.written.Store(true) },
	})
}

var errNotTwice = errors.New("the request may have been processed and is not sent again")

// bodyForRetry returns the body for a repetition by net/http, or refuses it. Over HTTP/1, net/http
// repeats a POST only when no byte of it was written, over HTTP/2 even when the server received all of
// it before it reset the stream (golang/go#47635). That must not happen to a payment.
func (p *progress) bodyForRetry(body []byte) (io.ReadCloser, error) {
	if p.http2.Load() && p.written.Load() {
		return nil, errNotTwice
	}
	return io.NopCloser(bytes.NewReader(body)), nil
}

// neverConnected reports whether the transport looked for a connection and got none. A transport
// that does not report these steps proves nothing.
func (p *progress) neverConnected() bool { return p.asked.Load() && !p.connected.Load() }

// Encrypted reports whether calls cannot be read on the way: https, or a loopback address.
func (e *Endpoint) Encrypted() bool {
	host := e.base.Hostname()
	return e.base.Scheme == "https" || host == "localhost" || net.ParseIP(host).IsLoopback()
}

// HasUser reports whether the URL has a user or password.
func (e *Endpoint) HasUser() bool { return e.base.User != nil }

// Close closes idle connections.
func (e *Endpoint) Close() { e.client.CloseIdleConnections() }

// Scrub removes the secrets from a text, in any letter case: every part of the URL that may be a
// key, and the given secrets. Secrets shorter than 8 characters stay.
func (e *Endpoint) Scrub(text string, secrets ...string) string {
	for _, secret := range slices.Concat(e.secrets, secrets) {
		for i := 0; len(secret) >= minSecret && i+len(secret) <= len(text); i++ {
			if end := i + len(secret); strings.EqualFold(text[i:end], secret) {
				const redacted = "[redacted]"
				text = text[:i] + redacted + text[end:]
				i += len(redacted) - 1
			}
		}
	}
	return text
}

// Shorter secrets, and path segments that may be keys, would tear up ordinary words.
const (
	minSecret     = 8
	minPathSecret = 16
)

func secretsOf(u *url.URL) []string {
	var secrets []string
	if password, ok := u.User.Password(); ok {
		secrets = append(secrets, password)
	} else if u.User != nil {
		secrets = append(secrets, u.User.Username())
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if len(segment) >= minPathSecret {
			secrets = append(secrets, segment)
		}
	}
	for _, values := range u.Query() {
		secrets = append(secrets, values...)
	}
	return secrets
}

// ErrTooLarge is the cause of an error about an answer beyond MaxAnswer.
var ErrTooLarge = errors.New("answer too large")
