package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// The paid POST gets a kept connection to an address that may not be paid, and http.Transport
// would go on to a new one that may. The seller got a payload that the books had as never sent.
func TestMisledRequestIsNotRepeated(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	slow, kept := make(chan struct{}), make(chan struct{})
	s.challenge = func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Connection", "close")
		s.writeChallenge(rw, r, s.price, "")
	}
	s.paid = func(rw http.ResponseWriter, _ *http.Request, _ int) { hangUp(rw) }
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
		resp, err := next.RoundTrip(request(t, "GET", s.URL+"/slow", nil).WithContext(ctx))
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
	a, err := w.trip(tr, call, request(t, "POST", s.URL+"/x", nil))
	call.Finish(true)
	if err != nil {
		t.Fatal(err)
	}
	a.declined(t, DeclinedPlainHTTP, true)
	s.expect(1, 0, 0)
	if p := w.payments()[0]; p.State != pay.Void || !p.Doubted {
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
	w := newWorld(t, func(s *setup) { s.pay.DefaultPolicy = pay.Policy{DailyBudget: pay.CapOf(x402.NewAmount(30_000))} })
	s := newSeller(t)
	next := &http.Transport{}
	t.Cleanup(next.CloseIdleConnections)
	tr, err := NewTransport(TransportOptions{Payer: w.payer, Next: blind{next}, Door: pay.DoorTransport})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/a", "/a", "/a", "/b", "/c", "/d", "/e"} {
		call := w.call()
		_, _ = w.trip(tr, call, request(t, "GET", s.URL+path, nil))
		call.Finish(false)
	}
	if _, sent, distinct := s.counts(); sent != 5 || distinct != 3 {
		t.Errorf("%d sends of %d authorizations, want 5 of 3", sent, distinct)
	}
}

// A client whose answer was lost gets its payment again, unless it says that it wants another one.
func TestPurserAgain(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	s.paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		if s.receipt(rw, n); n == 1 { // the payment is settled, the answer is no good
			rw.WriteHeader(http.StatusInternalServerError)
		}
	}
	s.reuse = func(rw http.ResponseWriter, r *http.Request) {
		s.writeChallenge(rw, r, s.price, "invalid_exact_evm_nonce_already_used")
	}
	first := w.get(s.URL + "/x")
	id := first.Header.Get(HeaderPayment)
	if p := w.closed(id); first.StatusCode != http.StatusInternalServerError || p.State != pay.Settled || !p.Unanswered {
		t.Fatalf("%d, %s", first.StatusCode, p.State)
	}
	if again := w.get(s.URL+"/x", HeaderAgain, "new").paid(t); again == id {
		t.Error("the same payment")
	}
	if got := s.bought[1].Header.Get(HeaderAgain); got != "" {
		t.Errorf("the seller got %s: %s", HeaderAgain, got)
	}
	other := w.get(s.URL + "/x")
	other.declined(t, DeclinedNotDelivered, false)
	if p := other.problem(t).Payment.ID; p != id {
		t.Errorf("without the header payment %s, want %s", p, id)
	}
	w.closed(id)
	if last := w.get(s.URL + "/x").paid(t); last == id { // told in full, so that this is a purchase
		t.Error("the payment that was answered")
	}
	s.expect(4, 4, 3)
}
