package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// SendError: the payload of a payment has left, or may have, and no answer came back. The
// payment stays what it is; a repeat of the request sends the same payload again.
type SendError struct {
	Payment *pay.Payment
	Timeout bool // the seller did not answer in time
	cause   error
}

func (e *SendError) Error() string {
	return fmt.Sprintf("no answer to the paid request (payment %s is %s): %v", e.Payment.ID, e.Payment.State, e.cause)
}

func (e *SendError) Unwrap() error { return e.cause }

// pay sends the request with the call's payload, once, and learns from the answer what
// became of the payment. challenged is the 402 that asked for it, nil on a further attempt.
func (t *Transport) pay(req *http.Request, call *Call, challenged *http.Response) (*http.Response, error) {
	m := call.memo
	resp, seen, err := t.send(req, m)
	if err == nil {
		m.left = true
		closeBody(challenged)
		return t.answered(req, m, resp), nil
	}
	repeats := m.attempt.Repeats()
	if seen.unconnected() && !m.left {
		m.attempt.Abandon("no connection to the seller")
		m.over = true
		if !repeats { // nothing has left, ever: there is no payment
			call.memo = nil
			if seen.astray.Load() && challenged != nil {
				return t.decline(req, challenged, DeclinedPlainHTTP, nil), nil
			}
			closeBody(challenged)
			return nil, err
		}
	} else {
		m.attempt.Observe("no answer: " + errorKind(err))
		m.unanswered()
	}
	closeBody(challenged)
	return nil, t.lost(req, m, err)
}

// lost is the error for a payload that has left and brought no answer.
func (t *Transport) lost(req *http.Request, m *memo, cause error) error {
	p := m.attempt.Payment()
	t.log.Warn("paid request without an answer", "payment", p.ID, "host", req.URL.Host, "error", cause)
	return &SendError{Payment: p, Timeout: timedOut(cause), cause: cause}
}

// send writes the paid request and waits for its response headers.
//
// http.Transport sends requests again by itself when a kept connection turns out to be
// closed, for GET even after the header was written. So a paid request is given a form
// that it does not repeat, and is repeated here only if nothing of it was written.
func (t *Transport) send(req *http.Request, m *memo) (resp *http.Response, seen *trip, err error) {
	for range 2 {
		seen = new(trip)
		if resp, err = t.sendOnce(req, m, seen); err == nil || !seen.stale() {
			break
		}
	}
	return resp, seen, err
}

func (t *Transport) sendOnce(req *http.Request, m *memo, seen *trip) (*http.Response, error) {
	// Until the response headers are there the send is the payment's, after that the body
	// is the caller's.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(req.Context()))
	sending, endSend := m.attempt.SendContext()
	stopSending := context.AfterFunc(sending, func() { cancel(context.Cause(sending)) })

	resp, err := t.next.RoundTrip(t.paid(req, m, seen, ctx))
	if err == nil {
		resp, err = guarded(resp)
	}
	if !stopSending() && err != nil {
		err = fmt.Errorf("%w: %w", context.Cause(sending), err)
	}
	endSend()
	if err != nil {
		cancel(nil)
		return nil, err
	}
	leave := context.AfterFunc(req.Context(), func() { cancel(context.Cause(req.Context())) })
	onClose(resp, func() {
		leave()
		cancel(nil)
	})
	return resp, nil
}

// paid is the request with its payment.
func (t *Transport) paid(req *http.Request, m *memo, seen *trip, ctx context.Context) *http.Request {
	var allowed func(net.Addr) bool
	if !t.plain.decided(req.URL) {
		allowed = func(remote net.Addr) bool { return t.plain.allows(req.URL, remote) }
	}
	out := req.Clone(seen.watch(ctx, allowed))
	dropOwn(out.Header)
	payload := m.attempt.Payload()
	out.Header.Set(payload.HeaderName(), payload.Header())
	out.Trailer = req.Trailer // filled in while the body was read
	out.GetBody = nil
	switch {
	case len(m.body) > 0 || len(req.Trailer) > 0:
		out.Body = io.NopCloser(bytes.NewReader(m.body))
	case usuallyBodiless(out.Method):
		// An empty body that is not http.NoBody keeps the transport from sending the request
		// again by itself. Over HTTP/1 it is not seen on the wire; HTTP/2 repeats only what
		// was not processed, and would show it.
		out.Body, out.ContentLength = http.NoBody, 0
		if m.http1 {
			out.Body = empty{}
		}
	default:
		out.Body, out.ContentLength = http.NoBody, 0
		// http.Transport repeats a bodiless request by itself if it has one of these in
		// canonical form; on the wire the case does not matter.
		for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
			if v, ok := out.Header[name]; ok {
				delete(out.Header, name)
				out.Header[strings.ToLower(name)] = v
			}
		}
	}
	return out
}

// empty is a body of nothing.
type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, io.EOF }
func (empty) Close() error             { return nil }

func usuallyBodiless(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete:
		return true
	}
	return false
}

// answered learns from an answer to the payload and makes it the client's.
func (t *Transport) answered(req *http.Request, m *memo, resp *http.Response) *http.Response {
	a := m.attempt
	receipt, has, err := x402.ReceiptFromHeader(resp.Header)
	switch {
	case has && err == nil:
		a.Receipt(receipt)
	case has:
		a.Observe("receipt not readable: " + err.Error())
	}
	if resp.StatusCode == http.StatusPaymentRequired {
		challenge, found, _ := readChallenge(resp, nil)
		if challenge.Error == "" {
			challenge, found, _ = readChallenge(resp, t.extra)
		}
		if found || !has {
			a.Answer402(challenge.Error)
		}
		p := a.Payment()
		reason := afterSend(p)
		t.declined(reason)
		t.log.Warn("402 after the payment was sent", "payment", p.ID, "host", req.URL.Host, "reason", reason, "seller", shorten(challenge.Error))
		t.withhold(req, resp, p, reason)
	} else if resp.StatusCode >= http.StatusBadRequest {
		a.Observe(fmt.Sprintf("seller answered %d", resp.StatusCode))
	}
	label(resp.Header, a.Payment())
	if resp.StatusCode >= http.StatusBadRequest {
		m.unanswered()
	}
	return resp
}

func closeBody(resp *http.Response) {
	if resp != nil {
		_ = resp.Body.Close()
	}
}

func timedOut(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// errorKind says what went wrong without addresses or names, which have no place in the
// payment's story.
func errorKind(err error) string {
	switch {
	case timedOut(err):
		return "timeout"
	case errors.Is(err, pay.ErrLeaseLost):
		return "lease lost"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	}
	return "connection failed"
}

// shorten cuts a seller's words for the log.
func shorten(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
