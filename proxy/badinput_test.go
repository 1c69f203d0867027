package proxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// What sellers do wrong, beside what the tests of paying, repeating and streaming cover.

// Headers that are too large come after the payment: the payment is open, and the repeat
// gets it.
func TestOversizedHeadersAfterPayment(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	s.paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			rw.Header().Set("X-Long", strings.Repeat("x", 2<<20))
		}
		s.receipt(rw, n)
	}
	a := w.get(s.URL + "/x")
	if p := a.problem(t); a.StatusCode != http.StatusBadGateway || p.Reason != DeclinedOpen || p.Payment == nil {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	if w.get(s.URL+"/x").paid(t) != a.Header.Get(HeaderPayment) {
		t.Error("a second payment")
	}
	s.expect(2, 2, 1)
}

// Headers that are too large before any payment cost nothing.
func TestOversizedHeadersBeforePayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newSeller(t, func(s *seller) {
		s.challenge = func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("X-Long", strings.Repeat("x", 2<<20))
			s.writeChallenge(rw, r, s.price, "")
		}
	})
	a := w.get(s.URL + "/x")
	if p := a.problem(t); a.StatusCode != http.StatusBadGateway || p.Payment != nil || len(w.payments()) != 0 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// A seller may send two challenges. Those in the header and in the body are for clients of
// different versions; the header counts, whatever the body says.
func TestHeaderAndBodyDisagree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ header, want string }{{v2Challenge("10000", "http://x/", ""), ""}, {"%%%", DeclinedUnreadable}} {
		w := newWorld(t)
		s := newSeller(t, func(s *seller) {
			s.challenge = func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set(x402.HeaderRequired, c.header)
				rw.WriteHeader(402)
				_, _ = rw.Write(v1Challenge("20000", "http://x/", ""))
			}
		})
		a := w.get(s.URL + "/x")
		if c.want != "" {
			a.declined(t, c.want, true)
			continue
		}
		a.paid(t)
		if a.Header.Get(HeaderAmount) != "10000" || s.bought[0].Header.Get(x402.HeaderV1Payment) != "" {
			t.Errorf("%v", a.Header)
		}
	}
}

// A stream that never ends follows its client, and its payment is in the books.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/x", "/free-stream"} {
		w, s := newWorld(t), newSeller(t)
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
			s.paid = func(rw http.ResponseWriter, r *http.Request, n int) {
				s.receipt(rw, n)
				stream(rw, r)
			}
		} else {
			s.challenge = stream
		}
		ctx, leave := context.WithCancel(t.Context())
		resp, err := w.agent().Do(request(t, "GET", s.URL+path, nil).WithContext(ctx))
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
		if p := w.closed(resp.Header.Get(HeaderPayment)); p.State != pay.Settled || p.Answered || !p.Unanswered {
			t.Errorf("in the books: %+v", p)
		}
	}
}

// There is no body to look for a v1 challenge in.
func TestHeadOfV1Seller(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t, func(s *seller) { s.v1 = true })
	a := w.do(w.agent(), request(t, "HEAD", s.URL+"/x", nil))
	if a.StatusCode != 402 || a.Header.Get(HeaderDeclined) != "" || a.Header.Get(HeaderPayment) != "" || a.body != "" {
		t.Errorf("%d %v %q", a.StatusCode, a.Header, a.body)
	}
	s.expect(1, 0, 0)
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
			want, err := do(&http.Client{Transport: direct}, request(t, "GET", s.URL, nil))
			if err != nil {
				t.Fatal(err)
			}
			got := w.get(s.URL)
			got.Header.Del("Via")
			got.Header.Del("Date")
			if got.StatusCode != want.StatusCode || got.body != want.body || fmt.Sprint(got.Header) != fmt.Sprint(want.Header) || fmt.Sprint(got.Trailer) != fmt.Sprint(want.Trailer) {
				t.Errorf("got %d %v %v and %d bytes, want %d %v %v and %d bytes",
					got.StatusCode, got.Header, got.Trailer, len(got.body), want.StatusCode, want.Header, want.Trailer, len(want.body))
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
	s := newSeller(t, func(s *seller) {
		s.challenge = func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Link", "</style.css>; rel=preload")
			rw.WriteHeader(http.StatusEarlyHints)
			rw.Header().Del("Link")
			s.writeChallenge(rw, r, s.price, "")
		}
	})
	a, _, br := w.raw(fmt.Sprintf("GET %s/x HTTP/1.1\nHost: x\nProxy-Authorization: %s\n\n", s.URL, basic(w.secret, "")), "GET")
	if a.StatusCode != http.StatusEarlyHints {
		t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	resp, err := http.ReadResponse(br, &http.Request{Method: "GET"})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get(HeaderPayment) == "" {
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
			s := newSeller(t, func(s *seller) {
				s.challenge = func(rw http.ResponseWriter, r *http.Request) {
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
			resp, err := w.agent().Do(request(t, "GET", s.URL+"/x", nil).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(chunk))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != chunk || resp.StatusCode != 402 || resp.Header.Get(HeaderDeclined) != "" {
				t.Errorf("%d %v %q %v", resp.StatusCode, resp.Header, got, err)
			}
			leave()
			_ = resp.Body.Close()
			<-gone
			s.expect(1, 0, 0)
		})
	}
}

// A seller that answers a payload with a 402 that does not end must not keep the client
// waiting, nor the payment's lease.
func TestEndless402AfterPayment(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	s.paid = func(rw http.ResponseWriter, r *http.Request, _ int) {
		rw.WriteHeader(402)
		_, _ = io.WriteString(rw, `{"x402Version":1,`)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	}
	tr, call := w.transport(nil, TransportOptions{}), w.call()
	tr.patience = 50 * time.Millisecond
	a, err := w.trip(tr, call, request(t, "GET", s.URL+"/x", nil))
	if err != nil {
		t.Fatal(err)
	}
	a.declined(t, DeclinedOpen, false)
	call.Finish(true)
	if p := w.closed(a.problem(t).Payment.ID); p.State != pay.Open || p.Answered {
		t.Errorf("%+v", p)
	}
}

// A seller may ask for money before it says "continue"; the body goes with the payment.
func TestExpectContinueIsKept(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	next := &http.Transport{DisableCompression: true, ExpectContinueTimeout: 10 * time.Second}
	tr, call := w.transport(next, TransportOptions{}), w.call()
	a, err := w.trip(tr, call, request(t, "POST", s.URL+"/x", strings.NewReader("the body"), "Expect", "100-continue"))
	if err != nil {
		t.Fatal(err)
	}
	a.paid(t)
	call.Finish(true)
	if a.body != "paid:POST:the body" {
		t.Errorf("%q", a.body)
	}
	for _, r := range append(s.unpaid, s.bought...) {
		if r.Header.Get("Expect") != "100-continue" {
			t.Errorf("Expect: %q", r.Header.Get("Expect"))
		}
	}
	s.expect(1, 1, 1)
}

// What the seller offers is not ours to choose beyond what purser pays with.
func TestOddOffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	offer := func(change func(o map[string]any)) []byte {
		var c map[string]any
		if err := json.Unmarshal(v1Challenge("10000", "http://x/", ""), &c); err != nil {
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
			s := newSeller(t, func(s *seller) {
				s.challenge = func(rw http.ResponseWriter, _ *http.Request) {
					rw.WriteHeader(402)
					_, _ = rw.Write(body)
				}
			})
			a := w.get(s.URL + "/x")
			if a.StatusCode != 402 || a.Header.Get(HeaderDeclined) == "" || a.body != string(body) {
				t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
			}
			s.expect(1, 0, 0)
		})
	}
	if n := len(w.payments()); n != 0 {
		t.Errorf("%d payments", n)
	}
}

// A client that does not finish its upload is not paid for.
func TestUploadBreaksOff(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	body := io.MultiReader(strings.NewReader("the beginning"), &breaking{})
	tr, call := w.transport(nil, TransportOptions{}), w.call()
	r := request(t, "POST", s.URL+"/x", body, "Expect", "100-continue")
	tr.next.(*http.Transport).ExpectContinueTimeout = 10 * time.Second // so the 402 comes before the body
	a, err := w.trip(tr, call, r)
	if err != nil {
		t.Fatal(err)
	}
	a.declined(t, DeclinedBodyIncomplete, true)
	call.Finish(true)
	s.expect(1, 0, 0)
}

type breaking struct{}

func (*breaking) Read([]byte) (int, error) { return 0, errors.New("the client is gone") }

// Whatever comes back, the client gets an HTTP answer.
func TestGarbageAfterPayment(t *testing.T) {
	t.Parallel()
	for _, garbage := range []string{"garbage\r\n\r\n", "HTTP/1.1 99 X\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\nX: \x00\r\n\r\n"} {
		w, s := newWorld(t), newSeller(t)
		s.paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
			if n > 1 {
				s.receipt(rw, n)
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
		if p := a.problem(t); a.StatusCode != http.StatusBadGateway || p.Reason != DeclinedOpen {
			t.Errorf("%q: %d %s", garbage, a.StatusCode, a.body)
		}
		if w.get(s.URL+"/x").paid(t) != a.Header.Get(HeaderPayment) {
			t.Errorf("%q: a second payment", garbage)
		}
	}
}
