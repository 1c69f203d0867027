package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
)

func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	never := func(netip.Addr) bool { return false }
	for _, c := range []struct {
		name  string
		may   func(netip.Addr) bool
		allow []string
		want  string
	}{
		{"loopback", nil, nil, ""},
		{"public", never, nil, DeclinedPlainHTTP},
		{"listed", never, []string{"127.0.0.1"}, ""},
		{"listed with port", never, []string{"127.0.0.1:PORT"}, ""},
		{"listed with another port", never, []string{"127.0.0.1:1"}, DeclinedPlainHTTP},
		{"another listed", never, []string{"example.com"}, DeclinedPlainHTTP},
	} {
		s := proxytest.NewSeller(t)
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		var allow []string
		for _, a := range c.allow {
			allow = append(allow, strings.ReplaceAll(a, "PORT", port))
		}
		call := w.call()
		a, err := w.trip(w.transport(nil, TransportOptions{MayPayPlain: c.may, PayOptions: PayOptions{AllowHTTP: allow}}), call, proxytest.Request(t, "GET", s.URL+"/x", nil))
		call.Finish(true)
		switch {
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want == "":
			a.Paid(t)
		default:
			a.Declined(t, c.want, true)
			s.Expect(1, 0, 0)
		}
	}
	if _, err := NewTransport(TransportOptions{Payer: w.Payer, Next: &http.Transport{}, PayOptions: PayOptions{AllowHTTP: []string{"a b"}}}); err == nil {
		t.Error("a host with a blank was taken")
	}
}

func TestPlainHTTPElsewhere(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	var asked atomic.Int32
	tr := w.transport(nil, TransportOptions{MayPayPlain: func(netip.Addr) bool { return asked.Add(1) == 1 }})
	call := w.call()
	a, err := w.trip(tr, call, proxytest.Request(t, "GET", s.URL+"/x", nil))
	call.Finish(true)
	if err != nil {
		t.Fatal(err)
	}
	a.Declined(t, DeclinedPlainHTTP, true)
	s.Expect(1, 0, 0)
	if p := w.Payments()[0]; p.State != pay.Void {
		t.Errorf("%+v", p)
	}
}
