package forward

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/guard"
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
			addVia(p.Out.Header, p.In.Proto, f.pseudonym)
		},
		ModifyResponse: func(resp *http.Response) error {
			addVia(resp.Header, resp.Proto, f.pseudonym)
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
	f.relayFor(w, r, who)
}

// relayed is a request on its way upstream.
type relayed struct {
	call    *proxy.Call
	secrets []string // that must not go upstream
}

type relayedKey struct{}

func relayedOf(ctx context.Context) *relayed {
	sent, _ := ctx.Value(relayedKey{}).(*relayed)
	return sent
}

// relayFor relays a request that has passed all checks, and pays for it.
func (f *Proxy) relayFor(w http.ResponseWriter, r *http.Request, who caller) {
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
	// It panics with http.ErrAbortHandler when the answer is cut short.
	sent := &relayed{call: call, secrets: []string{who.secret, f.standIn}}
	f.relay.ServeHTTP(w, r.WithContext(context.WithValue(proxy.WithCall(r.Context(), call), relayedKey{}, sent)))
	// An answer that is still in a buffer has not been written out.
	if written = !call.Pending(); !written && http.NewResponseController(w).Flush() == nil {
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
