package forward

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy"
)

// newRelay is the way of an absolute-form request: streaming, upgrades, trailers and
// informational responses are the standard library's.
func (f *Proxy) newRelay() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:  f.transport,
		BufferPool: &buffers{sync.Pool{New: func() any { return new([bufferSize]byte) }}},
		ErrorLog:   log.New(io.Discard, "", 0), // errors are answered and logged by ErrorHandler
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.RawQuery = p.In.URL.RawQuery // as it came, even what cannot be parsed
			p.Out.Trailer = p.In.Trailer           // filled in while the body is read
			cleanOutbound(p.Out.Header, relayedOf(p.In.Context()).secrets)
			keepWebSocketOnly(p.Out.Header)
			f.addVia(p.Out.Header, p.In.Proto)
		},
		ModifyResponse: func(resp *http.Response) error {
			f.addVia(resp.Header, resp.Proto)
			call := relayedOf(resp.Request.Context()).call
			call.Answering()
			if resp.StatusCode == http.StatusSwitchingProtocols {
				return f.upgraded(resp, call)
			}
			return nil
		},
		ErrorHandler: f.refuseError,
	}
}

// serveAbsolute relays an absolute-form request. If purser opens a host's HTTPS, it sends a request
// for an https URL over TLS. Its client cannot do that itself.
func (f *Proxy) serveAbsolute(w http.ResponseWriter, r *http.Request) {
	r, over := conns.Lasting(r)
	defer over()
	var who caller
	no := f.checkAbsolute(r)
	if no == nil {
		who, no = f.authenticate(r)
	}
	if no != nil {
		f.refuse(w, r, who, no)
		return
	}
	if strings.EqualFold(r.URL.Scheme, "https") { // the client's way into an interception
		f.relayFor(w, ofSite(r, &tls.ConnectionState{HandshakeComplete: true, ServerName: r.URL.Hostname()}), who, f.throughInside(who, func(in *http.Request) *http.Request {
			out := in.WithContext(in.Context())
			u := *in.URL
			u.Scheme, u.Host = r.URL.Scheme, r.URL.Host
			out.URL, out.Host = &u, r.Host
			return out
		}))
		return
	}
	f.relayFor(w, r, who, func(w http.ResponseWriter, r *http.Request, relay http.Handler) { relay.ServeHTTP(w, r) })
}

// relayed is a request on its way upstream.
type relayed struct {
	call    *proxy.Call
	secrets []string // that must not go upstream
	whole   bool     // the last answer was relayed to its end
}

type relayedKey struct{}

func relayedOf(ctx context.Context) *relayed {
	sent, _ := ctx.Value(relayedKey{}).(*relayed)
	return sent
}

// relayFor relays a request that has passed all checks, and pays for it. The request goes through handlers, which
// may answer it themselves, or relay it more than once.
func (f *Proxy) relayFor(w http.ResponseWriter, r *http.Request, who caller, through func(http.ResponseWriter, *http.Request, http.Handler)) {
	leave, err := f.relayed.Take(who.key.ID)
	if err != nil {
		f.refuse(w, r, who, busy(proxy.DeclinedOverloaded, "Too many requests of this key are under way", nil))
		return
	}
	defer leave()
	call := proxy.NewCall(who.key, who.task, proxy.IdempotencyKey(r.Header))
	call.Ask(r.Header)
	written := false
	defer func() { call.Finish(written) }()
	w = conns.Ending(w, r, call.Pending)
	sent := &relayed{call: call, secrets: []string{who.secret, f.standIn}}
	through(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent.whole = false
		w, settle := conns.Settling(w)
		defer settle()
		// It panics with http.ErrAbortHandler when the answer is cut short.
		f.relay.ServeHTTP(w, r.WithContext(context.WithValue(proxy.WithCall(r.Context(), call), relayedKey{}, sent)))
		sent.whole = true
	}))
	// An answer that is still in a buffer has not been written out.
	if written = !call.Pending(); !written && sent.whole && http.NewResponseController(w).Flush() == nil {
		written = true
		call.Written(w, r)
	}
}

// checkAbsolute refuses requests that cannot or must not be relayed.
func (f *Proxy) checkAbsolute(r *http.Request) *refusal {
	u := r.URL
	host, err := guard.NormalHost(u.Hostname())
	switch scheme := strings.ToLower(u.Scheme); {
	case r.ProtoMajor != 1:
		return otherProtocol
	case scheme == "https" && !f.interception.opens(host):
		return badRequest("This proxy does not fetch https:// URLs for its clients: use CONNECT, as HTTPS_PROXY makes clients do")
	case scheme != "http" && scheme != "https":
		return badRequest("Only http://, https://, ws:// and wss:// URLs can be requested in absolute form")
	case u.User != nil:
		return badRequest("A URL with credentials cannot be relayed")
	case u.Host == "" || u.Opaque != "":
		return badRequest("The URL has no host")
	case r.Method == http.MethodTrace:
		return notRelayed(r)
	case looped(r.Header, f.pseudonym):
		return inALoop
	case err != nil:
		return badRequest("The URL has no usable host")
	}
	return nil
}

// buffers are the copy buffers of all relayed answers.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

func (b *buffers) Get() []byte  { return b.pool.Get().(*[bufferSize]byte)[:] }
func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }

// looped reports whether a request has been through this proxy already.
func looped(h http.Header, pseudonym string) bool {
	for _, line := range h.Values("Via") {
		for entry := range strings.SplitSeq(line, ",") {
			if fields := strings.Fields(entry); len(fields) >= 2 && fields[1] == pseudonym {
				return true
			}
		}
	}
	return false
}

// addVia names us by a pseudonym that only this process has, so that several pursers can stand in a
// row. proto is what the message came in, such as HTTP/1.1.
func (f *Proxy) addVia(h http.Header, proto string) {
	if !f.hideVia {
		h["Via"] = append(h["Via"], strings.TrimPrefix(proto, "HTTP/")+" "+f.pseudonym)
	}
}

// forwarded reports whether another proxy forwarded the request.
func forwarded(h http.Header) bool {
	for name := range h {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}

// cleanOutbound takes out what must not go upstream, beside the hop-by-hop headers: what is for
// proxies, what is about the client's side, purser's own headers, and purser's own keys.
func cleanOutbound(h http.Header, secrets []string) {
	if failpoint.Off(failpoint.Strip) {
		return
	}
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		return strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "Purser-")
	})
	for _, name := range []string{"Forwarded", "X-Real-Ip", "Expect", "Keep-Alive", "Alt-Used"} {
		h.Del(name)
	}
	StripSecrets(h, secrets...)
}

// StripSecrets takes out API keys of purser's, in the headers that clients of its API send
// them in. Other values of those headers stay.
func StripSecrets(h http.Header, secrets ...string) {
	for _, name := range []string{"X-Api-Key", "Authorization"} {
		if values := h[name]; slices.ContainsFunc(values, holds(secrets)) {
			if values = slices.DeleteFunc(slices.Clone(values), holds(secrets)); len(values) == 0 {
				delete(h, name)
			} else {
				h[name] = values
			}
		}
	}
}

// StripEverywhere takes out the headers that hold a secret anywhere.
func StripEverywhere(h http.Header, secret string) {
	maps.DeleteFunc(h, func(_ string, values []string) bool {
		return secret != "" && strings.Contains(strings.Join(values, "\n"), secret)
	})
}

// StripForwarded takes out headers that tell of this machine. Sellers make the URLs of their
// challenges from them. Caddy's header operations do the same, at four times the cost.
func StripForwarded(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded" || name == "X-Real-Ip" {
			delete(h, name)
		}
	}
}

// holds recognizes header values that are one of the secrets, by itself or as a bearer's.
func holds(secrets []string) func(value string) bool {
	return func(value string) bool {
		value = strings.TrimSpace(value)
		if scheme, token, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "Bearer") {
			value = strings.TrimSpace(token)
		} else if user, _, ok := basicCredentials(value); ok {
			value = user
		}
		return slices.ContainsFunc(secrets, func(secret string) bool {
			return secret != "" && subtle.ConstantTimeCompare([]byte(value), []byte(secret)) == 1
		})
	}
}

// keepWebSocketOnly takes out upgrades to anything but WebSocket: what such a connection
// would carry is not HTTP requests that could be looked at.
func keepWebSocketOnly(h http.Header) {
	if u := h.Get("Upgrade"); u != "" && !strings.EqualFold(u, "websocket") {
		h.Del("Upgrade")
		h.Del("Connection")
		h.Del("Http2-Settings")
	}
}

// caller holds the key, its secret and the task that a proxy request pays with.
type caller struct {
	key    pay.Key
	secret string
	task   string
	guest  bool // the request may have the key of a guest
}

// refusal is an answer of purser's own instead of the upstream's.
type refusal struct {
	status int
	text   string
	detail string // "": the text says it all
	reason string
	header http.Header // more headers
	cause  error       // for the log
}

// Reasons of refusals.
const (
	reasonCredentials = "proxy-credentials" //nolint:gosec // a reason word
	reasonTask        = proxy.ReasonTask
	reasonRelay       = "relay-not-allowed"
	reasonTooMany     = proxy.ReasonTooManyLogins
	reasonBadRequest  = "bad-request"
	reasonLoop        = "loop"
	reasonMethod      = "method"
	reasonTunnels     = "too-many-tunnels"
	reasonProtocol    = "http-version"

	textTunnels = "Too many tunnels are open"
)

var (
	otherProtocol = &refusal{status: http.StatusHTTPVersionNotSupported, reason: reasonProtocol, text: "This proxy speaks HTTP/1.1"}
	inALoop       = &refusal{status: http.StatusLoopDetected, reason: reasonLoop, text: "This request has been through this proxy already"}
	notForThisKey = &refusal{
		status: http.StatusForbidden, reason: reasonRelay,
		text: "A key of POST /api-keys may not use this proxy until the operator lets it: purser limits KEY --door proxy --door api",
	}
	needsCredentials = &refusal{
		status: http.StatusProxyAuthRequired, reason: reasonCredentials,
		text:   "This proxy needs an API key: http://<API key>[:<task>]@<host>:<port> as the proxy's URL",
		header: asksForKey,
	}
	unknownKey = &refusal{
		status: http.StatusProxyAuthRequired, reason: reasonCredentials, text: declines.UnknownKey, detail: declines.UnknownKeyDetail,
		header: asksForKey,
	}
	asksForKey = http.Header{"Proxy-Authenticate": {`Basic realm="purser", charset="UTF-8"`}}
)

func badRequest(text string) *refusal {
	return &refusal{status: http.StatusBadRequest, reason: reasonBadRequest, text: text}
}

func notRelayed(r *http.Request) *refusal {
	return &refusal{status: http.StatusMethodNotAllowed, reason: reasonMethod, text: r.Method + " is not relayed"}
}

// busy refuses what may succeed a little later.
func busy(reason, text string, cause error) *refusal {
	return &refusal{
		status: http.StatusServiceUnavailable, reason: reason, text: text, header: http.Header{"Retry-After": {"5"}}, cause: cause,
	}
}

func unavailable(cause error) *refusal {
	return busy(proxy.DeclinedUnavailable, "Service unavailable", cause)
}

// authenticate finds the key that a proxy request pays with: the user name of its Basic
// credentials, with a task label, or nothing, as the password. A malformed label is answered with
// 400, because 407 would make clients ask for another password.
//
// The stand-in key, if there is one, serves clients on this machine that send neither credentials,
// right or wrong, nor forwarding headers.
func (f *Proxy) authenticate(r *http.Request) (who caller, no *refusal) {
	if who, no = f.login(r); no != nil {
		return who, no
	}
	who.guest = f.admits(r)
	return who, who.relays()
}

// Guests says from where keys that strangers may have made use a proxy.
type Guests int

// Values of Guests. The peer of a connection is of this machine if its address is a loopback one, or it
// has none, as on a socket. A request that another proxy has forwarded is not of this machine.
const (
	GuestsEverywhere Guests = iota
	GuestsHere              // from this machine
	NoGuests
)

// admits reports whether a request may come with the key of a guest.
func (f *Proxy) admits(r *http.Request) bool {
	peer := peerOf(r)
	return f.guests == GuestsEverywhere || f.guests == GuestsHere && !forwarded(r.Header) && (peer.IsLoopback() || !peer.IsValid())
}

// relays refuses a key that may not use the proxy.
func (c caller) relays() *refusal {
	if c.guest || c.key.Relays() {
		return nil
	}
	return notForThisKey
}

func (f *Proxy) login(r *http.Request) (caller, *refusal) {
	values := r.Header.Values("Proxy-Authorization")
	if len(values) == 0 && f.standIn != "" && !forwarded(r.Header) && peerOf(r).IsLoopback() {
		return f.resolve(r.Context(), netip.Addr{}, f.standIn, "")
	}
	if len(values) != 1 {
		return caller{}, needsCredentials
	}
	secret, task, ok := basicCredentials(values[0])
	switch {
	case !ok:
		return caller{}, needsCredentials
	case task != "" && !policy.ValidTask(task):
		return caller{}, &refusal{
			status: http.StatusBadRequest, reason: reasonTask,
			text: "The proxy password is a task label: 1 to 64 characters of A-Z a-z 0-9 . _ -",
		}
	}
	return f.resolve(r.Context(), peerOf(r), secret, task)
}

// resolve looks a secret up, unless its peer has failed too often.
func (f *Proxy) resolve(ctx context.Context, peer netip.Addr, secret, task string) (caller, *refusal) {
	key, err := f.logins.Key(ctx, peer, secret)
	if many, ok := errors.AsType[*proxy.TooManyError](err); ok {
		return caller{}, &refusal{status: http.StatusTooManyRequests, reason: reasonTooMany, text: "Too many requests", header: many.Header()}
	}
	switch {
	case errors.Is(err, pay.ErrKeyNotFound):
		return caller{}, unknownKey
	case err != nil:
		return caller{}, unavailable(err)
	}
	f.payer.NoteUse(key.ID, policy.DoorProxy)
	return caller{key: key, secret: secret, task: task}, nil
}

// basicCredentials reads a Basic header. Without a colon all of it is the user name.
func basicCredentials(value string) (user, password string, ok bool) {
	scheme, encoded, found := strings.Cut(value, " ")
	if !found || !strings.EqualFold(scheme, "Basic") {
		return "", "", false
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil {
		return "", "", false
	}
	user, password, _ = strings.Cut(string(b), ":")
	return user, password, user != ""
}

// peerOf returns the address of the connection's other end; the zero address if it has none.
func peerOf(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr().Unmap()
}
