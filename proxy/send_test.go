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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

func TestPaidRequestIsSentOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ method, key string }{{"GET", ""}, {"HEAD", ""}, {"OPTIONS", ""}, {"GET", "k"}, {"DELETE", "k2"}, {"POST", "k3"}} {
		for _, abort := range []func(net.Conn){
			func(conn net.Conn) { _ = conn.Close() },
			func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0); _ = conn.Close() },
		} {
			s := newSeller(t)
			s.paid = func(rw http.ResponseWriter, _ *http.Request, _ int) {
				if conn, _, err := http.NewResponseController(rw).Hijack(); err == nil {
					abort(conn)
				}
			}
			call := NewCall(w.key, "", "")
			r := request(t, c.method, s.URL+"/x", nil)
			if c.method == "POST" {
				r = request(t, c.method, s.URL+"/x", strings.NewReader("body"))
			}
			if c.key != "" {
				r.Header.Set("Idempotency-Key", c.key)
			}
			_, err := w.trip(w.transport(nil, TransportOptions{}), call, r)
			call.Finish(false)
			var lost *SendError
			if !errors.As(err, &lost) {
				t.Errorf("%s: %v", c.method, err)
			}
			s.expect(1, 1, 1)
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
					_, _ = fmt.Fprintf(conn, "HTTP/1.1 402 P\r\nPAYMENT-REQUIRED: %s\r\nContent-Length: 0\r\n\r\n", v2Challenge("10", "http://x/", ""))
				}
			}
			_ = conn.Close()
		}
	}()
	tr := w.transport(nil, TransportOptions{})
	for i := range 40 {
		url := fmt.Sprintf("http://%s/%d", ln.Addr(), i)
		eventually(t, "an answer", func() bool {
			call := w.call()
			a, err := w.trip(tr, call, request(t, "GET", url, nil))
			call.Finish(err == nil)
			return err == nil && a.body == "paid"
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

func TestNoConnectionForPaidRequest(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	var dials atomic.Int32
	next := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1) == 2 {
			return nil, errors.New("no way")
		}
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}}
	tr, call := w.transport(next, TransportOptions{}), w.call()
	_, err := w.trip(tr, call, request(t, "GET", s.URL+"/x", nil))
	var lost *SendError
	if err == nil || errors.As(err, &lost) || call.Payment() != nil {
		t.Fatalf("%v", err)
	}
	if p := w.payments()[0]; p.State != pay.Void {
		t.Errorf("%+v", p)
	}
	// A further attempt of the same call pays anew.
	a, err := w.trip(tr, call, request(t, "GET", s.URL+"/x", nil))
	if err != nil {
		t.Fatal(err)
	}
	a.paid(t)
	call.Finish(true)
	s.expect(2, 1, 1)
}

func TestCallerGoneBeforeSending(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	caller, leave := context.WithCancel(context.Background())
	call := w.call()
	ctx := WithCall(caller, call)
	leave()
	resp, err := w.transport(nil, TransportOptions{}).RoundTrip(request(t, "GET", s.URL+"/x", nil).WithContext(context.WithoutCancel(ctx)))
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	answer{resp, string(b)}.declined(t, DeclinedCallerGone, true)
	call.Finish(false)
	s.expect(1, 0, 0)
}

func TestSlowSeller(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.SendTimeout = time.Second })
	s := newSeller(t)
	s.paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			<-r.Context().Done()
			return
		}
		s.receipt(rw, n)
		_ = http.NewResponseController(rw).Flush()
		time.Sleep(1500 * time.Millisecond) // the timeout is for the headers
		_, _ = io.WriteString(rw, "slowly")
	}
	a := w.get(s.URL + "/x")
	if p := a.problem(t); a.StatusCode != http.StatusGatewayTimeout || p.Reason != DeclinedOpen || p.Payment == nil {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	if b := w.get(s.URL + "/x"); b.paid(t) != a.Header.Get(HeaderPayment) || b.body != "slowly" {
		t.Errorf("%v %q", b.Header, b.body)
	}
	s.expect(2, 2, 1)
}

func TestBodyFollowsCaller(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	gone := make(chan struct{})
	s.paid = func(rw http.ResponseWriter, r *http.Request, _ int) {
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
		close(gone)
	}
	ctx, cancel := context.WithCancel(context.Background())
	call := w.call()
	resp, err := w.transport(nil, TransportOptions{}).RoundTrip(request(t, "GET", s.URL+"/x", nil).WithContext(WithCall(ctx, call)))
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
	w, s := newWorld(t), newSeller(t)
	tls := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the seller was asked with %s", r.Proto)
		}
		s.serve(rw, r)
	}))
	tls.EnableHTTP2 = true
	tls.StartTLS()
	defer tls.Close()
	tr := w.transport(tls.Client().Transport.(*http.Transport), TransportOptions{})
	for _, method := range []string{"GET", "POST"} {
		call := w.call()
		a, err := w.trip(tr, call, request(t, method, tls.URL+"/x", nil))
		call.Finish(err == nil)
		if err != nil {
			t.Fatal(err)
		}
		a.paid(t)
	}
	if r := s.bought[0]; r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
		t.Errorf("a GET with a body: %+v", r)
	}
	s.expect(2, 2, 2)
	s.paid = func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }
	call := w.call()
	_, err := w.trip(tr, call, request(t, "GET", tls.URL+"/y", nil))
	call.Finish(false)
	var lost *SendError
	if !errors.As(err, &lost) {
		t.Errorf("%v", err)
	}
	s.expect(3, 3, 3)
}
