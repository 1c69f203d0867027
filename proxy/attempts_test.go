package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// Several RoundTrips of one call, as a load balancer makes them.

// incoming is the request that a door has got; its attempts share what can be read once,
// unless the door keeps the body.
type incoming struct {
	t      *testing.T
	method string
	body   string
	buffer bool // the door keeps the body

	source io.ReadCloser
}

func (in *incoming) to(url string) *http.Request {
	in.t.Helper()
	if in.body == "" {
		return proxytest.Request(in.t, in.method, url, nil)
	}
	if in.source == nil || in.buffer {
		in.source = io.NopCloser(strings.NewReader(in.body))
	}
	r := proxytest.Request(in.t, in.method, url, in.source)
	r.Body, r.ContentLength = in.source, int64(len(in.body))
	return r
}

// every runs a test for the requests that differ in how their body can be sent again.
func every(t *testing.T, f func(t *testing.T, in *incoming)) {
	for _, in := range []incoming{
		{method: "GET"},
		{method: "POST", body: "the body"},
		{method: "POST", body: "the body", buffer: true},
		{method: "PUT", body: strings.Repeat("0123456789", 10_000)}, // spooled
	} {
		t.Run(fmt.Sprintf("%s %d %t", in.method, len(in.body), in.buffer), func(t *testing.T) {
			t.Parallel()
			in.t = t
			f(t, &in)
		})
	}
}

func spooling(t *testing.T) TransportOptions {
	return TransportOptions{PayOptions: PayOptions{MaxReplay: 10_000, SpoolDir: t.TempDir()}}
}

// However often the door tries, and however often its client: one signature.
func TestAbortedAttemptsHaveOneSignature(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, in *incoming) {
		w, s := newWorld(t), proxytest.NewSeller(t)
		s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
			if n <= 12 {
				proxytest.HangUp(rw)
				return
			}
			s.Receipt(rw, n)
		}
		tr := w.transport(nil, spooling(t))
		for range 3 { // the client
			call := w.call()
			in.source = nil
			for range 4 { // the door
				w.lost(tr, call, in.to(s.URL+"/x"))
			}
			call.Finish(false)
		}
		s.Expect(3, 12, 1)
		call := w.call()
		in.source = nil
		id := w.must(tr, call, in.to(s.URL+"/x")).Paid(t)
		call.Finish(true)
		call.Finish(false) // only the first counts
		if p := w.Closed(id); p.State != pay.Settled || !p.Answered || p.Door != policy.DoorTransport {
			t.Errorf("%+v", p)
		}
		s.Expect(4, 13, 1)
		for _, b := range s.Bodies {
			if b != in.body {
				t.Errorf("the seller got %d of %d bytes", len(b), len(in.body))
			}
		}
		if n := len(w.Payments()); n != 1 {
			t.Errorf("%d payments", n)
		}
	})
}

// Upstreams that cannot be reached cost nothing, before the challenge and after it.
func TestNoConnectionThenSuccess(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, in *incoming) {
		w, s := newWorld(t), proxytest.NewSeller(t)
		s.Challenge = func(rw http.ResponseWriter, r *http.Request) { // a connection that closes at once may lose its answer
			_, _ = io.Copy(io.Discard, r.Body)
			s.WriteChallenge(rw, r, s.Price, "")
		}
		var dials atomic.Int32
		next := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if n := dials.Add(1); n != 3 && n < 6 { // the third brings the challenge
				return nil, errors.New("no way")
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}}
		tr, call := w.transport(next, spooling(t)), w.call()
		for range 4 { // twice before, once after the challenge, and once again
			_, err := w.trip(tr, call, in.to(s.URL+"/x"))
			var lost *SendError
			if err == nil || errors.As(err, &lost) || call.Payment() != nil {
				t.Fatalf("%v %v", err, call.Payment())
			}
		}
		if p := w.Payments()[0]; p.State != pay.Void {
			t.Errorf("%+v", p)
		}
		w.must(tr, call, in.to(s.URL+"/x")).Paid(t)
		call.Finish(true)
		s.Expect(2, 1, 1)
		if got := s.Bodies[0]; got != in.body {
			t.Errorf("the seller got %d of %d bytes", len(got), len(in.body))
		}
		states := make(map[pay.State]int)
		for _, p := range w.Payments() {
			states[w.Closed(p.ID).State]++
		}
		if states[pay.Settled] != 1 || len(states) != 1 { // the further attempt sends the authorization that had not left
			t.Errorf("payments: %v", states)
		}
	})
}

// An upstream that wants too much is not paid; the next one gets the whole request.
func TestDeclinedThenAnotherUpstream(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, in *incoming) {
		w, dear, fair := newWorld(t), proxytest.NewSeller(t, func(s *proxytest.Seller) { s.Price = "99000000" }), proxytest.NewSeller(t)
		tr, call := w.transport(nil, spooling(t)), w.call()
		a := w.must(tr, call, in.to(dear.URL+"/x"))
		a.Declined(t, "per-payment", true)
		w.must(tr, call, in.to(fair.URL+"/x")).Paid(t)
		call.Finish(true)
		dear.Expect(1, 0, 0)
		fair.Expect(1, 1, 1)
		if got := fair.Bodies[0]; got != in.body {
			t.Errorf("the seller got %d of %d bytes", len(got), len(in.body))
		}
	})
}

// A free upstream may fail with the body half read.
func TestUpstreamBreaksOffThenAnother(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, in *incoming) {
		w, s := newWorld(t), proxytest.NewSeller(t)
		broken := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadFull(r.Body, make([]byte, len(in.body)/2))
			proxytest.HangUp(rw)
		}))
		defer broken.Close()
		tr, call := w.transport(nil, spooling(t)), w.call()
		if _, err := w.trip(tr, call, in.to(broken.URL+"/x")); err == nil {
			t.Fatal("an answer")
		}
		w.must(tr, call, in.to(s.URL+"/x")).Paid(t)
		call.Finish(true)
		s.Expect(1, 1, 1)
		if got := s.Bodies[0]; got != in.body {
			t.Errorf("the seller got %d of %d bytes", len(got), len(in.body))
		}
	})
}

// A body that was too long to keep is sent once. A further attempt would send what is left
// of it, so there is none, unless the door has the body itself.
func TestLongBodyIsNotSentInPart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 10_000)
	for _, buffer := range []bool{false, true} {
		w := newWorld(t)
		var (
			mu  sync.Mutex
			got []int
		)
		upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			if got = append(got, len(b)); len(got) == 1 {
				proxytest.HangUp(rw)
			}
		}))
		defer upstream.Close()
		tr := w.transport(nil, TransportOptions{PayOptions: PayOptions{MaxReplay: 1000, MaxSpool: -1}})
		in, call := &incoming{t: t, method: "POST", body: long, buffer: buffer}, w.call()
		unreachable := "http://127.0.0.1:1/x"
		if _, err := w.trip(tr, call, in.to(unreachable)); err == nil { // nothing was read
			t.Fatal("an answer")
		}
		if _, err := w.trip(tr, call, in.to(upstream.URL+"/x")); err == nil {
			t.Fatal("an answer")
		}
		_, err := w.trip(tr, call, in.to(upstream.URL+"/x"))
		call.Finish(err == nil)
		mu.Lock()
		defer mu.Unlock()
		want := "[100000]"
		if buffer {
			want = "[100000 100000]"
		}
		if fmt.Sprint(got) != want || errors.Is(err, errGone) == buffer {
			t.Errorf("buffered %t: the upstream got %v bytes, %v", buffer, got, err)
		}
	}
}

// A payload has left. An attempt at another request under the same call is not paid, and a
// challenge in its answer would be paid by a client that knows how.
func TestNoChallengeAfterThePayloadLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		paid   func(rw http.ResponseWriter, r *http.Request, n int) // nil: with a receipt
		finish bool
		want   string
	}{
		{"aborted", func(rw http.ResponseWriter, _ *http.Request, _ int) { proxytest.HangUp(rw) }, false, DeclinedOpen},
		{"error status", func(rw http.ResponseWriter, _ *http.Request, _ int) { http.Error(rw, "no", 500) }, false, DeclinedOpen},
		{"paid", nil, false, DeclinedNotDelivered},
		{"paid and over", nil, true, DeclinedNotDelivered},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, s := newWorld(t), proxytest.NewSeller(t)
			s.Paid = c.paid
			tr, call := w.transport(nil, TransportOptions{}), w.call()
			_, _ = w.trip(tr, call, proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader("body")))
			id := call.Payment().ID
			if c.finish {
				call.Finish(true)
			}
			for _, r := range []*http.Request{
				proxytest.Request(t, "GET", s.URL+"/x", nil), proxytest.Request(t, "POST", s.URL+"/y", nil),
			} {
				a := w.must(tr, call, r)
				a.Declined(t, c.want, false)
				if p := a.Problem(t); p.Payment.ID != id || a.Header.Get(HeaderPayment) != id {
					t.Errorf("payment %s, not %s", p.Payment.ID, id)
				}
			}
			call.Finish(true) // of a 402
			s.Expect(3, 1, 1)
			if n := len(w.Payments()); n != 1 {
				t.Errorf("%d payments", n)
			}
			if p := w.Closed(id); p.Answered != c.finish {
				t.Errorf("answered %t", p.Answered)
			}
		})
	}
}

// Attempts at another request under a paid call that fail name the payment.
func TestFailureAfterThePayloadLeft(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	tr, call := w.transport(nil, TransportOptions{}), w.call()
	a := w.must(tr, call, proxytest.Request(t, "GET", s.URL+"/x", nil))
	id := a.Paid(t)
	lost := w.lost(tr, call, proxytest.Request(t, "GET", "http://127.0.0.1:1/other", nil))
	if lost.Payment.ID != id {
		t.Errorf("got %v, want a lost send of %s", lost, id)
	}
	call.Finish(true) // the door may think so
	if p := w.Closed(id); p.Answered {
		t.Error("answered, although the client was told of a failure")
	}
}

// Purser would not know whether such a client is still there when its payment leaves.
func TestCallerThatCannotLeaveIsNotPaidFor(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	tr := w.transport(nil, TransportOptions{})
	call := w.call()
	ctx := WithCall(context.WithoutCancel(t.Context()), call)
	a, err := proxytest.Read(tr.RoundTrip(proxytest.Request(t, "GET", s.URL+"/x", nil).WithContext(ctx)))
	if err != nil {
		t.Fatal(err)
	}
	a.Declined(t, DeclinedCallerUnknown, true)
	call.Finish(true)
	s.Expect(1, 0, 0)
}

// Caddy maps what is a timeout by net.Error to 504, and a cancelled context to nothing.
func TestSendErrorIsANetError(t *testing.T) {
	t.Parallel()
	p := &pay.Payment{ID: "p", State: pay.Open}
	for _, c := range []struct {
		cause   error
		timeout bool
		status  int
	}{
		{io.EOF, false, 502},
		{fmt.Errorf("send ended: %w", context.DeadlineExceeded), true, 504},
		{&net.OpError{Op: "read", Err: &net.DNSError{IsTimeout: true}}, true, 504},
		{fmt.Errorf("send ended: %w", pay.ErrLeaseLost), false, 502},
	} {
		var err net.Error = &SendError{Payment: p, cause: c.cause}
		if err.Timeout() != c.timeout || errors.Is(err, context.Canceled) {
			t.Errorf("%v: %t", c.cause, err.Timeout())
		}
		resp := ErrorResponse(proxytest.Request(t, "GET", "http://x/", nil), err)
		var b bytes.Buffer
		if _, rerr := b.ReadFrom(resp.Body); rerr != nil || resp.StatusCode != c.status || !strings.Contains(b.String(), `"payment-open"`) {
			t.Errorf("%v: %d %s", c.cause, resp.StatusCode, b.String())
		}
	}
}

// The next attempt of a door that was content with an answer cannot have the body.
func TestRetryOfAnAnsweredUpload(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	tr, call := w.transport(nil, TransportOptions{}), w.call()
	in := &incoming{t: t, method: "POST", body: "the body"}
	a := w.must(tr, call, in.to(s.URL+"/x"))
	id := a.Paid(t)
	lost := w.lost(tr, call, in.to(s.URL+"/x"))
	if lost.Payment.ID != id || !errors.Is(lost, errGone) {
		t.Errorf("got %v", lost)
	}
	call.Finish(false)
	s.Expect(1, 1, 1)
	if _, found, _ := x402.FromResponse(ErrorResponse(in.to(s.URL), lost).Header, nil); found {
		t.Error("a challenge")
	}
}

// The challenge came over HTTP/2, a further attempt goes to an HTTP/1 upstream on a kept
// connection that breaks: http.Transport does not send the payload again by itself.
func TestFurtherAttemptOverOlderHTTPIsSentOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := proxytest.NewSeller(t)
	newer := httptest.NewUnstartedServer(http.HandlerFunc(a.ServeHTTP))
	newer.EnableHTTP2 = true
	newer.Config.ErrorLog = a.Config.ErrorLog
	newer.StartTLS()
	t.Cleanup(newer.Close)
	a.Paid = func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }
	b := proxytest.NewSeller(t)
	b.Paid = func(rw http.ResponseWriter, _ *http.Request, _ int) { proxytest.HangUp(rw) }
	pool := x509.NewCertPool()
	pool.AddCert(newer.Certificate())
	next := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	t.Cleanup(next.CloseIdleConnections)
	tr, call := w.transport(next, TransportOptions{}), w.call()
	if _, err := w.trip(tr, call, proxytest.Request(t, "GET", newer.URL+"/x", nil)); err == nil {
		t.Fatal("an answer")
	}
	resp, err := next.RoundTrip(proxytest.Request(t, "GET", b.URL+"/free", nil)) // the connection is kept
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if _, err := w.trip(tr, call, proxytest.Request(t, "GET", b.URL+"/x", nil)); err == nil {
		t.Fatal("an answer")
	}
	call.Finish(false)
	if _, paid, _ := b.Counts(); paid != 1 {
		t.Errorf("one attempt, %d sends", paid)
	}
}

// A send whose payload one connection took, and whose own repeat went astray, has left.
func TestAstrayAfterItHasLeft(t *testing.T) {
	t.Parallel()
	for _, left := range []bool{true, false} {
		seen := new(sendTrace)
		ctx := seen.watch(t.Context(), func(a net.Addr) bool { return a.(*net.TCPAddr).IP.IsLoopback() }, func(error) {})
		hooks := httptrace.ContextClientTrace(ctx)
		if left {
			hooks.GetConn("shop.example:80")
			hooks.GotConn(httptrace.GotConnInfo{Conn: connTo("127.0.0.1")})
			hooks.WroteHeaders()
		}
		hooks.GetConn("shop.example:80")
		hooks.GotConn(httptrace.GotConnInfo{Conn: connTo("192.0.2.1")})
		if seen.unconnected() == left {
			t.Errorf("left %t: unconnected %t", left, seen.unconnected())
		}
	}
}

// connTo is a connection to an address, of which only that is known.
func connTo(address string) net.Conn {
	near, far := net.Pipe()
	_ = far.Close()
	return addressed{near, &net.TCPAddr{IP: net.ParseIP(address), Port: 80}}
}

type addressed struct {
	net.Conn
	remote net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.remote }

// A target that is no path has no host that it could be judged and booked by.
func TestOpaqueTargetIsNotPaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewSeller(t)
	r := proxytest.Request(t, "GET", s.URL+"/x", nil)
	r.URL.Opaque = "http://" + r.URL.Host + "/x"
	a := w.must(w.transport(nil, TransportOptions{}), w.call(), r)
	a.Declined(t, "", true)
	s.Expect(1, 0, 0)
}

// Credentials in the URL that a door names are not part of what a repeat is recognized by, and
// reach neither the books nor the log.
func TestCredentialsInTheURL(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	tr := w.transport(nil, TransportOptions{})
	var ids []string
	for _, user := range []string{"agent:correct-horse", "agent:battery-staple"} {
		call := w.call()
		call.URL = func() string { return "https://" + user + "@api.example.com/x" }
		a := w.must(tr, call, proxytest.Request(t, "GET", strings.Replace(s.URL, "http://", "http://"+user+"@", 1)+"/x", nil))
		call.Finish(false) // so that the next one is a repeat
		ids = append(ids, a.Header.Get(HeaderPayment))
		if p := w.Closed(ids[0]); p.RequestURL != s.URL+"/x" || strings.Contains(w.Logs.String(), "correct-horse") {
			t.Errorf("%q %s", p.RequestURL, w.Logs.String())
		}
	}
	if ids[0] != ids[1] {
		t.Errorf("two payments: %v", ids)
	}
}
