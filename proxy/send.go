package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
)

// SendError reports that the payload of a payment has left, or may have, and no answer came back.
// The payment stays as it is; a repeat of the request sends the same payload again. It is a
// net.Error.
type SendError struct {
	Payment *pay.Payment
	cause   error
}

var _ net.Error = (*SendError)(nil)

func (e *SendError) Error() string {
	return fmt.Sprintf("no answer to the paid request (payment %s is %s): %v", e.Payment.ID, e.Payment.State, e.cause)
}

func (e *SendError) Unwrap() error { return e.cause }

// Timeout reports whether the seller did not answer in time.
func (e *SendError) Timeout() bool { return timedOut(e.cause) }

// Temporary implements net.Error: the same request may be sent again.
func (e *SendError) Temporary() bool { return true }

// sendPaid sends the request with the call's payload, once, and lets every party know what came of
// it. challenged is the 402 that asked for the payment, nil on a further attempt.
func (t *Transport) sendPaid(req *http.Request, call *Call, challenged *http.Response) (*http.Response, string, error) {
	m := call.memo
	resp, seen, err := t.send(req, call)
	if t.slimmer(m, resp, seen, err) {
		m.answered = m.answered || err == nil
		closeBody(resp)
		resp, seen, err = t.send(req, call)
	}
	if err == nil {
		failpoint.Here(failpoint.ProxyAnswered)
		m.answered = true
		m.recordReceipt(resp)
	}
	d := t.decide(m, challenged, resp, seen, err)
	if !d.left {
		m.attempt.Abandon("no connection to the seller")
		m.ended = true
		if m.repeats {
			closeBody(challenged)
			return nil, ResultUnanswered, t.lost(req, m, err)
		}
		call.memo = nil // nothing has left, ever: there is no payment
		if d.misled && challenged != nil {
			return t.decline(req, challenged, DeclinedPlainHTTP, nil)
		}
		closeBody(challenged)
		return nil, ResultFailed, err
	}
	closeBody(challenged)
	t.recordAnswer(m, &d)
	t.proofs.refused(req, call, &d)
	t.tellSellers(req, call, &d, resp)
	if err != nil {
		return nil, d.result, t.lost(req, m, err)
	}
	if !d.refused && leads(resp) {
		t.redirects.lead(req, call, resp, m.attempt.Payment().ID, 1)
	}
	if !d.refused {
		t.redirects.begins(req, call, resp, m.attempt.Payment())
	}
	return t.hand(req, m, resp, &d), d.result, nil
}

// lost returns the error for a payload that may have left and brought no answer to this attempt.
func (t *Transport) lost(req *http.Request, m *memo, cause error) error {
	if !m.ended {
		m.unanswered()
	}
	p := m.attempt.Payment()
	t.log.WarnContext(req.Context(), "paid request without an answer", "payment", p.ID, "host", req.URL.Host, "error", cause)
	return &SendError{Payment: p, cause: cause}
}

// send writes the paid request and waits for its response headers. http.Transport sends requests again
// by itself when a kept connection turns out to be closed, for GET even after the header was written.
// So a paid request has a form that it does not repeat, and is repeated here only if nothing of it was
// written, or if the seller says that it did not process it.
func (t *Transport) send(req *http.Request, call *Call) (resp *http.Response, seen *sendTrace, err error) {
	sending, end := call.memo.attempt.SendContext(announced(req.Header))
	defer end()
	left, stale := false, false
	for n := 0; ; n++ {
		seen = new(sendTrace)
		resp, err = t.sendOnce(req, call, seen)
		switch {
		case err == nil:
		case !stale && seen.stale():
			stale = true
			continue
		case waitToSend(sending, err, n):
			left = true
			continue
		}
		if left { // an earlier send has brought the payload to the seller, whatever became of this one
			seen.connected.Store(true)
		}
		return resp, seen, err
	}
}

func (t *Transport) sendOnce(req *http.Request, call *Call, seen *sendTrace) (*http.Response, error) {
	m := call.memo
	// Until the response headers are there the send is the payment's, after that the body
	// is the caller's.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(req.Context()))
	sending, endSend := m.attempt.SendContext(announced(req.Header))
	stopSending := context.AfterFunc(sending, func() { cancel(context.Cause(sending)) })

	traced, sent := m.attempt.Send(ctx)
	var resp *http.Response
	out, err := t.paid(req, call, seen, traced, cancel)
	if err == nil {
		failpoint.Here(failpoint.ProxySending)
		resp, err = t.next.RoundTrip(out)
	}
	if err == nil {
		resp, err = guarded(resp)
	}
	if !stopSending() && err != nil {
		// Its own error is a cancelled context's, which to doors means that the client left.
		err = fmt.Errorf("send ended: %w", context.Cause(sending))
	}
	endSend()
	sent(err)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	client := conns.Asked(req.Context())
	if client.Err() != nil { // it may still read, and its payment counts as unanswered
		client = req.Context()
	}
	m.tail = follow(req.Context(), resp, m.attempt, func() { cancel(errReadOn) })
	ends := m.tail
	leave := context.AfterFunc(client, func() {
		if !ends.left() {
			cancel(context.Cause(client))
		}
	})
	onClose(resp, func() {
		leave()
		ends.close()
		cancel(nil)
	})
	return resp, nil
}

// paid makes the request with its payment. stop ends ctx.
func (t *Transport) paid(req *http.Request, call *Call, seen *sendTrace, ctx context.Context, stop context.CancelCauseFunc) (*http.Request, error) {
	m := call.memo
	body, err := m.body.reader()
	if err != nil {
		return nil, err
	}
	var allowed func(net.Addr) bool
	if !t.plain.decided(req.URL) {
		allowed = func(remote net.Addr) bool { return t.plain.allows(req.URL, remote) }
	}
	out := req.Clone(seen.watch(ctx, allowed, stop))
	StripOwn(out.Header)
	t.observer.Propagate(out.Context(), out.Header)
	call.cookies.send(out)
	notCached(out.Header)
	payload := m.attempt.Payload()
	if m.slim != nil {
		payload = *m.slim
	}
	out.Header.Set(payload.HeaderName(), payload.Header())
	out.Trailer = req.Trailer // filled in while the body was read
	out.GetBody = nil
	switch {
	case body != nil:
		out.Body = body
		if out.ContentLength >= 0 {
			out.ContentLength = m.body.size
		}
	case len(req.Trailer) > 0:
		out.Body = empty{}
	case slices.Contains(bodiless, out.Method):
		// An empty body that is not http.NoBody keeps the transport from sending the request
		// again by itself. Over HTTP/1 it is not seen on the wire. HTTP/2 would show it, and
		// repeats only what was not processed or was reset as malformed, with this payment.
		out.Body, out.ContentLength = http.NoBody, 0
		if m.http1 || m.host != out.URL.Host {
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
	return out, nil
}

// empty is a body of nothing.
type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, io.EOF }
func (empty) Close() error             { return nil }

// bodiless are the methods whose requests usually have no body.
var bodiless = []string{"", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete}

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
