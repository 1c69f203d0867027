package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
)

// Redirects are the client's to follow, without the payload.
func TestRedirect(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	s.paid = func(rw http.ResponseWriter, r *http.Request, _ int) {
		http.Redirect(rw, r, "http://elsewhere.example/", http.StatusTemporaryRedirect)
	}
	a := w.get(s.URL + "/x")
	if a.StatusCode != http.StatusTemporaryRedirect || a.Header.Get(HeaderPayment) == "" {
		t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	s.expect(1, 1, 1)
}

// A client that follows redirects pays once, wherever the seller sends it.
func TestRedirectsAskForMoneyAgain(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(s *seller, n int) string{
		"to itself":      func(*seller, int) string { return "/x" },
		"to ever new":    func(_ *seller, n int) string { return fmt.Sprintf("/x?n=%d", n) },
		"by a free page": func(_ *seller, n int) string { return fmt.Sprintf("/through?n=%d", n) },
		"in full, louder": func(s *seller, n int) string {
			return fmt.Sprintf("%s/x?n=%d#part", strings.Replace(s.URL, "http:", "HTTP:", 1), n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(t), newSeller(t)
			n := 0
			s.challenge = func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/through" {
					http.Redirect(rw, r, "/y?"+r.URL.RawQuery, http.StatusFound)
					return
				}
				s.writeChallenge(rw, r, s.price, "")
			}
			s.paid = func(rw http.ResponseWriter, r *http.Request, _ int) {
				n++
				s.receipt(rw, n)
				http.Redirect(rw, r, next(s, n), http.StatusFound)
			}
			c := w.agent()
			c.CheckRedirect = nil
			a := w.do(c, request(t, "GET", s.URL+"/x", nil))
			a.ledAgain(t)
			if _, paid, distinct := s.counts(); paid != 1 || distinct != 1 {
				t.Errorf("%d paid requests, %d payments", paid, distinct)
			}
			if p := w.closed(a.problem(t).Payment.ID); p.State != pay.Settled || p.RequestURL != s.URL+"/x" {
				t.Errorf("%s %s", p.State, p.RequestURL)
			}
			// Other pages are not meant.
			if w.get(s.URL+"/else").Header.Get(HeaderPayment) == "" {
				t.Error("another page was not paid for")
			}
			if _, _, distinct := s.counts(); distinct != 2 {
				t.Errorf("%d payments", distinct)
			}
		})
	}
}

// ledAgain checks that an answer is a 402 without a challenge. Its reason depends on whether the receipt of the payment that led
// there is in the books yet.
func (a answer) ledAgain(t *testing.T) {
	t.Helper()
	if reason := a.Header.Get(HeaderDeclined); reason != DeclinedNotDelivered {
		a.declined(t, DeclinedOpen, false)
		return
	}
	a.declined(t, DeclinedNotDelivered, false)
}

// Where a paid answer leads may be asked for by anybody as soon as it was delivered, and by the client itself a minute later.
func TestRedirectThatDelivers(t *testing.T) {
	t.Parallel()
	clock := &ticking{}
	w, s := newWorld(t, func(o *setup) { o.forward.Clock = clock.now }), newSeller(t)
	cookie := &http.Cookie{Name: "bought", Value: "yes"}
	s.challenge = func(rw http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("bought"); err != nil {
			s.writeChallenge(rw, r, s.price, "")
			return
		}
		_, _ = io.WriteString(rw, "here it is")
	}
	s.paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		s.receipt(rw, n)
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
	if a := w.get(s.URL+"/x", "Cookie", cookie.String()); a.StatusCode != http.StatusOK || a.body != "here it is" {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	buys()
	w.get(s.URL + "/x").ledAgain(t)
	clock.advance(redirectTime)
	buys()
}
