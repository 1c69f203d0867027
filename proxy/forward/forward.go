// Package forward is the paying forward proxy for HTTP/1.1. Absolute-form requests, and requests
// inside a CONNECT whose TLS it opens ([Interception], with certificates of a [Minter]), go out
// through a [proxy.Transport], which pays. Any other CONNECT is a blind tunnel. Requests that are
// not proxy traffic go to the next handler.
package forward

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy"
)

// Options configure a Proxy. Payer and Dialer are required.
type Options struct {
	proxy.PayOptions

	Payer  *pay.Payer
	Dialer *guard.Dialer
	// Interception opens HTTPS; nil: all of CONNECT is tunnelled blind.
	Interception *Interception
	// Inside handles the requests inside intercepted connections, which it gets in origin form, once the proxy has
	// found nothing wrong with them. pay relays a request to the host of its connection, and pays for it: at most
	// once, however often Inside calls it for that request. Nil: pay itself.
	Inside func(w http.ResponseWriter, r *http.Request, pay http.Handler)
	// Roots verify the certificates of upstreams. Default: the system's.
	Roots *x509.CertPool

	// StandIn is the secret of the API key that serves clients on this machine without
	// credentials. Empty: they are refused.
	StandIn string
	// Guests admits keys that strangers may have made: those that [pay.Key.Relays] does not report.
	Guests Guests
	// HideVia keeps purser out of the Via headers of requests and answers. Then no loop is noticed.
	HideVia bool
	// Own recognizes the host of an absolute-form request ("host" or "host:port", lower
	// case) as purser itself. May be nil.
	Own func(host string) bool

	Logger *slog.Logger
	Clock  pay.Clock

	// MaxTunnels bounds the open tunnels, MaxKeyTunnels those of one key and MaxPeerTunnels
	// those of one client address. Defaults: 4096, a quarter and a half of it.
	MaxTunnels, MaxKeyTunnels, MaxPeerTunnels int
	// MaxKeyRequests bounds the requests of one key that are relayed at once. Default: 2048.
	MaxKeyRequests int
	// IdleTunnel ends a tunnel without traffic. Default: 10 min.
	IdleTunnel time.Duration
}

// Proxy is the forward proxy. Every proxy request needs credentials.
type Proxy struct {
	payer     *pay.Payer
	dialer    *guard.Dialer
	standIn   string
	guests    Guests
	own       func(string) bool
	observer  proxy.Observer
	log       *slog.Logger
	now       pay.Clock
	pseudonym string // in Via
	hideVia   bool
	logins    *proxy.Logins
	upstream  *pools
	transport *proxy.Transport
	relay     *httputil.ReverseProxy
	tunnels   *tunnels
	relayed   *admission.Shares // by key

	interception *Interception // nil: none
	inside       func(http.ResponseWriter, *http.Request, http.Handler)
	sessions     *sessions // for what is intercepted
}

// New makes a Proxy. Retire and Close it to end its tunnels.
func New(o Options) (*Proxy, error) {
	if o.Payer == nil || o.Dialer == nil {
		return nil, errors.New("proxy: a payer and a dialer are required")
	}
	if o.Interception != nil && o.Interception.Leaf == nil {
		return nil, errors.New("proxy: interception needs certificates")
	}
	if o.Own == nil {
		o.Own = func(string) bool { return false }
	}
	if o.Clock == nil {
		o.Clock = failpoint.Now
	}
	o.Observer, o.Logger = cmp.Or(o.Observer, proxy.Unobserved()), cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Inside == nil {
		o.Inside = func(w http.ResponseWriter, r *http.Request, pay http.Handler) { pay.ServeHTTP(w, r) }
	}
	upstream := newPools(func() *http.Transport { return newUpstream(o.Dialer, o.Roots) })
	transport, err := proxy.NewTransport(proxy.TransportOptions{
		PayOptions: o.PayOptions, Payer: o.Payer, Next: upstream, Door: policy.DoorProxy, Logger: o.Logger, Clock: o.Clock,
	})
	if err != nil {
		return nil, err
	}
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	f := &Proxy{
		payer: o.Payer, dialer: o.Dialer, standIn: o.StandIn, guests: o.Guests, own: o.Own, observer: o.Observer, log: o.Logger, now: o.Clock,
		pseudonym: "purser-" + hex.EncodeToString(id[:]), hideVia: o.HideVia, logins: proxy.NewLogins(o.Payer, o.Clock),
		upstream: upstream, transport: transport, tunnels: newTunnels(o),
		relayed: admission.NewShares(cmp.Or(o.MaxKeyRequests, 2048)), interception: o.Interception, inside: o.Inside,
	}
	f.relay = f.newRelay()
	f.sessions = newSessions(http.HandlerFunc(f.serveInside), f.tunnels.idle, f.log)
	return f, nil
}

// ServeHTTP answers CONNECT and absolute-form requests. An absolute-form request for purser itself
// becomes an ordinary one and goes to next, as does anything that is not proxy traffic.
func (f *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request, next http.Handler) {
	r = withoutSocketScheme(r)
	switch {
	case r.Method == http.MethodConnect:
		w.Header().Del("Server")
		f.connect(w, r)
	case !r.URL.IsAbs():
		next.ServeHTTP(w, r)
	case f.isOwn(r.URL):
		next.ServeHTTP(w, originForm(r))
	default:
		w.Header().Del("Server") // the upstream's is relayed
		f.serveAbsolute(w, r)
	}
}

// Retire ends intercepted connections cleanly: idle ones at once, the others when their requests
// are done. Connections that come later are served one request. Blind tunnels and connections
// that have switched protocols end at until, or stay if that is zero. Retire waits for nothing.
// It is for a Proxy whose configuration was replaced.
func (f *Proxy) Retire(until time.Time) {
	f.sessions.retire()
	f.upstream.CloseIdleConnections()
	if !until.IsZero() {
		time.AfterFunc(time.Until(until), func() {
			f.tunnels.shut()
			f.tunnels.cut(f.sessions.requests(ended))
		})
	}
}

// Drain is for a process that ends. It refuses new tunnels, ends intercepted connections as
// Retire does, and waits for the requests inside them until ctx ends. It cuts nothing, and does not
// wait for blind tunnels and upgraded connections, which may never end.
func (f *Proxy) Drain(ctx context.Context) error {
	f.tunnels.shut()
	f.Retire(time.Time{})
	if busy := f.sessions.requests(ctx); len(busy) > 0 {
		return fmt.Errorf("waiting for the requests of %d intercepted connections: %w", len(busy), ctx.Err())
	}
	return nil
}

// Close refuses new tunnels, ends intercepted connections as Retire does, and waits for
// all that are open until ctx ends; then it cuts the rest and returns an error. It does not wait for
// payments of cut connections: the ServeHTTP of their CONNECT returns when they are done.
func (f *Proxy) Close(ctx context.Context) error {
	f.tunnels.shut()
	f.Retire(time.Time{})
	err := f.tunnels.close(ctx)
	f.sessions.draining.Wait()
	f.upstream.CloseIdleConnections()
	return err
}

// isOwn reports whether a URL leads to ourselves. Its scheme must be ours too: what is
// asked for over TLS is not served without.
func (f *Proxy) isOwn(u *url.URL) bool {
	return strings.EqualFold(u.Scheme, "http") && f.own(strings.ToLower(u.Host))
}

// withoutSocketScheme returns a request for a ws:// or wss:// URL as one for http:// or https://, which is
// the same on the wire. Some clients of WebSockets send those to a proxy.
func withoutSocketScheme(r *http.Request) *http.Request {
	plain := map[string]string{"ws": "http", "wss": "https"}[strings.ToLower(r.URL.Scheme)]
	if plain == "" {
		return r
	}
	out := r.WithContext(r.Context())
	u := *r.URL
	u.Scheme, out.URL = plain, &u
	return out
}

// originForm returns an absolute-form request as it would have come without a proxy. Its
// credentials were for the proxy, and the API has its own.
func originForm(r *http.Request) *http.Request {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.URL.User = "", "", nil
	out.RequestURI = out.URL.RequestURI()
	maps.DeleteFunc(out.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Proxy-") })
	return out
}

// drainTime bounds how long a client may take to send the rest of a refused request's body.
const drainTime = 2 * time.Second

// refuse answers a proxy request with a refusal and logs it once. The caller has no key if none was found.
func (f *Proxy) refuse(w http.ResponseWriter, r *http.Request, who caller, no *refusal) {
	f.observer.Refused(no.reason)
	if who.key.ID != "" || no.reason != reasonCredentials { // otherwise the client's next request has them
		f.tellTurnedAway(r, who, no.reason, no.text)
	}
	f.observer.Answered(proxy.ResultRefused)
	level := slog.LevelInfo
	if no.status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	f.log.Log(r.Context(), level, "proxy request refused", "method", r.Method, "host", shorten(r.Host),
		"peer", r.RemoteAddr, "status", no.status, "reason", no.reason, "cause", no.cause)
	maps.Copy(w.Header(), no.header)
	if r.ContentLength != 0 { // the server reads the rest of the body before it sends the answer
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime))
	}
	proxy.WriteResponse(w, proxy.DetailedResponse(r, no.status, no.reason, no.text, no.detail)) //nolint:bodyclose // a body in memory
}

// refuseError answers a proxy request whose dial or send has failed, and logs it once.
func (f *Proxy) refuseError(w http.ResponseWriter, r *http.Request, err error) {
	var who caller
	if sent := relayedOf(r.Context()); sent != nil {
		who.key, who.task = sent.call.Key, sent.call.Task
		err = sent.call.Fail(err)
	}
	f.refuseDial(w, r, who, err)
}

// refuseDial answers a request of a caller whose dial or send has failed.
func (f *Proxy) refuseDial(w http.ResponseWriter, r *http.Request, who caller, err error) {
	resp := errorResponse(r, err) //nolint:bodyclose // a body in memory
	reason, ctx := resp.Header.Get(proxy.HeaderError), r.Context()
	f.observer.Refused(reason)
	f.tellDenied(r, who, reason, err)
	if lost, ok := errors.AsType[*proxy.SendError](err); ok {
		ctx = pay.WithPayment(ctx, lost.Payment.ID)
	}
	f.log.InfoContext(ctx, "proxy request failed", "method", r.Method, "host", shorten(r.Host), "reason", reason, "error", err)
	proxy.WriteResponse(w, resp)
}

// tellDenied tells of a request that was not sent because of the address it leads to, or for want of room.
func (f *Proxy) tellDenied(r *http.Request, who caller, reason string, err error) {
	_, sent := errors.AsType[*proxy.SendError](err)
	_, denied := errors.AsType[*guard.DeniedError](err)
	switch {
	case sent:
	case denied: // which address it was, is for the log only
		f.tellTurnedAway(r, who, reason, "This proxy does not connect to that address")
	case errors.Is(err, errTunnels):
		f.tellTurnedAway(r, who, reason, textTunnels)
	}
}

// tellTurnedAway tells the observer of a refused request. A dry run buys nothing, so it is not told.
func (f *Proxy) tellTurnedAway(r *http.Request, who caller, reason, detail string) {
	if sent := relayedOf(r.Context()); sent != nil && sent.call.Dry || proxy.IsDryRun(r.Header) {
		return
	}
	target := "https://" + r.Host // of a CONNECT, or inside one
	if r.Method != http.MethodConnect && r.URL.IsAbs() {
		target = r.URL.Scheme + "://" + r.URL.Host
	}
	f.observer.TurnedAway(pay.Decline{Reason: reason, Detail: detail, KeyID: who.key.ID, Task: who.task, Host: pay.RecordedHost(shorten(target))})
}

// errorResponse makes the answer for an error of a dial or a send.
func errorResponse(r *http.Request, err error) *http.Response {
	var lost *proxy.SendError
	if errors.Is(err, errTunnels) && !errors.As(err, &lost) {
		return proxy.OwnResponse(r, http.StatusServiceUnavailable, reasonTunnels, textTunnels)
	}
	return proxy.ErrorResponse(r, err)
}

// shorten cuts the words of a client for the log.
func shorten(s string) string { return fmt.Sprintf("%.200s", s) }
