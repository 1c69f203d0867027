package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/protocol"
)

// SendError reports that the payload of a payment has left, or may have, and no answer came back.
// The payment stays as it is; a repeat of the request sends the same payload again. It is a
// net.Error.
type SendError struct {
	Payment *pay.Payment
	carrier carrier // of the call
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
	resp, seen, err = t.insist(req, call, resp, seen, err)
	var said protocol.Answer
	if err == nil {
		failpoint.Here(failpoint.ProxyAnswered)
		m.answered = true
		// A seller can keep the body of a 402 coming, and the receipt must not be lost meanwhile.
		if said = t.carrierFor(req).answer(resp, m.wire); said.Receipt != nil {
			m.attempt.Receipt(*said.Receipt)
		}
	}
	d := t.decide(req, m, challenged, resp, said, seen, err)
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
	if c, is := t.carrierFor(req).(*mcpCarrier); is && !c.came() {
		t.calls.begun(req, call, c, m.attempt.Payment().ID)
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
	return &SendError{Payment: p, carrier: t.carrierFor(req), cause: cause}
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
	m.attempt.Answers(nil)
	var resp *http.Response
	out, err := t.paid(req, call, seen, traced, cancel)
	if err == nil {
		failpoint.Here(failpoint.ProxySending)
		resp, err = t.next.RoundTrip(out)
	}
	if err == nil {
		m.attempt.Answers(digestOf(resp))
		resp, err = guarded(resp)
	}
	if err == nil { // what carries the answer is part of the send
		t.carrierFor(req).arrived(resp, m.wire, func(a protocol.Answer) *problem { return t.hearLate(req, call, m, resp, a) })
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
	if err := t.carrierFor(req).room(req, m.wire, m.attempt.Payload()); err != nil { // a further attempt has a header of its own
		return nil, err
	}
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
	payload := m.attempt.Payload()
	if m.slim != nil {
		payload = *m.slim
	}
	t.carrierFor(req).attach(out, m.wire, payload)
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

// sendTrace watches one send through the hooks of net/http/httptrace: the address that it went to,
// and whether any part of it can have arrived.
type sendTrace struct {
	asked     atomic.Bool // for a connection, so the sender does call the hooks
	connected atomic.Bool // it got one that the request may use
	reused    atomic.Bool // the last such one was a kept one
	written   atomic.Bool // header fields were written, so they may have left
	misled    atomic.Bool // it got one that leads where the request must not go
	peer      atomic.Pointer[net.Addr]
}

// errMisled ends a send whose connection leads where it must not go.
var errMisled = errors.New("the connection leads where the request must not go")

// lookOn adds the hooks of an unpaid send to ctx. They are few, because net/http joins them with those
// of the door by reflection. written is one of them.
func (t *sendTrace) lookOn(ctx context.Context, written func(httptrace.WroteRequestInfo)) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			addr := info.Conn.RemoteAddr()
			t.peer.Store(&addr)
		},
		Got1xxResponse: stripInformational,
		WroteRequest:   written,
	})
}

// stripInformational takes Purser-* headers and Alt-Svc out of an answer ahead of the real one. It is called
// before the hook of the door's reverse proxy, with the same header.
func stripInformational(_ int, header textproto.MIMEHeader) error {
	StripOwn(http.Header(header))
	header.Del("Alt-Svc")
	return nil
}

// watch adds the hooks of a paid send to ctx. allowed, if not nil, judges the address of each connection before
// anything is written to it. stop ends ctx when it says no: http.Transport would otherwise try the
// next connection by itself, and write to it.
func (t *sendTrace) watch(ctx context.Context, allowed func(net.Addr) bool, stop context.CancelCauseFunc) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { t.asked.Store(true) },
		GotConn: func(info httptrace.GotConnInfo) {
			addr := info.Conn.RemoteAddr()
			t.peer.Store(&addr)
			if allowed != nil && !allowed(addr) {
				// The end of ctx races with the writing; a closed connection takes nothing.
				t.misled.Store(true)
				_ = info.Conn.Close()
				stop(errMisled)
				return
			}
			t.connected.Store(true)
			t.reused.Store(info.Reused)
		},
		Got1xxResponse:   stripInformational,
		WroteHeaderField: func(string, []string) { t.written.Store(true) },
		WroteHeaders:     func() { t.written.Store(true) },
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				t.written.Store(true)
				failpoint.Here(failpoint.ProxyWritten)
			}
		},
	})
}

// remote returns the address of the connection that was used, nil if it is not known.
func (t *sendTrace) remote() net.Addr {
	if addr := t.peer.Load(); addr != nil {
		return *addr
	}
	return nil
}

// unconnected reports whether the failed send provably never had a connection that it could use.
func (t *sendTrace) unconnected() bool { return t.asked.Load() && !t.connected.Load() }

// astray reports whether the send is unconnected because its connections led to denied addresses.
func (t *sendTrace) astray() bool { return t.unconnected() && t.misled.Load() }

// stale reports whether the failed send met a kept connection that was closed meanwhile,
// before any of its header was written.
func (t *sendTrace) stale() bool {
	return t.connected.Load() && t.reused.Load() && !t.written.Load() && !t.misled.Load()
}

const (
	// maxUnprocessed bounds how often a request is sent again that its upstream did not process.
	maxUnprocessed = 4
	// unprocessedPause is the time before the first of them. It doubles with each.
	unprocessedPause = 50 * time.Millisecond
)

// unprocessed reports whether an upstream has said, over HTTP/2, that it did nothing with a request: by
// REFUSED_STREAM, or by GOAWAY with a lower last stream. purser may send that request again, whatever its method
// (RFC 9113, section 8.7). http.Transport does that by itself for requests without a body. It tells of the
// others only in words, which hold nothing of the upstream's. With GetBody it would send them again, but
// also after PROTOCOL_ERROR, which does not say that nothing was done.
func unprocessed(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		text := err.Error()
		if strings.HasPrefix(text, "http2: Transport received GOAWAY from server ErrCode:") { // on the connection's first stream
			return true
		}
		if why, is := strings.CutPrefix(text, "http2: Transport: cannot retry err ["); is {
			return strings.Contains(why, "; REFUSED_STREAM; received from peer]") ||
				strings.HasPrefix(why, "http2: Transport received Server's graceful shutdown GOAWAY]")
		}
	}
	return false
}

// waitToSend waits before a request is sent again for the n-th time, counted from 0. It reports whether it may be.
func waitToSend(ctx context.Context, err error, n int) bool {
	if n >= maxUnprocessed || !unprocessed(err) {
		return false
	}
	return waitFor(ctx, unprocessedPause<<n)
}

// waitFor waits, and reports whether ctx has lasted.
func waitFor(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// sendThrough sends a request that is not paid for, again if its upstream did not process it and its body is kept.
func (t *Transport) sendThrough(req *http.Request) (*http.Response, error) {
	for n := 0; ; n++ {
		resp, err := t.next.RoundTrip(req)
		if err == nil || !waitToSend(req.Context(), err, n) {
			return resp, err
		}
		switch body := req.Body.(type) {
		case nil:
		case *reading:
			again, gone := body.r.open()
			if gone != nil {
				return nil, err
			}
			req = withBody(req, again)
		default:
			if req.Body != http.NoBody {
				return nil, err
			}
		}
	}
}
