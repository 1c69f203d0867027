package forward

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// Events arrive one by one, while the seller is still writing.
func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	next := make(chan struct{})
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		s.Receipt(rw, n)
		rw.Header().Set("Content-Type", "text/event-stream")
		rc := http.NewResponseController(rw)
		_ = rc.Flush()
		for i := range 3 {
			<-next
			_, _ = fmt.Fprintf(rw, "data: %d\n\n", i)
			_ = rc.Flush()
		}
	}
	resp, err := w.agent().Do(proxytest.Request(t, "GET", s.URL+"/events", nil)) // returns before the first event
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	id := resp.Header.Get(proxy.HeaderPayment)
	br := bufio.NewReader(resp.Body)
	for i := range 3 {
		next <- struct{}{} // the next event is written only now
		line, err := br.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("%q %v", line, err)
		}
		_, _ = br.ReadString('\n')
		if i == 1 { // the lease is kept until the answer is written out
			if p, err := w.Payer.Payment(t.Context(), w.Key, id); err != nil || p.Lease.Owner == "" {
				t.Errorf("lease while streaming: %+v %v", p, err)
			}
		}
	}
	if _, err := br.ReadByte(); err != io.EOF {
		t.Error(err)
	}
	if p := w.Closed(id); !p.Answered {
		t.Errorf("%+v", p)
	}
}

// An answer that is cut short reaches the client cut short, and was none.
func TestCutAnswer(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		s.Receipt(rw, n)
		rw.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(rw, "the beginning")
		_ = http.NewResponseController(rw).Flush()
		proxytest.HangUp(rw)
	}
	a, err := proxytest.Do(w.agent(), proxytest.Request(t, "GET", s.URL+"/x", nil))
	if err == nil {
		t.Fatalf("a whole answer: %s", a.Text)
	}
	p := w.Closed(w.Payments()[0].ID)
	if p.State != pay.Settled || p.Answered || !p.Unanswered {
		t.Errorf("%+v", p)
	}
	s.Paid, s.Reuse = nil, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "all of it") }
	if b := w.get(s.URL + "/x"); b.Paid(t) != p.ID || b.Text != "all of it" {
		t.Errorf("%v %s", b.Header, b.Text)
	}
	s.Expect(2, 2, 1)
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		if r.Header.Get("Upgrade") != "websocket" {
			t.Errorf("the seller got %v", r.Header)
		}
		s.Receipt(rw, n)
		rw.Header().Set("Connection", "Upgrade")
		rw.Header().Set("Upgrade", "websocket")
		rw.WriteHeader(http.StatusSwitchingProtocols)
		conn, buf, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		line, _ := buf.ReadString('\n')
		_, _ = io.WriteString(conn, "echo "+line)
	}
	a, conn, br := w.raw(fmt.Sprintf("GET %s/ws HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: websocket\nProxy-Authorization: %s\n\n",
		s.URL, basic(w.Secret, "")), http.MethodConnect)
	if a.StatusCode != http.StatusSwitchingProtocols || a.Header.Get(proxy.HeaderPayment) == "" || a.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	// The call is over with the 101; the connection lives on.
	if p := w.Closed(a.Header.Get(proxy.HeaderPayment)); p.State != pay.Settled || !p.Answered {
		t.Errorf("%+v", p)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if line, err := br.ReadString('\n'); line != "echo hello\n" {
		t.Errorf("%q %v", line, err)
	}
	s.Expect(1, 1, 1)
}

func TestOtherUpgradesAreNotRelayed(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	a := w.get(s.URL+"/x", "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "Http2-Settings", "AAMAAABk")
	a.Paid(t)
	for _, r := range append(s.Unpaid, s.Bought...) {
		for _, name := range []string{"Upgrade", "Connection", "Http2-Settings"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s: %q", name, r.Header.Get(name))
			}
		}
	}
}

func TestTrailers(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		s.Receipt(rw, n)
		rw.Header().Set("Trailer", "X-Sum, Purser-Transaction")
		_, _ = io.WriteString(rw, "body")
		rw.Header().Set("X-Sum", "42")
		rw.Header().Set("Purser-Transaction", "forged")
		rw.Header().Set(http.TrailerPrefix+"Purser-Amount", "forged")
	}
	r := proxytest.Request(t, "POST", s.URL+"/x", io.MultiReader(strings.NewReader("sent")), "TE", "trailers")
	r.Trailer = http.Header{"X-Request-Sum": nil}
	r.Body = &trailing{r.Body, func() { r.Trailer.Set("X-Request-Sum", "7") }}
	a := w.do(w.agent(), r)
	a.Paid(t)
	if a.Trailer.Get("X-Sum") != "42" {
		t.Errorf("trailers %v", a.Trailer)
	}
	for name, values := range a.Trailer {
		if strings.HasPrefix(name, "Purser-") && len(values) > 0 {
			t.Errorf("forged trailer %s: %q", name, values)
		}
	}
	if got := s.Bought[0]; got.Trailer.Get("X-Request-Sum") != "7" || got.Header.Get("Te") != "trailers" {
		t.Errorf("the seller got trailers %v, TE %q", got.Trailer, got.Header.Get("Te"))
	}
}

// trailing runs f at the end of a body.
type trailing struct {
	io.ReadCloser
	f func()
}

func (b *trailing) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.f()
	}
	return n, err
}

func TestHead(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	a := w.do(w.agent(), proxytest.Request(t, "HEAD", s.URL+"/x", nil))
	a.Paid(t)
	s.Expect(1, 1, 1)
	s.Paid = func(rw http.ResponseWriter, r *http.Request, _ int) { s.WriteChallenge(rw, r, s.Price, "no") }
	b := w.do(w.agent(), proxytest.Request(t, "HEAD", s.URL+"/y", nil))
	b.Declined(t, proxy.DeclinedOpen, false)
	if b.Text != "" {
		t.Errorf("a HEAD with body %q", b.Text)
	}
}

// What a seller puts into its headers does not keep the paid answer from the client.
func TestOddHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			r, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil {
				_ = conn.Close()
				continue
			}
			if r.Header.Get("Payment-Signature") == "" {
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 402 P\r\nPAYMENT-REQUIRED: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", proxytest.V2Challenge("10000", "http://x/", ""))
			} else {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 \xc3\xa9\r\nX-Title: caf\xc3\xa9 \xff\xfe\r\nPAYMENT-RESPONSE: caf\xc3\xa9\r\nPurser-Payment: forged\r\npurser-amount: 1\r\nContent-Length: 4\r\nConnection: close\r\n\r\npaid")
			}
			_ = conn.Close()
		}
	}()
	a := w.get("http://" + ln.Addr().String() + "/x")
	id := a.Paid(t)
	if a.Text != "paid" || a.Header.Get("X-Title") != "caf\xc3\xa9 \xff\xfe" || a.Header.Get("Payment-Response") != "caf\xc3\xa9" {
		t.Errorf("%v %q", a.Header, a.Text)
	}
	if len(a.Header.Values(proxy.HeaderPayment)) != 1 || id == "forged" || a.Header.Get(proxy.HeaderAmount) != "10000" {
		t.Errorf("forged headers came through: %v", a.Header)
	}
	_ = ln.Close()
	<-served
	proxytest.Eventually(t, "the oddity is noted", func() bool {
		p := w.Closed(id)
		return len(p.Notes) == 1 && strings.Contains(p.Notes[0].Text, "receipt not readable")
	})
}

func TestInformationalResponses(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		rw.Header().Set("Link", "</style.css>; rel=preload")
		rw.WriteHeader(http.StatusEarlyHints)
		rw.Header().Del("Link")
		s.Receipt(rw, n)
		_, _ = io.WriteString(rw, "then")
	}
	a, _, br := w.raw(fmt.Sprintf("GET %s/x HTTP/1.1\nHost: x\nProxy-Authorization: %s\n\n", s.URL, basic(w.Secret, "")), "GET")
	if a.StatusCode != http.StatusEarlyHints || a.Header.Get("Link") == "" {
		t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	resp, err := http.ReadResponse(br, &http.Request{Method: "GET"})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 || string(b) != "then" || resp.Header.Get(proxy.HeaderPayment) == "" {
		t.Errorf("%d %v %q", resp.StatusCode, resp.Header, b)
	}
}

func TestExpectContinue(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	c := w.agent()
	c.Transport.(*http.Transport).ExpectContinueTimeout = 5 * time.Second
	a := w.do(c, proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader("body"), "Expect", "100-continue"))
	a.Paid(t)
	if a.Text != "paid:POST:body" {
		t.Errorf("%q", a.Text)
	}
	if got := s.Unpaid[0].Header.Get("Expect"); got != "" {
		t.Errorf("the seller got Expect: %q", got)
	}
}
