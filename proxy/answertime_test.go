package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/proxy/proxytest"
)

// A client's word on how long it waits is read where SDKs give it.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header []string
		want   time.Duration
	}{
		{nil, 0},
		{[]string{"X-Stainless-Timeout", "600"}, 10 * time.Minute},
		{[]string{"X-Stainless-Read-Timeout", "0.5"}, 500 * time.Millisecond},
		{[]string{"Prefer", `respond-async, wait=100; x="y"`}, 100 * time.Second},
		{[]string{"X-Stainless-Timeout", "NOT_GIVEN", "Prefer", "wait"}, 0},
		{[]string{"X-Stainless-Timeout", "-1", "Prefer", "wait=nan"}, 0},
		{[]string{"X-Stainless-Timeout", "1e300"}, maxAnnounced},
	} {
		h := http.Header{}
		for i := 0; i < len(c.header); i += 2 {
			h.Set(c.header[i], c.header[i+1])
		}
		if got := announced(h); got != c.want {
			t.Errorf("%q: %s, want %s", c.header, got, c.want)
		}
	}
}

// A seller that does not answer in time ends with 504, be it paid or not, and the repeat of a paid request has the
// same payment. A client that announces a longer time has it, and an answer may take as long as it likes once it began.
func TestAnswerTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.SendTimeout = 300 * time.Millisecond })
	s := proxytest.NewSeller(t)
	slowly := func(r *http.Request) bool {
		switch r.Header.Get("X-Slow") {
		case "for ever":
			<-r.Context().Done()
			return true
		case "a while":
			time.Sleep(600 * time.Millisecond) // above the bound
		}
		return false
	}
	s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasPrefix(r.URL.Path, "/un"):
			s.WriteChallenge(rw, r, s.Price, "")
		case slowly(r):
		default:
			_ = http.NewResponseController(rw).Flush()
			time.Sleep(600 * time.Millisecond)
			_, _ = rw.Write([]byte("to its end"))
		}
	}
	s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		if !slowly(r) {
			s.Receipt(rw, n)
			_, _ = rw.Write([]byte("bought"))
		}
	}
	if a := w.get(s.URL+"/unpaid", "X-Slow", "for ever"); a.StatusCode != http.StatusGatewayTimeout || a.Problem(t).Reason != reasonTimeout {
		t.Errorf("%d %s", a.StatusCode, a.Text)
	}
	if a := proxytest.InTime(t, false, func() proxytest.Answer { return w.get(s.URL + "/unpaid") }); a.Text != "to its end" {
		t.Errorf("an answer that began in time: %d %q", a.StatusCode, a.Text)
	}
	if a := w.get(s.URL+"/unpaid", "X-Slow", "a while", "X-Stainless-Timeout", "60"); a.Text != "to its end" {
		t.Errorf("a client that waits longer: %d %q", a.StatusCode, a.Text)
	}
	if a := w.get(s.URL+"/waits", "X-Slow", "a while", "Prefer", "wait=60"); a.Paid(t) == "" || a.Text != "bought" {
		t.Errorf("%d %q", a.StatusCode, a.Text)
	}
	a := proxytest.InTime(t, false, func() proxytest.Answer { return w.get(s.URL+"/x", "X-Slow", "for ever") })
	if p := a.Problem(t); a.StatusCode != http.StatusGatewayTimeout || p.Reason != DeclinedOpen || p.Payment == nil {
		t.Fatalf("%d %s", a.StatusCode, a.Text)
	}
	if b := w.get(s.URL+"/x", "Prefer", "wait=60"); b.Paid(t) != a.Header.Get(HeaderPayment) || b.Text != "bought" {
		t.Errorf("%v %q", b.Header, b.Text)
	}
	if _, paid, distinct := s.Counts(); paid != 3 || distinct != 2 {
		t.Errorf("%d paid requests with %d payments", paid, distinct)
	}
}
