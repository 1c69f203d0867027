package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/proxy/proxytest"
)

const browserLike, wantsPages = "Mozilla/5.0 (agent)", "text/html,application/xhtml+xml,*/*;q=0.8"

// paywalled is a seller of version 1 that shows browsers a page, as x402-express does.
func paywalled(t *testing.T) *proxytest.Seller {
	t.Helper()
	return proxytest.NewSeller(t, func(s *proxytest.Seller) {
		s.V1 = true
		s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.Header.Get("Accept"), "text/html") && strings.Contains(r.UserAgent(), "Mozilla") {
				rw.Header().Set("Content-Type", "text/html")
				rw.WriteHeader(http.StatusPaymentRequired)
				_, _ = io.WriteString(rw, "<h1>Connect a wallet</h1>")
				return
			}
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(http.StatusPaymentRequired)
			_, _ = rw.Write(proxytest.V1Challenge(s.Price, "http://"+r.Host+r.URL.Path, ""))
		}
	})
}

// A fetch tool that looks like a browser buys from a seller that has a page for browsers.
func TestPaywall(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), paywalled(t)
	a := w.get(s.URL+"/x", "User-Agent", browserLike, "Accept", wantsPages)
	a.Paid(t)
	s.Expect(2, 1, 1)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Bought[0].Header.Get("Accept") != wantsPages || s.Unpaid[1].Header.Get("Accept") != "application/json" || s.Unpaid[1].UserAgent() != browserLike {
		t.Errorf("%v, then %v", s.Unpaid[1].Header, s.Bought[0].Header)
	}
}

// A page stays where nothing can be paid behind it, and the request with a body is not sent twice.
func TestPaywallWithoutChallenge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, behind := range map[string]func(http.ResponseWriter){
		"a page":   func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusPaymentRequired) },
		"an error": func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusNotAcceptable) },
		"nothing":  func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := proxytest.Challenges(t, func(_ *proxytest.Seller, rw http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept") == "application/json" {
					behind(rw)
					return
				}
				rw.Header().Set("Content-Type", "text/html; charset=utf-8")
				rw.WriteHeader(http.StatusPaymentRequired)
				_, _ = io.WriteString(rw, "<h1>page</h1>")
			})
			a := w.get(s.URL+"/x", "Accept", wantsPages)
			if a.Declined(t, "no-challenge", false); a.Text != "<h1>page</h1>" {
				t.Errorf("the page became %q", a.Text)
			}
			unpaid, _, _ := s.Counts()
			if w.send(w.door, w.Key, proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader("body"), "Accept", wantsPages)).Declined(t, "no-challenge", false); unpaid < 2 {
				t.Errorf("asked %d times", unpaid)
			}
			if now, _, _ := s.Counts(); now != unpaid+1 {
				t.Errorf("a request with a body was sent %d times", now-unpaid)
			}
		})
	}
}

// The detail of a foreign 402 names how else it can be paid.
func TestForeignWays(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`Payment id="x", realm="r", method="tempo", intent="charge", request="e30"`: "", `L402 macaroon="x"`: "L402 (Lightning)", `LSAT macaroon="x"`: "L402 (Lightning)",
		"Basic": "", "": "",
	} {
		if got := asksFor(http.Header{"Www-Authenticate": {value}}); got != want {
			t.Errorf("%s: %q", value, got)
		}
	}
	if asksFor(http.Header{"Crawler-Price": {"USD 0.01"}}) == "" {
		t.Error("pay per crawl is not named")
	}
}
