package proxy

import (
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/pay"
)

// Transport is an http.RoundTripper that pays. Requests go out as they came; when the
// answer is an x402 challenge, the payment is made and the request is sent once more with
// its payload.
//
// A request is paid for only if its context has a [Call]. URLs must be absolute. The
// answer to a paid request carries the Purser-* headers of reasons.go; a 402 that was not
// paid says why in Purser-Declined and is otherwise the seller's own. Redirects are never
// followed; a 402 where the answer to a payment has led is not paid, and has no challenge.
//
// Not touched: answers other than 402, 402s that are no x402 challenge, and requests that
// carry a payment already. That includes the pages that v1 sellers show to browsers (HTML,
// for a User-Agent with "Mozilla" that accepts text/html): there is no challenge in them.
type Transport struct {
	payer     *pay.Payer
	next      http.RoundTripper
	door      pay.Door
	spool     *spooler
	extra     []string
	plain     plainRule
	gate      *admission.Gate // for deciding and journaling, by key
	sellers   *sellers
	redirects *redirects
	declined  func(string)
	observer  Observer
	log       *slog.Logger
	now       pay.Clock
	patience  time.Duration // with a 402 to a payload whose body does not end
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip sends the request and pays for it if need be.
//
// Once a payload may have left, an error is a *[SendError], which names the payment; any
// other error means that nothing of ours has reached the seller. [ErrorResponse] turns
// either into an answer without internals.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.roundTrip(req)
	t.observer.Answered(resultOf(resp, err))
	return resp, err
}

func (t *Transport) roundTrip(req *http.Request) (*http.Response, error) {
	call := callOf(req.Context())
	// A URL without a host of its own could be booked, and judged, as what it is not.
	if call == nil || carriesPayment(req.Header) || req.URL.Opaque != "" {
		return t.pass(req)
	}
	call.mu.Lock()
	defer call.mu.Unlock()
	switch m := call.memo; {
	case m != nil && (call.finished || !m.matches(req)):
		return t.elsewhere(req, call)
	case call.finished:
		return t.pass(req)
	case m != nil:
		return t.again(req, call)
	}
	return t.ask(req, call)
}

// again is a further attempt at a request that was paid for: the same payload, and no
// unpaid try before it.
func (t *Transport) again(req *http.Request, call *Call) (*http.Response, error) {
	m := call.memo
	if req.Body != nil {
		call.spare = append(call.spare, req.Body)
	}
	if m.body.gone() {
		return nil, t.lost(req, m, errGone)
	}
	if m.over {
		if err := t.open(req, call, m, m.attempt.Payment().ID); err != nil {
			return nil, t.lost(req, m, err)
		}
	}
	return t.pay(req, call, nil)
}

// elsewhere sends an attempt that the call's payment is not for. The payload has left all
// the same, so a challenge in the answer must not reach the client, who might pay it.
func (t *Transport) elsewhere(req *http.Request, call *Call) (*http.Response, error) {
	m := call.memo
	out := req
	if !call.finished {
		body, err := call.content(req, t.spool)
		if err != nil {
			return nil, t.lost(req, m, err)
		}
		out = withBody(req, body)
	}
	resp, err := t.pass(out)
	if err != nil {
		return nil, t.lost(req, m, err)
	}
	if resp.StatusCode >= http.StatusBadRequest && !m.over {
		m.unanswered()
	}
	if resp.StatusCode == http.StatusPaymentRequired {
		p := m.attempt.Payment()
		reason := afterSend(p)
		t.declined(reason)
		t.log.WarnContext(req.Context(), "402 to another request of a paid call", "payment", p.ID, "host", req.URL.Host, "reason", reason)
		t.withhold(req, resp, p, reason)
	}
	return resp, nil
}

// pass sends a request that is not paid for.
func (t *Transport) pass(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(withoutOwnHeaders(req))
	if err != nil {
		return nil, err
	}
	return guarded(resp)
}

// ask sends a request without a payment, and pays if the answer is a challenge that can
// be paid. The body is kept as long as another attempt may follow.
func (t *Transport) ask(req *http.Request, call *Call) (*http.Response, error) {
	body, err := call.content(req, t.spool)
	if err != nil {
		return nil, err
	}
	first := withBody(withoutOwnHeaders(req), body)
	var seen trip
	if !t.plain.decided(req.URL) {
		first = first.WithContext(seen.watch(req.Context(), nil, nil))
	}
	resp, err := t.next.RoundTrip(first)
	if err == nil {
		resp, err = guarded(resp)
	}
	if err != nil {
		return nil, err
	}
	led := t.redirects.to(call.Key.ID, req.URL)
	if resp.StatusCode != http.StatusPaymentRequired {
		if resp.StatusCode < http.StatusBadRequest {
			call.body.release()
		}
		if led != "" {
			t.redirects.arrived(call.Key.ID, req.URL)
			t.redirects.from(call.Key.ID, req, resp, led)
		}
		return resp, nil
	}
	challenge, found, problem := readChallenge(resp, t.extra)
	if !found {
		return resp, nil
	}
	if led != "" {
		return t.declineLed(req, call, resp, led), nil
	}
	if !t.plain.allows(req.URL, seen.remote()) {
		return t.decline(req, resp, DeclinedPlainHTTP, nil), nil
	}
	kept, err := call.whole(req)
	if err != nil {
		return t.unkept(req, resp, err), nil
	}
	if problem != nil {
		// An earlier payment may answer this request all the same; a new one cannot be made.
		t.log.InfoContext(req.Context(), "challenge not readable", "key", keyOf(req), "host", req.URL.Host, "error", problem)
		challenge.Accepts = nil
	}
	if err := t.open(req, call, &memo{
		challenge: challenge, method: methodOf(req), uri: req.URL.RequestURI(), body: kept, http1: resp.ProtoMajor < 2, host: req.URL.Host,
	}, ""); err != nil {
		return t.refuse(req, resp, err), nil
	}
	return t.pay(req, call, resp)
}

// decline hands the seller's 402 on, with the reason why it was not paid.
func (t *Transport) decline(req *http.Request, resp *http.Response, reason string, cause error) *http.Response {
	t.declined(reason)
	log := t.log.With("key", keyOf(req), "host", req.URL.Host, "reason", reason)
	if cause != nil {
		log.InfoContext(req.Context(), "402 not paid", "error", cause)
	} else {
		log.InfoContext(req.Context(), "402 not paid")
	}
	resp.Header.Set(HeaderDeclined, reason)
	return resp
}

// refuse hands on the 402 after the pay core has said no.
func (t *Transport) refuse(req *http.Request, resp *http.Response, err error) *http.Response {
	reason, held := declined(err)
	if failures, is := errors.AsType[*pay.FailuresError](err); is {
		resp.Header.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(failures.RetryAfter.Seconds())))))
		return t.decline(req, resp, reason, err)
	}
	if reason == DeclinedOverloaded {
		t.declined(reason)
		t.log.WarnContext(req.Context(), "402 not paid", "key", keyOf(req), "host", req.URL.Host, "reason", reason, "error", err)
		closeBody(resp)
		return overloaded(req)
	}
	if reason == DeclinedUnavailable || reason == DeclinedReconciling || reason == DeclinedClock || reason == DeclinedInternal {
		// The journal could not be asked, so a payload for this request may be out. A client
		// that knows x402 would pay the seller's challenge again.
		t.declined(reason)
		t.log.ErrorContext(req.Context(), "402 not paid", "key", keyOf(req), "host", req.URL.Host, "reason", reason, "error", err)
		closeBody(resp)
		text := "Payments are not possible at the moment; repeat the same request"
		if restored, ok := errors.AsType[*pay.ReconcilingError](err); ok {
			text = "Payments are not possible at the moment: " + restored.Error()
		}
		if clock, ok := errors.AsType[*pay.ClockError](err); ok {
			text = "Payments are not possible at the moment: " + clock.Error()
		}
		out := ownResponse(req, http.StatusServiceUnavailable, problem{Error: text, Reason: reason})
		out.Header.Set("Retry-After", "5")
		return out
	}
	if held == nil {
		return t.decline(req, resp, reason, err)
	}
	t.decline(req.WithContext(pay.WithPayment(req.Context(), held.ID)), resp, reason, err)
	t.withhold(req, resp, held, reason)
	return resp
}

// keyOf is the id of the key that a request is made for, for the log.
func keyOf(req *http.Request) string {
	if call := callOf(req.Context()); call != nil {
		return call.Key.ID
	}
	return ""
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

// withBody is req with another body; req itself if there is none.
func withBody(req *http.Request, body *reading) *http.Request {
	if body == nil {
		return req
	}
	out := req.WithContext(req.Context())
	out.Body, out.GetBody = body, nil
	return out
}

// withoutOwnHeaders is req without Purser-* headers from outside; req itself if it has none.
func withoutOwnHeaders(req *http.Request) *http.Request {
	if !hasOwn(req.Header) {
		return req
	}
	out := req.WithContext(req.Context())
	out.Header = req.Header.Clone()
	StripOwn(out.Header)
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

// StripOwn takes out Purser-* headers: from another sender they are forged.
func StripOwn(h http.Header) {
	for name := range h {
		if strings.HasPrefix(http.CanonicalHeaderKey(name), ownPrefix) {
			delete(h, name)
		}
	}
}
