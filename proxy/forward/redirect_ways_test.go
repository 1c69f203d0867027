package forward

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// follower is a client that follows redirects by itself, over one proxy after the other.
type follower struct {
	w       *world
	proxies []*http.Client
	clock   *ticking
	method  string
	header  []string
	respell func(string) string // what it asks for instead of a Location
}

// newFollower makes a client of a world with so many proxies on one payer.
func newFollower(t *testing.T, nodes int) *follower {
	t.Helper()
	clock := &ticking{}
	f := &follower{
		w: newWorld(t, func(o *setup) { o.forward.Clock = clock.now }), clock: clock, method: "GET", respell: func(to string) string { return to },
	}
	f.proxies = []*http.Client{f.w.agent()}
	for range nodes - 1 {
		f.proxies = append(f.proxies, f.w.anotherNode(clock.now))
	}
	return f
}

// anotherNode starts a second proxy on the world's store, as another node or the next configuration does, and
// returns a client of it.
func (w *world) anotherNode(now pay.Clock) *http.Client {
	w.T.Helper()
	p, err := New(Options{Payer: w.Payer, Dialer: w.forward.dialer, Logger: w.Logger, Clock: now})
	if err != nil {
		w.T.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { p.ServeHTTP(rw, r, http.NotFoundHandler()) }))
	w.T.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = p.Close(ctx)
	})
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: server.Listener.Addr().String(), User: url.User(w.Secret)})}
	w.T.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// follow asks for a URL, follows up to 12 hops, and repeats what got no answer or a 503. It returns the
// last answer.
func (f *follower) follow(first string) (a proxytest.Answer) {
	f.w.T.Helper()
	method, to := f.method, first
	for hop := range 12 {
		var err error
		a, err = proxytest.Do(f.proxies[hop%len(f.proxies)], proxytest.Request(f.w.T, method, to, nil, f.header...))
		if err != nil {
			f.w.T.Fatalf("%s %s: %v", method, to, err)
		}
		next := ""
		if delay, where, is := strings.Cut(a.Header.Get("Refresh"), "; url="); is {
			seconds, err := time.ParseDuration(delay + "s")
			if err != nil {
				f.w.T.Fatal(err)
			}
			f.clock.advance(seconds)
			next = where
		}
		if wait, err := time.ParseDuration(a.Header.Get("Retry-After") + "s"); err == nil {
			f.clock.advance(wait)
		}
		switch {
		case a.StatusCode >= 300 && a.StatusCode < 400:
			next = a.Header.Get("Location")
			if a.StatusCode == 303 || a.StatusCode < 303 && method == "POST" {
				method = "GET"
			}
		case a.StatusCode >= 500:
			continue // the same again
		}
		if next == "" {
			return a
		}
		to = f.respell(next)
	}
	return a
}

// leadsOn has a seller's paid answers lead to ever new places.
func leadsOn(s *proxytest.Seller, status int, where func(n int) string) {
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		s.Receipt(rw, n)
		rw.Header().Set("Location", where(n))
		rw.WriteHeader(status)
	}
}

func nextPage(n int) string { return fmt.Sprintf("/x%%2Dy?n=%d&q=[a|b]", n) }

// An agent's request is paid once, wherever the seller leads its client, whatever comes between, and
// whichever node the client asks.
func TestOneRequestIsPaidOnceAlongRedirects(t *testing.T) {
	t.Parallel()
	cases := map[string]func(f *follower, s *proxytest.Seller){
		"percent-encoded by the client": func(f *follower, _ *proxytest.Seller) {
			f.respell = strings.NewReplacer("%7C", "|", "%5B", "[", "-", "%2d").Replace
		},
		"with a port by the client": func(f *follower, s *proxytest.Seller) {
			f.respell = func(to string) string {
				return strings.Replace(to, "http://127.0.0.1", "HTTP://127.0.0.1", 1) + "#part"
			}
		},
		"another place of the site": func(f *follower, s *proxytest.Seller) {
			n := 0
			f.respell = func(string) string { n++; return fmt.Sprintf("%s/unseen/%d", s.URL, n) }
		},
		"late 402s": func(f *follower, s *proxytest.Seller) {
			s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.RawQuery != "" {
					f.clock.advance(2 * time.Minute)
				}
				s.WriteChallenge(rw, r, s.Price, "")
			}
		},
		"bodies that last": func(f *follower, s *proxytest.Seller) {
			s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
				s.Receipt(rw, n)
				rw.Header().Set("Location", nextPage(n))
				rw.WriteHeader(302)
				_ = http.NewResponseController(rw).Flush()
				f.clock.advance(2 * time.Minute)
				_, _ = io.WriteString(rw, "moved")
			}
		},
		"a wait that the answer asks for": func(_ *follower, s *proxytest.Seller) {
			s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
				s.Receipt(rw, n)
				rw.Header().Set("Retry-After", "200")
				rw.Header().Set("Location", nextPage(n))
				rw.WriteHeader(302)
			}
		},
		"a Refresh": func(_ *follower, s *proxytest.Seller) {
			s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
				s.Receipt(rw, n)
				rw.Header().Set("Refresh", "100;URL='"+nextPage(n)+"'")
			}
		},
		"a Refresh of the same page": func(_ *follower, s *proxytest.Seller) {
			s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
				s.Receipt(rw, n)
				rw.Header().Set("Refresh", "30")
			}
		},
		"free pages of another site": func(f *follower, s *proxytest.Seller) {
			n := 0
			other := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				n++
				rw.Header().Set("Location", fmt.Sprintf("%s/back?n=%d", strings.Replace(s.URL, "127.0.0.1", "localhost", 1), n))
				rw.WriteHeader(302)
			}))
			f.w.T.Cleanup(other.Close)
			leadsOn(s, 302, func(int) string { return other.URL + "/free" })
		},
		"POST, kept": func(f *follower, s *proxytest.Seller) {
			f.method = "POST"
			leadsOn(s, 307, nextPage)
			n := 0
			f.respell = func(string) string { n++; return fmt.Sprintf("%s/unseen/%d", s.URL, n) }
		},
		"POST, then GET": func(f *follower, s *proxytest.Seller) {
			f.method = "POST"
			leadsOn(s, 303, nextPage)
		},
		"Purser-Again on every hop": func(f *follower, _ *proxytest.Seller) { f.header = []string{"Purser-Again", "new"} },
		"an Idempotency-Key on every hop": func(f *follower, _ *proxytest.Seller) {
			f.header = []string{"Idempotency-Key", "one"}
		},
		"two Locations": func(_ *follower, s *proxytest.Seller) {
			s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
				s.Receipt(rw, n)
				rw.Header()["Location"] = []string{nextPage(n), "/other?n=" + fmt.Sprint(n)}
				rw.WriteHeader(302)
			}
		},
		"a 503 first, and a long wait": func(_ *follower, s *proxytest.Seller) { s.Config.Handler = stumbling(s, "200", false) },
		"no answer first":              func(_ *follower, s *proxytest.Seller) { s.Config.Handler = stumbling(s, "", true) },
		"free redirects between": func(f *follower, s *proxytest.Seller) {
			s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
				f.clock.advance(50 * time.Second)
				if n := len(r.URL.Query()["free"]); n > 0 && n < 4 {
					rw.Header().Set("Location", r.URL.Path+"?"+r.URL.RawQuery+"&free=1")
					rw.WriteHeader(307)
					return
				}
				s.WriteChallenge(rw, r, s.Price, "")
			}
			leadsOn(s, 302, func(n int) string { return fmt.Sprintf("/through?n=%d&free=1", n) })
		},
	}
	for _, status := range []int{300, 301, 302, 303, 305, 307, 308, 310, 399} {
		cases[fmt.Sprint("status ", status)] = func(_ *follower, s *proxytest.Seller) { leadsOn(s, status, nextPage) }
	}
	for name, change := range cases {
		for nodes := 1; nodes <= 2; nodes++ {
			t.Run(fmt.Sprint(name, ", nodes ", nodes), func(t *testing.T) {
				t.Parallel()
				f, s := newFollower(t, nodes), proxytest.NewSeller(t)
				leadsOn(s, 302, nextPage)
				change(f, s)
				a := f.follow(s.URL + "/x")
				if _, _, distinct := s.Counts(); distinct != 1 {
					t.Errorf("paid %d times", distinct)
				}
				if reason := a.Header.Get(proxy.HeaderDeclined); reason == "" || a.Header.Get("Payment-Required") != "" {
					t.Errorf("the last answer is %d %v", a.StatusCode, a.Header)
				}
			})
		}
	}
}

// stumbling is a seller that answers the first request for each place but /x with a 503, or not at all.
func stumbling(s *proxytest.Seller, retryAfter string, hangUp bool) http.Handler {
	seen := map[string]bool{"/x": true} // a client asks for one after the other
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case seen[r.RequestURI]:
			s.ServeHTTP(rw, r)
		case hangUp:
			seen[r.RequestURI] = true
			proxytest.HangUp(rw)
		default:
			seen[r.RequestURI] = true
			rw.Header().Set("Retry-After", retryAfter)
			rw.WriteHeader(503)
		}
	})
}

// A way may lead through places that purser does not see. Then it is paid twice at most.
func TestRedirectsThroughPlacesThatAreNotSeen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header []string
		again  bool
	}{
		"each time at another site":        {},
		"at the same site by Purser-Again": {[]string{"Purser-Again", "new"}, true},
	} {
		for nodes := 1; nodes <= 2; nodes++ {
			t.Run(fmt.Sprint(name, ", nodes ", nodes), func(t *testing.T) {
				t.Parallel()
				f := newFollower(t, nodes)
				f.header = c.header
				var sellers []*proxytest.Seller
				for range 5 {
					s := proxytest.NewSeller(t)
					leadsOn(s, 302, func(int) string { return "https://elsewhere.example/hop" })
					sellers = append(sellers, s)
				}
				hop := 0
				f.respell = func(string) string {
					if hop++; c.again || hop == len(sellers) {
						return fmt.Sprintf("%s/x?n=%d", sellers[0].URL, hop)
					}
					return fmt.Sprintf("%s/x?n=%d", sellers[hop].URL, hop)
				}
				f.follow(sellers[0].URL+"/x").Declined(t, pay.RuleRedirected, false)
				paid := 0
				for _, s := range sellers {
					_, _, n := s.Counts()
					paid += n
				}
				if paid != 2 {
					t.Errorf("paid %d times", paid)
				}
			})
		}
	}
}

// An agent that buys several things from one site says so, or has asked for them before.
func TestPurchasesBesideARedirect(t *testing.T) {
	t.Parallel()
	for nodes := 1; nodes <= 2; nodes++ {
		t.Run(fmt.Sprint("nodes ", nodes), func(t *testing.T) {
			t.Parallel()
			f, s := newFollower(t, nodes), proxytest.NewSeller(t)
			turn := 0
			buys := func(path string, header ...string) proxytest.Answer {
				t.Helper()
				turn++
				return f.w.do(f.proxies[turn%nodes], proxytest.Request(t, "GET", s.URL+path, nil, header...))
			}
			for range nodes {
				buys("/before").Paid(t)
			}
			s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
				s.Receipt(rw, n)
				if strings.HasPrefix(r.URL.Path, "/x") {
					http.Redirect(rw, r, "/kept", http.StatusFound)
				}
				_, _ = io.WriteString(rw, "goods")
			}
			if a := buys("/x"); a.StatusCode != http.StatusFound {
				t.Fatalf("%d", a.StatusCode)
			}
			a := buys("/new")
			a.Declined(t, pay.RuleRedirected, false)
			if detail := a.Header.Get(proxy.HeaderDetail); !strings.Contains(detail, "Idempotency-Key") || !strings.Contains(detail, "Purser-Again") {
				t.Errorf("detail %q", detail)
			}
			for range 2 * nodes {
				buys("/before").Paid(t)
			}
			buys("/new", "Purser-Again", "new").Paid(t)
			for i := range 3 { // each is a request of its own, whatever their answers are
				if a := buys(fmt.Sprint("/x", i), "Idempotency-Key", fmt.Sprint(i)); a.StatusCode != http.StatusFound {
					t.Errorf("%d %v", a.StatusCode, a.Header)
				}
			}
			f.w.do(f.proxies[0], proxytest.Request(t, "POST", s.URL+"/order", strings.NewReader("an order"))).Paid(t)
			f.clock.advance(pay.RedirectTime)
			buys("/newer").Paid(t)
		})
	}
}

// A request that came before a redirect cannot follow it.
func TestRequestsUnderWayWhenARedirectComes(t *testing.T) {
	t.Parallel()
	f, s := newFollower(t, 1), proxytest.NewSeller(t)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/beside" {
			close(arrived)
			<-goOn
		}
		s.WriteChallenge(rw, r, s.Price, "")
	}
	leadsOn(s, 302, nextPage)
	beside := proxytest.Start(f.proxies[0], proxytest.Request(t, "GET", s.URL+"/beside", nil))
	<-arrived
	f.clock.advance(time.Second)
	if a := f.w.get(s.URL + "/x"); a.StatusCode != http.StatusFound {
		t.Fatalf("%d", a.StatusCode)
	}
	f.clock.advance(time.Second)
	close(goOn)
	if o := <-beside; o.Err != nil || o.StatusCode != http.StatusFound {
		t.Errorf("%+v", o)
	}
	f.w.get(s.URL+"/after").Declined(t, pay.RuleRedirected, false)
}

// A delivery ends a way, once the client has all of it.
func TestADeliveryEndsAWay(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 404, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			f, s := newFollower(t, 1), proxytest.NewSeller(t)
			var cut atomic.Bool
			cut.Store(true)
			s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/kept" {
					s.WriteChallenge(rw, r, s.Price, "")
					return
				}
				rw.WriteHeader(status)
				_, _ = io.WriteString(rw, "here it ")
				if cut.Load() {
					_ = http.NewResponseController(rw).Flush()
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(rw, "is")
			}
			leadsOn(s, 302, func(int) string { return "/kept" })
			f.w.get(s.URL + "/x")
			if _, err := proxytest.Do(f.proxies[0], proxytest.Request(t, "GET", s.URL+"/kept", nil)); err == nil {
				t.Error("the answer was not cut")
			}
			f.w.get(s.URL+"/new").Declined(t, pay.RuleRedirected, false)
			cut.Store(false)
			if a := f.w.get(s.URL + "/kept"); a.StatusCode != status || a.Text != "here it is" {
				t.Errorf("%d %s", a.StatusCode, a.Text)
			}
			if a := f.w.get(s.URL + "/new"); (a.StatusCode == http.StatusFound) != (status == 200) {
				t.Errorf("%d %v", a.StatusCode, a.Header)
			}
		})
	}
}

// Requests inside TLS stand on the same ways, also those that begin without it.
func TestRedirectsIntoTLS(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, http2 bool) {
		s, plain := newSecure(t), proxytest.NewSeller(t)
		inside := func(n int) string { return s.shop(fmt.Sprintf("/y?n=%d", n)) }
		leadsOn(plain, 302, inside)
		leadsOn(s.seller, 301, inside)
		if a := s.get(plain.URL + "/x"); a.Header.Get("Location") != inside(1) {
			t.Fatalf("%d %v", a.StatusCode, a.Header)
		}
		ledAgain(t, s.do(s.secureAgent(http2), proxytest.Request(t, "GET", inside(1), nil)))
		s.do(s.secureAgent(http2), proxytest.Request(t, "GET", s.shop("/else"), nil)).Declined(t, pay.RuleRedirected, false)
		if a := s.do(s.secureAgent(http2), proxytest.Request(t, "GET", s.shop("/x"), nil, "Idempotency-Key", "x")); a.Header.Get("Location") != inside(1) {
			t.Errorf("%d %v", a.StatusCode, a.Header)
		}
		s.seller.Expect(3, 1, 1)
	})
}

// Clients of others spell what they are led to in their own way.
func TestRealClientsPayOnceAlongRedirects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		program string
		args    func(w *world, url string) []string
	}{
		"curl": {"curl", func(w *world, url string) []string {
			return []string{"-sS", "-L", "-o", "/dev/null", "-x", "http://" + w.addr(), "-U", w.Secret + ":", url}
		}},
		"requests": {"python3", func(w *world, url string) []string {
			return []string{"-c", fmt.Sprintf(`
import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry
s = requests.Session(); s.trust_env = False
s.mount('http://', HTTPAdapter(max_retries=Retry(total=3, status_forcelist=[503])))
s.get(%q, proxies={'http': 'http://%s:x@%s'})`, url, w.Secret, w.addr())}
		}},
	} {
		for _, status := range []int{300, 302, 308} {
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				t.Parallel()
				if _, err := exec.LookPath(c.program); err != nil {
					t.Skip(err)
				}
				w, s := newWorld(t), proxytest.NewSeller(t)
				leadsOn(s, status, nextPage)
				var shop http.Handler = s
				if name == "requests" {
					shop = stumbling(s, "0", false)
				}
				front := httptest.NewServer(shop) // the client is another process, so the seller is made before its server
				t.Cleanup(front.Close)
				out, err := exec.CommandContext(bounded(t, time.Minute), c.program, c.args(w, front.URL+"/x")...).CombinedOutput()
				if strings.Contains(string(out), "ModuleNotFoundError") {
					t.Skip("requests is not installed")
				}
				if _, _, distinct := s.Counts(); distinct != 1 || err != nil {
					t.Errorf("paid %d times: %v\n%s", distinct, err, out)
				}
			})
		}
	}
}
