package forward

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// A client that follows redirects pays once, wherever the seller sends it.
func TestRedirectsAskForMoneyAgain(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(s *proxytest.Seller, n int) string{
		"to itself":      func(*proxytest.Seller, int) string { return "/x" },
		"to ever new":    func(_ *proxytest.Seller, n int) string { return fmt.Sprintf("/x?n=%d", n) },
		"by a free page": func(_ *proxytest.Seller, n int) string { return fmt.Sprintf("/through?n=%d", n) },
		"in full, louder": func(s *proxytest.Seller, n int) string {
			return fmt.Sprintf("%s/x?n=%d#part", strings.Replace(s.URL, "http:", "HTTP:", 1), n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(t), proxytest.NewSeller(t)
			n := 0
			s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/through" {
					http.Redirect(rw, r, "/y?"+r.URL.RawQuery, http.StatusFound)
					return
				}
				s.WriteChallenge(rw, r, s.Price, "")
			}
			s.Paid = func(rw http.ResponseWriter, r *http.Request, _ int) {
				n++
				s.Receipt(rw, n)
				http.Redirect(rw, r, next(s, n), http.StatusFound)
			}
			c := w.agent()
			c.CheckRedirect = nil
			a := w.do(c, proxytest.Request(t, "GET", s.URL+"/x", nil))
			ledAgain(t, a)
			if _, paid, distinct := s.Counts(); paid != 1 || distinct != 1 {
				t.Errorf("%d paid requests, %d payments", paid, distinct)
			}
			if p := w.Closed(a.Problem(t).Payment.ID); p.State != pay.Settled || p.RequestURL != s.URL+"/x" {
				t.Errorf("%s %s", p.State, p.RequestURL)
			}
			// Other pages are not meant.
			if w.get(s.URL+"/else", "Purser-Again", "new").Header.Get(proxy.HeaderPayment) == "" {
				t.Error("another page was not paid for")
			}
			if _, _, distinct := s.Counts(); distinct != 2 {
				t.Errorf("%d payments", distinct)
			}
		})
	}
}

// ledAgain checks that an answer is a 402 without a challenge. Its reason depends on whether the receipt of the payment that led
// there is in the books yet.
func ledAgain(t *testing.T, a proxytest.Answer) {
	t.Helper()
	if reason := a.Header.Get(proxy.HeaderDeclined); reason != proxy.DeclinedNotDelivered {
		a.Declined(t, proxy.DeclinedOpen, false)
		return
	}
	a.Declined(t, proxy.DeclinedNotDelivered, false)
}

// Where a paid answer leads may be asked for by any client as soon as it was delivered, and by the client itself a minute later.
func TestRedirectThatDelivers(t *testing.T) {
	t.Parallel()
	clock := &ticking{}
	w, s := newWorld(t, func(o *setup) { o.forward.Clock = clock.now }), proxytest.NewSeller(t)
	cookie := &http.Cookie{Name: "bought", Value: "yes"}
	s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("bought"); err != nil {
			s.WriteChallenge(rw, r, s.Price, "")
			return
		}
		_, _ = io.WriteString(rw, "here it is")
	}
	s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		s.Receipt(rw, n)
		http.SetCookie(rw, cookie)
		http.Redirect(rw, r, "/x", http.StatusSeeOther)
	}
	buys := func() {
		t.Helper()
		if a := w.get(s.URL + "/x"); a.StatusCode != http.StatusSeeOther {
			t.Fatalf("%d %v", a.StatusCode, a.Header)
		}
	}
	buys()
	if a := w.get(s.URL+"/x", "Cookie", cookie.String()); a.StatusCode != http.StatusOK || a.Text != "here it is" {
		t.Fatalf("%d %s", a.StatusCode, a.Text)
	}
	buys()
	ledAgain(t, w.get(s.URL+"/x"))
	clock.advance(time.Minute)
	buys()
}
