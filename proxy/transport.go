package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

// PayOptions say how requests are paid for, at every door that sends them itself.
type PayOptions struct {
	// MaxReplay is how much of a request body is kept, in bytes, to send it again with a
	// payment. A longer one passes, and its 402 is not paid. Default: 1 MiB.
	MaxReplay int64
	// ChallengeHeaders are more response headers that may hold a challenge.
	ChallengeHeaders []string
	// AllowHTTP are hosts ("name" or "name:port") that may be paid over plain http although
	// their address is public.
	AllowHTTP []string
	// Declined hears the reason of every 402 that was not paid, for metrics.
	Declined func(reason string)
}

// TransportOptions configure a Transport. Payer and Next are required.
type TransportOptions struct {
	PayOptions

	Payer *pay.Payer
	// Next sends requests. It must call net/http/httptrace hooks as http.Transport does:
	// purser learns from them which address was dialled and whether a payload has left.
	Next http.RoundTripper
	// Door is what payments are booked under and what policies name. Default: proxy.
	Door pay.Door
	// MayPayPlain says which addresses may be paid over plain http without being listed.
	// Default: loopback and private ones.
	MayPayPlain func(remote netip.Addr) bool
	Logger      *slog.Logger
	Clock       pay.Clock
}

const defaultMaxReplay = 1 << 20

// Transport is an http.RoundTripper that pays. Requests go out as they came; when the
// answer is an x402 challenge, the payment is made and the request is sent once more with
// its payload.
//
// A request is paid for only if its context has a [Call]. URLs must be absolute. The
// answer to a paid request carries the Purser-* headers of reasons.go; a 402 that was not
// paid says why in Purser-Declined and is otherwise the seller's own. Redirects are never
// followed.
//
// Not touched: answers other than 402, 402s that are no x402 challenge, and requests that
// carry a payment already. That includes the pages that v1 sellers show to browsers (HTML,
// for a User-Agent with "Mozilla" that accepts text/html): there is no challenge in them.
type Transport struct {
	payer     *pay.Payer
	next      http.RoundTripper
	door      pay.Door
	maxReplay int64
	extra     []string
	plain     plainRule
	declined  func(string)
	log       *slog.Logger
	now       pay.Clock
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport makes a Transport.
func NewTransport(o TransportOptions) (*Transport, error) {
	if o.Payer == nil || o.Next == nil {
		return nil, errors.New("proxy: a payer and a transport to send with are required")
	}
	if o.MaxReplay < 0 {
		return nil, fmt.Errorf("proxy: replay limit of %d bytes", o.MaxReplay)
	}
	plain, err := newPlainRule(o.AllowHTTP, o.MayPayPlain)
	if err != nil {
		return nil, err
	}
	t := &Transport{
		payer: o.Payer, next: o.Next, door: o.Door, maxReplay: o.MaxReplay, extra: o.ChallengeHeaders,
		plain: plain, declined: o.Declined, log: o.Logger, now: o.Clock,
	}
	if t.door == "" {
		t.door = pay.DoorProxy
	}
	if t.maxReplay == 0 {
		t.maxReplay = defaultMaxReplay
	}
	if t.declined == nil {
		t.declined = func(string) {}
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if t.now == nil {
		t.now = time.Now
	}
	return t, nil
}

// RoundTrip sends the request and pays for it if need be.
//
// Once a payload may have left, an error is a *[SendError], which names the payment; any
// other error means that nothing of ours has reached the seller. [ErrorResponse] turns
// either into an answer without internals.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	call := callOf(req.Context())
	if call == nil || carriesPayment(req.Header) {
		return t.pass(req)
	}
	call.mu.Lock()
	defer call.mu.Unlock()
	switch {
	case call.finished:
		return t.pass(req)
	case call.memo == nil:
		return t.ask(req, call)
	case !call.memo.matches(req):
		return t.pass(req)
	}
	return t.again(req, call)
}

// again is a further attempt at a request that was paid for: the same payload, and no
// unpaid try before it.
func (t *Transport) again(req *http.Request, call *Call) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	if m := call.memo; m.over {
		if err := t.open(req, call, m, m.attempt.Payment().ID); err != nil {
			return nil, t.lost(req, m, err)
		}
	}
	return t.pay(req, call, nil)
}

// pass sends a request that is not paid for.
func (t *Transport) pass(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(withoutOwnHeaders(req))
	if err != nil {
		return nil, err
	}
	return guarded(resp)
}

// ask sends a request for the first time, without a payment, and pays if the answer is a
// challenge that can be paid.
func (t *Transport) ask(req *http.Request, call *Call) (*http.Response, error) {
	body := newReplay(req, t.maxReplay)
	first := withoutOwnHeaders(req)
	var seen trip
	if !t.plain.decided(req.URL) {
		first = first.WithContext(seen.watch(req.Context(), nil))
	}
	if body != nil {
		if first == req {
			first = req.WithContext(req.Context())
		}
		first.Body, first.GetBody = body, nil
	}
	resp, err := t.next.RoundTrip(first)
	if err == nil {
		resp, err = guarded(resp)
	}
	if err != nil {
		body.release()
		return nil, err
	}
	if resp.StatusCode != http.StatusPaymentRequired {
		body.release()
		return resp, nil
	}
	challenge, found, problem := readChallenge(resp, t.extra)
	if !found {
		body.release()
		return resp, nil
	}
	if !t.plain.allows(req.URL, seen.remote()) {
		body.release()
		return t.decline(req, resp, DeclinedPlainHTTP, nil), nil
	}
	content, err := body.whole()
	body.release()
	switch {
	case errors.Is(err, errTooLarge):
		return t.decline(req, resp, DeclinedBodyTooLarge, nil), nil
	case err != nil:
		return t.decline(req, resp, DeclinedBodyIncomplete, err), nil
	}
	if problem != nil {
		// An earlier payment may answer this request all the same; a new one cannot be made.
		t.log.Info("challenge not readable", "host", req.URL.Host, "error", problem)
		challenge.Accepts = nil
	}
	if err := t.open(req, call, &memo{
		challenge: challenge, method: methodOf(req), uri: req.URL.RequestURI(), body: content, http1: resp.ProtoMajor < 2,
	}, ""); err != nil {
		return t.refuse(req, resp, err), nil
	}
	return t.pay(req, call, resp)
}

// decline hands the seller's 402 on, with the reason why it was not paid.
func (t *Transport) decline(req *http.Request, resp *http.Response, reason string, cause error) *http.Response {
	t.declined(reason)
	if cause != nil {
		t.log.Info("402 not paid", "host", req.URL.Host, "reason", reason, "error", cause)
	} else {
		t.log.Info("402 not paid", "host", req.URL.Host, "reason", reason)
	}
	resp.Header.Set(HeaderDeclined, reason)
	return resp
}

// refuse hands on the 402 after the pay core has said no.
func (t *Transport) refuse(req *http.Request, resp *http.Response, err error) *http.Response {
	reason, held := declined(err)
	if reason == DeclinedUnavailable || reason == DeclinedInternal {
		// The journal could not be asked, so a payload for this request may be out. A client
		// that knows x402 would pay the seller's challenge again.
		t.declined(reason)
		t.log.Error("402 not paid", "host", req.URL.Host, "reason", reason, "error", err)
		closeBody(resp)
		out := ownResponse(req, http.StatusServiceUnavailable, problem{Error: "Payments are not possible at the moment; repeat the same request", Reason: reason})
		out.Header.Set("Retry-After", "5")
		return out
	}
	t.decline(req, resp, reason, err)
	if held != nil {
		t.withhold(req, resp, held, reason)
	}
	return resp
}

// carriesPayment reports whether the client pays by itself.
func carriesPayment(h http.Header) bool {
	for _, name := range paymentHeaders {
		if len(h.Values(name)) > 0 {
			return true
		}
	}
	return false
}

// withoutOwnHeaders is req without Purser-* headers from outside; req itself if it has none.
func withoutOwnHeaders(req *http.Request) *http.Request {
	if !hasOwn(req.Header) {
		return req
	}
	out := req.WithContext(req.Context())
	out.Header = req.Header.Clone()
	dropOwn(out.Header)
	return out
}

func hasOwn(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, ownPrefix) {
			return true
		}
	}
	return false
}

func dropOwn(h http.Header) {
	for name := range h {
		if strings.HasPrefix(http.CanonicalHeaderKey(name), ownPrefix) {
			delete(h, name)
		}
	}
}
