package forward

import (
	"bytes"
	"compress/gzip"
	"context"
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

// These tests cover faults of sellers that the tests of paying, repeating and streaming do not.

// Headers that are too large before any payment cost nothing.
func TestOversizedHeadersBeforePayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.Challenges(t, func(s *proxytest.Seller, rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Long", strings.Repeat("x", 2<<20))
		s.WriteChallenge(rw, r, s.Price, "")
	})
	a := w.get(s.URL + "/x")
	if p := a.Problem(t); a.StatusCode != http.StatusBadGateway || p.Payment != nil || len(w.Payments()) != 0 {
		t.Errorf("%d %s", a.StatusCode, a.Text)
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
	if a.StatusCode != 402 || a.Header.Get(proxy.HeaderDeclined) != "no-challenge" || a.Header.Get(proxy.HeaderPayment) != "" || a.Text != "" {
		t.Errorf("%d %v %q", a.StatusCode, a.Header, a.Text)
	}
	s.Expect(1, 0, 0)
}

// A 402 that is none of ours reaches the client as it was sent but for a reason, and so does a challenge with another status.
func TestForeign402IsUnchanged(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, strings.Repeat(`{"code":"card_declined"}`, 9000))
	_ = z.Close()
	for name, f := range map[string]func(rw http.ResponseWriter){
		"page": func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(rw, "<p>card, please</p>")
		},
		"large page": func(rw http.ResponseWriter) {
			_, _ = io.WriteString(rw, strings.Repeat("x", 300_000))
		},
		"other status with a challenge": func(rw http.ResponseWriter) {
			rw.Header().Set(x402.HeaderRequired, proxytest.V2Challenge("10000", "http://x/", ""))
			rw.WriteHeader(412)
		},
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
			if want.StatusCode == http.StatusPaymentRequired {
				detail := "the 402 has no x402 challenge that purser can read"
				if name == "other scheme" {
					detail += ": it asks for L402 (Lightning)"
				}
				if got.Header.Get(proxy.HeaderDeclined) != "no-challenge" || !strings.HasPrefix(got.Header.Get(proxy.HeaderDetail), detail+". Developer: ") {
					t.Errorf("the reason is %v", got.Header)
				}
				got.Header.Del(proxy.HeaderDeclined)
				got.Header.Del(proxy.HeaderDetail)
			}
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

// A page that never ends is no challenge, and is not waited for.
func TestEndless402(t *testing.T) {
	t.Parallel()
	for name, chunk := range map[string]string{"page": "<p>pay</p>", "json": `{"a":"` + strings.Repeat("b", 1000)} {
		t.Run(name, func(t *testing.T) {
			w, gone := newWorld(t), make(chan struct{}, 2)
			const asked = 2 // once more, as programs that pay do
			s := proxytest.Challenges(t, func(_ *proxytest.Seller, rw http.ResponseWriter, r *http.Request) {
				defer func() { gone <- struct{}{} }()
				rw.WriteHeader(402)
				for n := 0; n == 0 || name == "json" && n < 100; n++ { // JSON may be a challenge until it is too long for one
					_, _ = io.WriteString(rw, chunk)
					_ = http.NewResponseController(rw).Flush()
				}
				<-r.Context().Done()
			})
			ctx, leave := context.WithCancel(t.Context())
			resp, err := w.agent().Do(proxytest.Request(t, "GET", s.URL+"/x", nil).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(chunk))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != chunk || resp.StatusCode != 402 || resp.Header.Get(proxy.HeaderDeclined) != "no-challenge" {
				t.Errorf("%d %v %q %v", resp.StatusCode, resp.Header, got, err)
			}
			leave()
			_ = resp.Body.Close()
			for range asked {
				<-gone
			}
			s.Expect(asked, 0, 0)
		})
	}
}
