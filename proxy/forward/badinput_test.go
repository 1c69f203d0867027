package forward

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// What sellers do wrong, beside what the tests of paying, repeating and streaming cover.

// Headers that are too large come after the payment: the payment is open, and the repeat
// gets it.
func TestOversizedHeadersAfterPayment(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			rw.Header().Set("X-Long", strings.Repeat("x", 2<<20))
		}
		s.Receipt(rw, n)
	}
	a := w.get(s.URL + "/x")
	if p := a.Problem(t); a.StatusCode != http.StatusBadGateway || p.Reason != proxy.DeclinedOpen || p.Payment == nil {
		t.Fatalf("%d %s", a.StatusCode, a.Text)
	}
	if w.get(s.URL+"/x").Paid(t) != a.Header.Get(proxy.HeaderPayment) {
		t.Error("a second payment")
	}
	s.Expect(2, 2, 1)
}

// Headers that are too large before any payment cost nothing.
func TestOversizedHeadersBeforePayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
		s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("X-Long", strings.Repeat("x", 2<<20))
			s.WriteChallenge(rw, r, s.Price, "")
		}
	})
	a := w.get(s.URL + "/x")
	if p := a.Problem(t); a.StatusCode != http.StatusBadGateway || p.Payment != nil || len(w.Payments()) != 0 {
		t.Errorf("%d %s", a.StatusCode, a.Text)
	}
}

// A seller may send two challenges. Those in the header and in the body are for clients of
// different versions; the header counts, whatever the body says.
func TestHeaderAndBodyDisagree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ header, want string }{{proxytest.V2Challenge("10000", "http://x/", ""), ""}, {"%%%", proxy.DeclinedUnreadable}} {
		w := newWorld(t)
		s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
			s.Challenge = func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set(x402.HeaderRequired, c.header)
				rw.WriteHeader(402)
				_, _ = rw.Write(proxytest.V1Challenge("20000", "http://x/", ""))
			}
		})
		a := w.get(s.URL + "/x")
		if c.want != "" {
			a.Declined(t, c.want, true)
			continue
		}
		a.Paid(t)
		if a.Header.Get(proxy.HeaderAmount) != "10000" || s.Bought[0].Header.Get(x402.HeaderV1Payment) != "" {
			t.Errorf("%v", a.Header)
		}
	}
}

// A stream that never ends follows its client, and its payment is in the books.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/x", "/free-stream"} {
		w, s := newWorld(t), proxytest.NewSeller(t)
		gone := make(chan struct{})
		stream := func(rw http.ResponseWriter, r *http.Request) {
			defer close(gone)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(rw, "data: more\n\n"); err != nil {
					return
				}
				_ = http.NewResponseController(rw).Flush()
			}
		}
		if path == "/x" {
			s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
				s.Receipt(rw, n)
				stream(rw, r)
			}
		} else {
			s.Challenge = stream
		}
		ctx, leave := context.WithCancel(t.Context())
		resp, err := w.agent().Do(proxytest.Request(t, "GET", s.URL+path, nil).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 100_000)); err != nil {
			t.Error(err)
		}
		leave()
		_ = resp.Body.Close()
		<-gone // the seller has noticed
		if path != "/x" {
			continue
		}
		if p := w.Closed(resp.Header.Get(proxy.HeaderPayment)); p.State != pay.Settled || p.Answered || !p.Unanswered {
			t.Errorf("in the books: %+v", p)
		}
	}
}

// There is no body to look for a v1 challenge in.
func TestHeadOfV1Seller(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t, func(s *proxytest.Seller) { s.V1 = true })
	a := w.do(w.agent(), proxytest.Request(t, "HEAD", s.URL+"/x", nil))
	if a.StatusCode != 402 || a.Header.Get(proxy.HeaderDeclined) != "" || a.Header.Get(proxy.HeaderPayment) != "" || a.Text != "" {
		t.Errorf("%d %v %q", a.StatusCode, a.Header, a.Text)
	}
	s.Expect(1, 0, 0)
}

// A 402 that is none of ours reaches the client as it was sent.
func TestForeign402IsUnchanged(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, strings.Repeat(`{"code":"card_declined"}`, 9000))
	_ = z.Close()
	for name, f := range map[string]func(rw http.ResponseWriter){
		"json": func(rw http.ResponseWriter) {
			_, _ = io.WriteString(rw, ` {"code":"card_declined","accepts":[]}`)
		},
		"other scheme": func(rw http.ResponseWriter) {
			rw.Header().Set("WWW-Authenticate", `L402 macaroon="x", invoice="y"`)
			rw.Header().Add("Set-Cookie", "a=1")
			rw.Header().Add("Set-Cookie", "b=2")
			rw.WriteHeader(402)
		},
		"packed": func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Encoding", "gzip")
			rw.Header().Set("Etag", `"1"`)
			_, _ = rw.Write(packed.Bytes())
		},
		"unknown coding": func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Encoding", "rot13")
			_, _ = io.WriteString(rw, "\x00\x01\x02{")
		},
		"large json": func(rw http.ResponseWriter) {
			_, _ = io.WriteString(rw, "{"+strings.Repeat(" ", 200_000)+"}")
		},
		"trailers": func(rw http.ResponseWriter) {
			rw.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(rw, "{}")
			rw.Header().Set("X-Sum", "7")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				rw.Header()["Date"] = nil
				f(&paymentRequired{ResponseWriter: rw})
			}))
			defer s.Close()
			direct := &http.Transport{DisableCompression: true}
			defer direct.CloseIdleConnections()
			want, err := proxytest.Do(&http.Client{Transport: direct}, proxytest.Request(t, "GET", s.URL, nil))
			if err != nil {
				t.Fatal(err)
			}
			got := w.get(s.URL)
			got.Header.Del("Via")
			got.Header.Del("Date")
			if got.StatusCode != want.StatusCode || got.Text != want.Text || fmt.Sprint(got.Header) != fmt.Sprint(want.Header) || fmt.Sprint(got.Trailer) != fmt.Sprint(want.Trailer) {
				t.Errorf("got %d %v %v and %d bytes, want %d %v %v and %d bytes",
					got.StatusCode, got.Header, got.Trailer, len(got.Text), want.StatusCode, want.Header, want.Trailer, len(want.Text))
			}
		})
	}
}

// paymentRequired writes a 402 with the first bytes.
type paymentRequired struct {
	http.ResponseWriter
	written bool
}

func (w *paymentRequired) Write(p []byte) (int, error) {
	if !w.written {
		w.written = true
		w.WriteHeader(402)
	}
	return w.ResponseWriter.Write(p)
}

// Informational responses to the request without a payment go through as well.
func TestInformationalBeforeThe402(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
		s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Link", "</style.css>; rel=preload")
			rw.WriteHeader(http.StatusEarlyHints)
			rw.Header().Del("Link")
			s.WriteChallenge(rw, r, s.Price, "")
		}
	})
	a, _, br := w.raw(fmt.Sprintf("GET %s/x HTTP/1.1\nHost: x\nProxy-Authorization: %s\n\n", s.URL, basic(w.Secret, "")), "GET")
	if a.StatusCode != http.StatusEarlyHints {
		t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	resp, err := http.ReadResponse(br, &http.Request{Method: "GET"})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get(proxy.HeaderPayment) == "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}

// A page that never ends is no challenge, and is not waited for.
func TestEndless402(t *testing.T) {
	t.Parallel()
	for name, chunk := range map[string]string{"page": "<p>pay</p>", "json": `{"a":"` + strings.Repeat("b", 1000)} {
		t.Run(name, func(t *testing.T) {
			w, gone := newWorld(t), make(chan struct{})
			more := make(chan struct{}, 1000)
			s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
				s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
					defer close(gone)
					rw.WriteHeader(402)
					for {
						_, _ = io.WriteString(rw, chunk)
						_ = http.NewResponseController(rw).Flush()
						select {
						case <-more:
						case <-r.Context().Done():
							return
						}
					}
				}
			})
			if name == "json" { // which may be a challenge until it is too long for one
				for range 100 {
					more <- struct{}{}
				}
			}
			ctx, leave := context.WithCancel(t.Context())
			resp, err := w.agent().Do(proxytest.Request(t, "GET", s.URL+"/x", nil).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(chunk))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != chunk || resp.StatusCode != 402 || resp.Header.Get(proxy.HeaderDeclined) != "" {
				t.Errorf("%d %v %q %v", resp.StatusCode, resp.Header, got, err)
			}
			leave()
			_ = resp.Body.Close()
			<-gone
			s.Expect(1, 0, 0)
		})
	}
}

// What the seller offers is not ours to choose beyond what purser pays with.
func TestOddOffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	offer := func(change func(o map[string]any)) []byte {
		var c map[string]any
		if err := json.Unmarshal(proxytest.V1Challenge("10000", "http://x/", ""), &c); err != nil {
			t.Fatal(err)
		}
		change(c["accepts"].([]any)[0].(map[string]any))
		b, _ := json.Marshal(c)
		return b
	}
	for name, body := range map[string][]byte{
		"amount as number":  offer(func(o map[string]any) { o["maxAmountRequired"] = 10000 }),
		"negative amount":   offer(func(o map[string]any) { o["maxAmountRequired"] = "-1" }),
		"amount with point": offer(func(o map[string]any) { o["maxAmountRequired"] = "0.01" }),
		"huge amount":       offer(func(o map[string]any) { o["maxAmountRequired"] = strings.Repeat("9", 90) }),
		"no payee":          offer(func(o map[string]any) { delete(o, "payTo") }),
		"odd payee":         offer(func(o map[string]any) { o["payTo"] = "0x1234" }),
		"expired":           offer(func(o map[string]any) { o["maxTimeoutSeconds"] = 5 }),
		"unknown scheme":    offer(func(o map[string]any) { o["scheme"] = "stream" }),
		"other name":        offer(func(o map[string]any) { o["extra"] = map[string]string{"name": "USDC", "version": "2"} }),
		"nothing":           []byte(`{"x402Version":1,"accepts":[]}`),
	} {
		t.Run(name, func(t *testing.T) {
			s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
				s.Challenge = func(rw http.ResponseWriter, _ *http.Request) {
					rw.WriteHeader(402)
					_, _ = rw.Write(body)
				}
			})
			a := w.get(s.URL + "/x")
			if a.StatusCode != 402 || a.Header.Get(proxy.HeaderDeclined) == "" || a.Text != string(body) {
				t.Errorf("%d %v %s", a.StatusCode, a.Header, a.Text)
			}
			s.Expect(1, 0, 0)
		})
	}
	if n := len(w.Payments()); n != 0 {
		t.Errorf("%d payments", n)
	}
}

// Whatever comes back, the client gets an HTTP answer.
func TestGarbageAfterPayment(t *testing.T) {
	t.Parallel()
	for _, garbage := range []string{"garbage\r\n\r\n", "HTTP/1.1 99 X\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\nX: \x00\r\n\r\n"} {
		w, s := newWorld(t), proxytest.NewSeller(t)
		s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
			if n > 1 {
				s.Receipt(rw, n)
				return
			}
			conn, buf, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(conn, bufio.NewReader(strings.NewReader(garbage)))
			_ = buf.Flush()
			_ = conn.Close()
		}
		a := w.get(s.URL + "/x")
		if p := a.Problem(t); a.StatusCode != http.StatusBadGateway || p.Reason != proxy.DeclinedOpen {
			t.Errorf("%q: %d %s", garbage, a.StatusCode, a.Text)
		}
		if w.get(s.URL+"/x").Paid(t) != a.Header.Get(proxy.HeaderPayment) {
			t.Errorf("%q: a second payment", garbage)
		}
	}
}
