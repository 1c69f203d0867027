package proxy

import (
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/guard"
)

// upstreamPing is how long an HTTP/2 connection to an upstream may be silent, while it is
// in use, before it is asked whether it still lives.
const upstreamPing = 30 * time.Second

// newUpstream is the transport that the proxy sends with. Nothing is added to requests,
// nothing decoded in answers, every connection goes through the guard, and every
// certificate is verified.
func newUpstream(g *guard.Dialer, roots *x509.CertPool, headerTimeout time.Duration) *http.Transport {
	if headerTimeout <= 0 {
		headerTimeout = 300 * time.Second
	}
	d := newUpstreamDialer(g, roots)
	return &http.Transport{
		Proxy:                  nil, // another proxy would move the guard's judgement to the wrong address
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true, // as it is not by itself with dialers
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: upstreamPing},
		ResponseHeaderTimeout:  headerTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 1 << 20,
		MaxIdleConns:           512,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        90 * time.Second,
	}
}

// newRelay is the way of an absolute-form request: streaming, upgrades, trailers and
// informational responses are the standard library's.
func (f *Forward) newRelay() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:  f.transport,
		BufferPool: &buffers{},
		ErrorLog:   log.New(io.Discard, "", 0), // errors are answered and logged by ErrorHandler
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.RawQuery = p.In.URL.RawQuery // as it came, even what cannot be parsed
			p.Out.Trailer = p.In.Trailer           // filled in while the body is read
			cleanOutbound(p.Out.Header, callOf(p.In.Context()).secrets)
			keepWebSocketOnly(p.Out.Header)
			addVia(p.Out.Header, p.In.Proto, f.pseudonym)
		},
		ModifyResponse: func(resp *http.Response) error {
			addVia(resp.Header, resp.Proto, f.pseudonym)
			call := callOf(resp.Request.Context())
			call.answering()
			if resp.StatusCode == http.StatusSwitchingProtocols {
				return f.upgraded(resp, call)
			}
			return nil
		},
		ErrorHandler: f.refuseError,
	}
}

// serveAbsolute relays an absolute-form request. One for an https URL is sent over TLS if
// the host is one whose HTTPS is opened; clients that send those cannot do it themselves.
func (f *Forward) serveAbsolute(w http.ResponseWriter, r *http.Request) {
	if no := f.checkAbsolute(r); no != nil {
		f.refuse(w, r, no)
		return
	}
	who, no := f.authenticate(r)
	if no != nil {
		f.refuse(w, r, no)
		return
	}
	f.relayFor(w, r, who)
}

// relayFor relays a request that has passed all checks, and pays for it.
func (f *Forward) relayFor(w http.ResponseWriter, r *http.Request, who caller) {
	leave, err := f.relayed.Take(who.key.ID)
	if err != nil {
		f.refuse(w, r, tooManyRequests)
		return
	}
	defer leave()
	call := NewCall(who.key, who.task, IdempotencyKey(r.Header))
	call.Anew = Anew(r.Header)
	written := false
	defer func() { call.Finish(written) }()
	call.secrets = []string{who.secret}
	if f.standIn != "" {
		call.secrets = append(call.secrets, f.standIn)
	}
	// It panics with http.ErrAbortHandler when the answer is cut short.
	f.relay.ServeHTTP(w, r.WithContext(WithCall(r.Context(), call)))
	// What is still in a buffer has not been written out.
	written = !call.waits() || http.NewResponseController(w).Flush() == nil
}

// checkAbsolute refuses requests that cannot or must not be relayed.
func (f *Forward) checkAbsolute(r *http.Request) *refusal {
	u := r.URL
	host, err := guard.NormalHost(u.Hostname())
	switch scheme := strings.ToLower(u.Scheme); {
	case r.ProtoMajor != 1:
		return &refusal{status: http.StatusHTTPVersionNotSupported, reason: reasonProtocol, text: "This proxy speaks HTTP/1.1"}
	case scheme == "https" && !f.interception.opens(host):
		return badRequest("This proxy does not fetch https:// URLs for its clients: use CONNECT, as HTTPS_PROXY makes clients do")
	case scheme != "http" && scheme != "https":
		return badRequest("Only http:// and https:// URLs can be requested in absolute form")
	case u.User != nil:
		return badRequest("A URL with credentials cannot be relayed")
	case u.Host == "" || u.Opaque != "":
		return badRequest("The URL has no host")
	case r.Method == http.MethodTrace:
		return &refusal{status: http.StatusMethodNotAllowed, reason: reasonMethod, text: "TRACE is not relayed"}
	case looped(r.Header, f.pseudonym):
		return &refusal{status: http.StatusLoopDetected, reason: reasonLoop, text: "This request has been through this proxy already"}
	case err != nil:
		return badRequest("The URL has no usable host")
	}
	return nil
}

// buffers are the copy buffers of all relayed answers.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return p[:]
	}
	return new([bufferSize]byte)[:]
}

func (b *buffers) Put(p []byte) {
	if len(p) == bufferSize {
		b.pool.Put((*[bufferSize]byte)(p))
	}
}
