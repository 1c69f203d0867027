package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// http.Transport repeats bodiless requests, and those with an idempotency key, by itself when a kept
// connection breaks. A seller that does not know the key would sell twice.
func TestPaidRequestIsSentOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, c := range []struct{ method, body, key string }{
		{"GET", "", ""},
		{"OPTIONS", "", ""},
		{"GET", "", "Idempotency-Key"},
		{"DELETE", "", "Idempotency-Key"},
		{"POST", "body", "Idempotency-Key"},
		{"POST", "", "Idempotency-Key"},
		{"POST", "", "X-Idempotency-Key"},
	} {
		for _, abort := range []func(net.Conn){
			func(conn net.Conn) { _ = conn.Close() },
			func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0); _ = conn.Close() },
		} {
			s := proxytest.NewSeller(t)
			s.Paid = func(rw http.ResponseWriter, _ *http.Request, _ int) {
				if conn, _, err := http.NewResponseController(rw).Hijack(); err == nil {
					abort(conn)
				}
			}
			call, key := w.call(), fmt.Sprint("k", i)
			r := proxytest.Request(t, c.method, s.URL+"/x", strings.NewReader(c.body))
			if c.key != "" {
				r.Header.Set(c.key, key)
			}
			w.lost(w.transport(nil, TransportOptions{}), call, r)
			call.Finish(false)
			s.Expect(1, 1, 1)
			if got := s.Bought[0].Header.Get(c.key); c.key != "" && got != key {
				t.Errorf("the seller got %s: %q", c.key, got)
			}
		}
	}
}

func TestConnectionsThatVanish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	payloads := make(map[string]map[string]bool) // by path
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				if p := r.Header.Get(x402.HeaderSignature); p != "" {
					mu.Lock()
					if payloads[r.URL.Path] == nil {
						payloads[r.URL.Path] = make(map[string]bool)
					}
					payloads[r.URL.Path][p] = true
					mu.Unlock()
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npaid")
				} else {
					_, _ = fmt.Fprintf(conn, "HTTP/1.1 402 P\r\nPAYMENT-REQUIRED: %s\r\nContent-Length: 0\r\n\r\n", proxytest.V2Challenge("10", "http://x/", ""))
				}
			}
			_ = conn.Close()
		}
	}()
	tr := w.transport(nil, TransportOptions{})
	for i := range 40 {
		url := fmt.Sprintf("http://%s/%d", ln.Addr(), i)
		proxytest.Eventually(t, "an answer", func() bool {
			call := w.call()
			a, err := w.trip(tr, call, proxytest.Request(t, "GET", url, nil))
			call.Finish(err == nil)
			return err == nil && a.Text == "paid"
		})
	}
	_ = ln.Close()
	<-served
	for path, seen := range payloads {
		if len(seen) != 1 {
			t.Errorf("%s was paid with %d payloads", path, len(seen))
		}
	}
}

func TestCallerGoneBeforeSending(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	caller, leave := context.WithCancel(context.Background())
	call := w.call()
	ctx := WithCall(caller, call)
	leave()
	a, err := proxytest.Read(w.transport(nil, TransportOptions{}).RoundTrip(proxytest.Request(t, "GET", s.URL+"/x", nil).WithContext(context.WithoutCancel(ctx))))
	if err != nil {
		t.Fatal(err)
	}
	a.Declined(t, DeclinedCallerGone, false)
	call.Finish(false)
	s.Expect(1, 0, 0)
}

func TestSlowSeller(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.SendTimeout = 300 * time.Millisecond })
	s := proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			<-r.Context().Done()
			return
		}
		s.Receipt(rw, n)
		_ = http.NewResponseController(rw).Flush()
		time.Sleep(600 * time.Millisecond) // the timeout is for the headers
		_, _ = io.WriteString(rw, "slowly")
	}
	ask := func() proxytest.Answer { return w.get(s.URL + "/x") }
	a := proxytest.InTime(t, false, ask)
	if p := a.Problem(t); a.StatusCode != http.StatusGatewayTimeout || p.Reason != DeclinedOpen || p.Payment == nil {
		t.Fatalf("%d %s", a.StatusCode, a.Text)
	}
	if b := proxytest.InTime(t, true, ask); b.Paid(t) != a.Header.Get(HeaderPayment) || b.Text != "slowly" {
		t.Errorf("%v %q", b.Header, b.Text)
	}
	if _, _, distinct := s.Counts(); distinct != 1 {
		t.Errorf("%d payments", distinct)
	}
}

func TestBodyFollowsCaller(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	gone := make(chan struct{})
	s.Paid = func(rw http.ResponseWriter, r *http.Request, _ int) {
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
		close(gone)
	}
	ctx, cancel := context.WithCancel(context.Background())
	call := w.call()
	resp, err := w.transport(nil, TransportOptions{}).RoundTrip(proxytest.Request(t, "GET", s.URL+"/x", nil).WithContext(WithCall(ctx, call)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cancel()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-gone
	call.Finish(false)
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	tls := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the seller was asked with %s", r.Proto)
		}
		s.ServeHTTP(rw, r)
	}))
	tls.EnableHTTP2 = true
	tls.StartTLS()
	defer tls.Close()
	tr := w.transport(tls.Client().Transport.(*http.Transport), TransportOptions{})
	for _, method := range []string{"GET", "POST"} {
		call := w.call()
		a, err := w.trip(tr, call, proxytest.Request(t, method, tls.URL+"/x", nil))
		call.Finish(err == nil)
		if err != nil {
			t.Fatal(err)
		}
		a.Paid(t)
	}
	if r := s.Bought[0]; r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
		t.Errorf("a GET with a body: %+v", r)
	}
	s.Expect(2, 2, 2)
	s.Paid = func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }
	call := w.call()
	w.lost(tr, call, proxytest.Request(t, "GET", tls.URL+"/y", nil))
	call.Finish(false)
	s.Expect(3, 3, 3)
}

// A seller that answers a payload with a 402 that does not end must not keep the client
// waiting, nor the payment's lease.
func TestEndless402AfterPayment(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, r *http.Request, _ int) {
		rw.WriteHeader(402)
		_, _ = io.WriteString(rw, `{"x402Version":1,`)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	}
	tr, call := w.transport(nil, TransportOptions{}), w.call()
	tr.patience = 50 * time.Millisecond
	a := w.must(tr, call, proxytest.Request(t, "GET", s.URL+"/x", nil))
	a.Declined(t, DeclinedOpen, false)
	call.Finish(true)
	if p := w.Closed(a.Problem(t).Payment.ID); p.State != pay.Open || p.Answered {
		t.Errorf("%+v", p)
	}
}

// A receipt is in the books while the body of its 402 still comes: a crash must not lose it.
func TestReceiptOfAnEndless402(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	end := make(chan struct{})
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		s.Receipt(rw, n)
		rw.WriteHeader(402)
		_, _ = io.WriteString(rw, `{"x402Version":1,`)
		_ = http.NewResponseController(rw).Flush()
		<-end
	}
	tr, call := w.transport(nil, TransportOptions{}), w.call()
	tr.patience = time.Hour
	told := make(chan proxytest.Answer, 1)
	go func() {
		a, err := w.trip(tr, call, proxytest.Request(t, "GET", s.URL+"/x", nil))
		if err != nil {
			t.Error(err)
		}
		told <- a
	}()
	defer func() {
		close(end)
		a := <-told
		a.Declined(t, DeclinedNotDelivered, false)
		call.Finish(true)
	}()
	proxytest.Eventually(t, "the receipt is recorded", func() bool {
		all := w.Payments()
		return len(all) == 1 && all[0].State == pay.Settled
	})
}

// A seller may ask for money before it says "continue"; the body goes with the payment.
func TestExpectContinueIsKept(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	next := &http.Transport{DisableCompression: true, ExpectContinueTimeout: 10 * time.Second}
	tr, call := w.transport(next, TransportOptions{}), w.call()
	a := w.must(tr, call, proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader("the body"), "Expect", "100-continue"))
	a.Paid(t)
	call.Finish(true)
	if a.Text != "paid:POST:the body" {
		t.Errorf("%q", a.Text)
	}
	for _, r := range append(s.Unpaid, s.Bought...) {
		if r.Header.Get("Expect") != "100-continue" {
			t.Errorf("Expect: %q", r.Header.Get("Expect"))
		}
	}
	s.Expect(1, 1, 1)
}

// A client that does not finish its upload is not paid for.
func TestUploadBreaksOff(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	body := io.MultiReader(strings.NewReader("the beginning"), &breaking{})
	tr, call := w.transport(nil, TransportOptions{}), w.call()
	r := proxytest.Request(t, "POST", s.URL+"/x", body, "Expect", "100-continue")
	tr.next.(*http.Transport).ExpectContinueTimeout = 10 * time.Second // so the 402 comes before the body
	a := w.must(tr, call, r)
	a.Declined(t, DeclinedBodyIncomplete, true)
	call.Finish(true)
	s.Expect(1, 0, 0)
}

type breaking struct{}

func (*breaking) Read([]byte) (int, error) { return 0, errors.New("the client is gone") }

// The paid POST gets a kept connection to an address that may not be paid, and http.Transport
// would go on to a new one that may. The seller got a payload that the books had as never sent.
func TestMisledRequestIsNotRepeated(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	slow, kept := make(chan struct{}), make(chan struct{})
	s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Connection", "close")
		s.WriteChallenge(rw, r, s.Price, "")
	}
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, _ int) { proxytest.HangUp(rw) }
	holdUp := http.NewServeMux()
	holdUp.Handle("/", s.Config.Handler)
	entered := make(chan struct{})
	holdUp.HandleFunc("/slow", func(rw http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-slow
		_, _ = io.WriteString(rw, "free")
	})
	s.Config.Handler = holdUp
	var dials atomic.Int32
	next := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil && dials.Add(1) == 1 {
			conn = addressed{conn, &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 80}}
		}
		return conn, err
	}}
	t.Cleanup(next.CloseIdleConnections)
	var free sync.WaitGroup
	free.Go(func() {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{PutIdleConn: func(error) { close(kept) }})
		resp, err := next.RoundTrip(proxytest.Request(t, "GET", s.URL+"/slow", nil).WithContext(ctx))
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	})
	<-entered
	var challenged atomic.Bool
	tr := w.transport(next, TransportOptions{MayPayPlain: func(a netip.Addr) bool {
		if challenged.CompareAndSwap(false, true) { // the paid request will find the other connection idle
			close(slow)
			free.Wait()
			<-kept
		}
		return a.IsLoopback()
	}})
	call := w.call()
	a, err := w.trip(tr, call, proxytest.Request(t, "POST", s.URL+"/x", nil))
	call.Finish(true)
	if err != nil {
		t.Fatal(err)
	}
	a.Declined(t, DeclinedPlainHTTP, true)
	s.Expect(1, 0, 0)
	if p := w.Payments()[0]; p.State != pay.Void || !p.Doubted {
		t.Errorf("%s, doubted %t", p.State, p.Doubted)
	}
}

// blind sends requests and hides it: it says that it got no connection.
type blind struct{ next http.RoundTripper }

func (b blind) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get(x402.HeaderSignature) == "" {
		return b.next.RoundTrip(req)
	}
	if hooks := httptrace.ContextClientTrace(req.Context()); hooks != nil && hooks.GetConn != nil {
		hooks.GetConn(req.URL.Host)
	}
	out := req.Clone(context.WithoutCancel(context.Background()))
	if resp, err := b.next.RoundTrip(out); err == nil {
		_ = resp.Body.Close()
	}
	return nil, errors.New("no connection")
}

// Whatever hides from the proxy that a payload has left: the seller gets one authorization for a
// request, and not more of them than the budget allows.
func TestPayloadThatLeftUnseen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.DefaultPolicy = policy.Policy{DailyBudget: policy.CapOf(money.New(30_000))} })
	s := proxytest.NewSeller(t)
	next := &http.Transport{}
	t.Cleanup(next.CloseIdleConnections)
	tr, err := NewTransport(TransportOptions{Payer: w.Payer, Next: blind{next}, Door: policy.DoorTransport})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/a", "/a", "/a", "/b", "/c", "/d", "/e"} {
		call := w.call()
		_, _ = w.trip(tr, call, proxytest.Request(t, "GET", s.URL+path, nil))
		call.Finish(false)
	}
	if _, sent, distinct := s.Counts(); sent != 5 || distinct != 3 {
		t.Errorf("%d sends of %d authorizations, want 5 of 3", sent, distinct)
	}
}
