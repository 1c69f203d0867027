package forward

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// setting has a seller set cookies with its challenges.
func setting(s *proxytest.Seller, lines ...string) {
	s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
		for _, line := range lines {
			rw.Header().Add("Set-Cookie", line)
		}
		s.WriteChallenge(rw, r, s.Price, "Payment required")
	}
}

// headers returns those of the requests that a seller got.
func headers(s *proxytest.Seller) (unpaid, paid []http.Header) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, r := range s.Unpaid {
		unpaid = append(unpaid, r.Header)
	}
	for _, r := range s.Bought {
		paid = append(paid, r.Header)
	}
	return unpaid, paid
}

// A cookie of a 402 goes with the payment as the client itself would send it, and reaches the client.
func TestCookiesOfChallenge(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		w := a.world(t)
		set := []string{
			"lb=secret-a; Path=/; HttpOnly", "sid=new; Path=/", "old=; Max-Age=0; Path=/", "lasting=1; Max-Age=60", "here=1; Path=/x",
			"x=1; Domain=other.example", "y=2; Path=/elsewhere", "z=3; Secure", "past=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "not a cookie",
		}
		setting(w.seller, set...)
		w.seller.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
			if n == 1 {
				rw.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			rw.Header().Add("Set-Cookie", "sid=own; Path=/")
			rw.Header().Add("Set-Cookie", "seen=1")
			w.seller.Receipt(rw, n)
		}
		ask := func() proxytest.Answer {
			return w.do(w.buyer(), proxytest.Request(t, "GET", w.seller.URL+"/x/1", nil, "Cookie", "sid=1; mine=a=b; old=9", "Cookie", "more=2"))
		}
		if ask().StatusCode == http.StatusOK {
			t.Fatal("the first answer is lost")
		}
		got := ask()
		got.Paid(t)
		w.seller.Expect(2, 2, 1)
		want := "mine=a=b; more=2; here=1; lb=secret-a; lasting=1; sid=new"
		if !a.absolute {
			want += "; z=3"
		}
		unpaid, paid := headers(w.seller)
		for i, h := range paid {
			sent := strings.Split(strings.Join(h.Values("Cookie"), "; "), "; ")
			slices.Sort(sent)
			expected := strings.Split(want, "; ")
			slices.Sort(expected)
			if !slices.Equal(sent, expected) {
				t.Errorf("send %d has %q, want %q", i+1, sent, expected)
			}
		}
		if sent := unpaid[0].Values("Cookie"); strings.Join(sent, "; ") != "sid=1; mine=a=b; old=9; more=2" {
			t.Errorf("the unpaid request has %q", sent)
		}
		back := slices.DeleteFunc(slices.Clone(set), func(line string) bool { return strings.HasPrefix(line, "sid=") })
		if back = append(back, "sid=own; Path=/", "seen=1"); !slices.Equal(got.Header.Values("Set-Cookie"), back) {
			t.Errorf("the client gets %q, want %q", got.Header.Values("Set-Cookie"), back)
		}
		if strings.Contains(w.Logs.String(), "secret-a") {
			t.Error("a cookie is in the logs")
		}
	})
}

// A cookie of a 402 stays with the host that set it, when the paid answer leads to another one.
func TestCookiesStayWithTheirHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := proxytest.NewSeller(t)
	s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
		s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
			s.Receipt(rw, n)
			http.Redirect(rw, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+"/free", http.StatusFound)
		}
	})
	var led http.Header
	other.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { led = r.Header })
	setting(s, "lb=a; Path=/")
	if a := w.get(s.URL + "/x"); a.StatusCode != http.StatusFound {
		t.Fatal(a.StatusCode, a.Text)
	}
	w.get(strings.Replace(other.URL, "127.0.0.1", "localhost", 1) + "/free")
	if led == nil || led.Get("Cookie") != "" {
		t.Errorf("the other host got %q", led)
	}
}

// A cache that has kept the 402 must not answer the payment.
func TestPaymentIsNotAnsweredByCaches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for given, want := range map[string]string{
		"": "no-cache",
		"max-age=600, no-transform, max-stale, only-if-cached, x=\"a,b\"": "no-cache, no-transform, x=\"a,b\"",
		"no-store":        "no-cache, no-store",
		"no-cache":        "no-cache",
		"x=\"not ended":   "no-cache",
		"stale-if-error":  "no-cache",
		"no-transform,,,": "no-cache, no-transform",
	} {
		s := proxytest.NewSeller(t)
		var header []string
		if given != "" {
			header = []string{"Cache-Control", given}
		}
		w.get(s.URL+"/x", header...).Paid(t)
		unpaid, paid := headers(s)
		if got := paid[0]; got.Get("Cache-Control") != want || len(got.Values("Cache-Control")) != 1 || got.Get("Pragma") != "no-cache" {
			t.Errorf("%s: sent %q, want %q", given, got.Values("Cache-Control"), want)
		}
		if got := unpaid[0].Get("Cache-Control"); got != given {
			t.Errorf("the unpaid request has %q, want %q", got, given)
		}
	}
}

// A header that the client has signed is sent as it came.
func TestSignedHeadersStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, value := range map[string]string{
		"Signature-Input": `sig1=("@method" "cookie" "cache-control");created=1;keyid="k"`,
		"Signature":       `keyId="k",headers="(request-target) date Cookie cache-control",signature="x"`,
		"Authorization":   "AWS4-HMAC-SHA256 Credential=k, SignedHeaders=cache-control;cookie;host, Signature=00",
	} {
		s := proxytest.NewSeller(t)
		setting(s, "lb=a; Path=/")
		w.get(s.URL+"/x", name, value, "Cookie", "a=1", "Cache-Control", "max-age=5").Paid(t)
		if _, paid := headers(s); paid[0].Get("Cookie") != "a=1" || paid[0].Get("Cache-Control") != "max-age=5" || paid[0].Get(name) != value {
			t.Errorf("%s: sent %q and %q", name, paid[0].Get("Cookie"), paid[0].Get("Cache-Control"))
		}
	}
}

// The proofs that a client makes anew for each repeat are those that go with the payment, and the payment is
// the first one's.
func TestFreshProofsAreSentAsTheyCome(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.LoseAnswers(2)
	proofs := []string{"DPoP", "Date", "X-Nonce", "Authorization", "Signature", "X-Request-Id"}
	for _, proof := range []string{"1", "2", "3"} {
		var header []string
		for _, name := range proofs {
			header = append(header, name, "proof "+proof)
		}
		a := w.do(w.agent(), proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader("order"), header...))
		if proof == "3" {
			a.Paid(t)
		}
		_, paid := headers(s)
		sent := paid[len(paid)-1]
		for _, name := range proofs {
			if sent.Get(name) != "proof "+proof {
				t.Errorf("repeat %s sends %s: %q", proof, name, sent.Get(name))
			}
		}
	}
	s.Expect(3, 3, 1)
}

// fronts are answers of servers that find a request's header too large.
var fronts = map[string]func(rw http.ResponseWriter){
	"431":      func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusRequestHeaderFieldsTooLarge) },
	"nginx":    page(400, "<html><head><title>400 Request Header Or Cookie Too Large</title></head></html>"),
	"own":      page(494, "Request header too large"),
	"Apache":   page(400, "Your browser sent a request that this server could not understand. Size of a request header field exceeds server limit."),
	"IIS":      page(400, "<p>HTTP Error 400. The size of the request headers is too long.</p>"),
	"HAProxy":  page(400, "<html><body><h1>400 Bad request</h1>\nYour browser sent an invalid request.\n</body></html>"),
	"uvicorn":  page(400, "Invalid HTTP request received."),
	"gunicorn": page(400, "<h1><p>Bad Request</p></h1>limit request headers fields size"),
	"Jetty":    page(413, "Bad Message 413: Request Header Fields Too Large"),
}

func page(status int, text string) func(http.ResponseWriter) {
	return func(rw http.ResponseWriter) {
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, text)
	}
}

// described has a seller describe its resource at length, and its front refuse paid requests with that.
func described(s *proxytest.Seller, refuse func(http.ResponseWriter), limit int) {
	s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
		text, _ := base64.StdEncoding.DecodeString(proxytest.V2Challenge(s.Price, "http://"+r.Host+r.URL.Path, ""))
		var challenge map[string]any
		_ = json.Unmarshal(text, &challenge)
		challenge["resource"].(map[string]any)["description"] = strings.Repeat("All prices of the exchange. ", 200)
		text, _ = json.Marshal(challenge)
		rw.Header().Set(x402.HeaderRequired, base64.StdEncoding.EncodeToString(text))
		rw.WriteHeader(http.StatusPaymentRequired)
	}
	s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		if len(r.Header.Get(x402.HeaderSignature)) > limit {
			refuse(rw)
			return
		}
		s.Receipt(rw, n)
		_, _ = io.Copy(rw, r.Body)
	}
}

// A front that finds the payment too large gets it once more, slim: the same authorization, one payment.
func TestSlimPayment(t *testing.T) {
	t.Parallel()
	for name, refuse := range fronts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ways(t, func(t *testing.T, a way) {
				w := a.world(t)
				described(w.seller, refuse, 4<<10)
				got := w.do(w.buyer(), proxytest.Request(t, "POST", w.seller.URL+"/x", strings.NewReader("order")))
				if id := got.Paid(t); got.Text != "order" || w.Closed(id).State != pay.Settled {
					t.Errorf("%s, %+v", got.Text, w.Closed(id))
				}
				w.seller.Expect(1, 2, 1)
				signed := w.seller.Signed()
				_, paid := headers(w.seller)
				slim, err := x402.DecodePayload(paid[1].Get(x402.HeaderSignature))
				if err != nil || signed[0] != signed[1] || strings.Contains(string(slim.JSON), `"resource"`) || !strings.Contains(string(slim.JSON), `"accepted"`) {
					t.Errorf("slim: %s, %v", slim.JSON, err)
				}
			})
		})
	}
}

// The slim payload is tried once, and only if nothing says that the seller has seen the payment.
func TestNoSlimPayment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse func(*proxytest.Seller, http.ResponseWriter)
		limit  int
		sends  int
	}{
		"twice":          {func(_ *proxytest.Seller, rw http.ResponseWriter) { rw.WriteHeader(431) }, 0, 2},
		"another 400":    {func(_ *proxytest.Seller, rw http.ResponseWriter) { page(400, "the field city is too long")(rw) }, 0, 1},
		"the body":       {func(_ *proxytest.Seller, rw http.ResponseWriter) { page(413, "Request Entity Too Large")(rw) }, 0, 1},
		"with a receipt": {func(s *proxytest.Seller, rw http.ResponseWriter) { s.Receipt(rw, 1); rw.WriteHeader(431) }, 0, 1},
		"a short one":    {func(_ *proxytest.Seller, rw http.ResponseWriter) { page(400, "<html>Bad request</html>")(rw) }, -1, 1},
		"a 500":          {func(_ *proxytest.Seller, rw http.ResponseWriter) { page(500, "header too large")(rw) }, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(t), proxytest.NewSeller(t)
			described(s, func(rw http.ResponseWriter) { c.refuse(s, rw) }, max(c.limit, 0))
			if c.limit < 0 {
				s.Challenge = nil
			}
			if a := w.get(s.URL + "/x"); a.StatusCode < 400 || a.Header.Get("Purser-Payment") == "" {
				t.Errorf("%d %v", a.StatusCode, a.Header)
			}
			s.Expect(1, c.sends, 1)
		})
	}
}

// A seller's HTTP/2 says how large a header may be. A payment that is too large for it has not left, and goes
// slim.
func TestSlimPaymentForHTTP2(t *testing.T) {
	t.Parallel()
	w := newSecure(t)
	s := proxytest.NewSeller(t)
	described(s, nil, 64<<10)
	front := httptest.NewUnstartedServer(s)
	front.Config.MaxHeaderBytes = 4 << 10
	front.TLS, front.EnableHTTP2 = w.public.server(), true
	front.StartTLS()
	t.Cleanup(front.Close)
	got := w.do(w.secureAgent(true), proxytest.Request(t, "POST", front.URL+"/x", strings.NewReader("order")))
	if got.Paid(t); got.Text != "order" {
		t.Errorf("%s", got.Text)
	}
	s.Expect(1, 1, 1)
}

// A seller that counts a proof once counts the unpaid request, too. The client's repeat goes with the payment at
// once, so that its fresh proof is not used up before it.
func TestProofsThatCountOnce(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusBadRequest, http.StatusForbidden, http.StatusConflict} {
		ways(t, func(t *testing.T, a way) {
			w := a.world(t)
			var used sync.Map
			fresh := func(rw http.ResponseWriter, r *http.Request) bool {
				_, seen := used.LoadOrStore(r.Header.Get("DPoP"), true)
				if seen {
					rw.Header().Set("WWW-Authenticate", `DPoP error="invalid_dpop_proof"`)
					rw.WriteHeader(status)
				}
				return !seen
			}
			w.seller.Challenge = func(rw http.ResponseWriter, r *http.Request) {
				if fresh(rw, r) {
					w.seller.WriteChallenge(rw, r, w.seller.Price, "Payment required")
				}
			}
			w.seller.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
				if fresh(rw, r) {
					w.seller.Receipt(rw, n)
					_, _ = io.Copy(rw, r.Body)
				}
			}
			ask := func(proof, body string) proxytest.Answer {
				return w.do(w.buyer(), proxytest.Request(t, "POST", w.seller.URL+"/x", strings.NewReader(body), "DPoP", proof))
			}
			if got := ask("1", "order"); got.StatusCode != status || got.Header.Get("WWW-Authenticate") == "" {
				t.Fatalf("%d %v", got.StatusCode, got.Header)
			}
			w.seller.Expect(1, 1, 1)
			got := ask("2", "order")
			if got.Paid(t); got.Text != "order" {
				t.Errorf("%s", got.Text)
			}
			w.seller.Expect(1, 2, 1)

			// The next one is a purchase of its own, as is one with another body.
			ask("3", "order")
			w.seller.Expect(2, 3, 2)
			ask("4", "another order")
			w.seller.Expect(3, 4, 3)
			if got := ask("5", "order"); got.Paid(t) == "" || got.Text != "order" {
				t.Errorf("%s", got.Text)
			}
		})
	}
}

// A payment that is over is not sent again, and none is made without a challenge.
func TestProofOfPaymentThatIsOver(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	w := newWorld(t, func(s *setup) {
		clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		s.pay.Clock, s.forward.Clock = clock, clock
	})
	s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
		s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
			if n == 1 {
				rw.WriteHeader(http.StatusUnauthorized)
				return
			}
			s.Receipt(rw, n)
		}
	})
	w.get(s.URL + "/x")
	ahead.Store(int64(58 * time.Second)) // too late for the payment, which is remembered
	if a := w.get(s.URL + "/x"); a.StatusCode == http.StatusOK {
		t.Errorf("%d: the payment may still move", a.StatusCode)
	}
	s.Expect(2, 1, 1)
}
