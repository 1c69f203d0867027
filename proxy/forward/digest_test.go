package forward

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// evidence is that of a body, or of its beginning.
func evidence(body string, cut bool) pay.AnswerBody {
	return pay.AnswerBody{Hash: sha256.Sum256([]byte(body)), Size: int64(len(body)), Cut: cut}
}

// The payment has the hash of what the seller sent, and says whether that was all.
func TestAnswersAreHashed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("sunny ", 1<<18) // in many pieces
	page := "<h1>" + strings.Repeat("sorry ", 1<<10) + "</h1>"
	var packed bytes.Buffer
	pack := gzip.NewWriter(&packed)
	_, _ = io.WriteString(pack, "sunny")
	_ = pack.Close()
	kind := func(rw http.ResponseWriter, is string) { rw.Header().Set("Content-Type", is) }
	flush := func(rw http.ResponseWriter) { _ = http.NewResponseController(rw).Flush() }
	for name, c := range map[string]struct {
		method string
		answer func(s *proxytest.Seller, rw http.ResponseWriter, r *http.Request)
		status int
		want   func(got string) pay.AnswerBody
	}{
		"stream": {"GET", func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) {
			for i := range 64 {
				_, _ = io.WriteString(rw, long[i*len(long)/64:(i+1)*len(long)/64])
				flush(rw)
			}
		}, 200, func(string) pay.AnswerBody { return evidence(long, false) }},
		"length": {"POST", func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", strconv.Itoa(len(long)))
			_, _ = io.WriteString(rw, long)
		}, 200, func(string) pay.AnswerBody { return evidence(long, false) }},
		"compressed": {"GET", func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			_, _ = rw.Write(packed.Bytes())
		}, 200, func(string) pay.AnswerBody { return evidence(packed.String(), false) }},
		"cut by the seller": {"GET", func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(rw, "half")
			flush(rw)
			proxytest.HangUp(rw)
		}, 200, func(string) pay.AnswerBody { return evidence("half", true) }},
		"error in words": {"GET", func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) {
			kind(rw, "application/json")
			rw.WriteHeader(500)
			flush(rw)
			_, _ = io.WriteString(rw, `{"error":"no"}`)
		}, 500, func(string) pay.AnswerBody { return evidence(`{"error":"no"}`, false) }},
		"error page": {"GET", func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) {
			kind(rw, "text/html")
			rw.WriteHeader(502)
			_, _ = io.WriteString(rw, page[:4000])
			flush(rw)
			_, _ = io.WriteString(rw, page[4000:])
		}, 502, func(string) pay.AnswerBody { return evidence(page, false) }},
		"error in bytes": {"POST", func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) {
			kind(rw, "application/octet-stream")
			rw.WriteHeader(404)
			_, _ = io.WriteString(rw, "none")
		}, 404, func(string) pay.AnswerBody { return evidence("none", false) }},
		"another 402": {"GET", func(s *proxytest.Seller, rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Payment-Required", proxytest.V2Challenge(s.Price, "http://"+r.Host+"/x", "once more"))
			rw.WriteHeader(402)
			_, _ = io.WriteString(rw, "pay again")
		}, 402, func(string) pay.AnswerBody { return evidence("pay again", false) }},
		"empty":      {"GET", func(*proxytest.Seller, http.ResponseWriter, *http.Request) {}, 200, func(string) pay.AnswerBody { return evidence("", false) }},
		"no content": {"POST", func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(204) }, 204, func(string) pay.AnswerBody { return evidence("", false) }},
		"no answer":  {"GET", func(*proxytest.Seller, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, func(string) pay.AnswerBody { return pay.AnswerBody{} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ways(t, func(t *testing.T, a way) {
				w := a.world(t)
				w.seller.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
					w.seller.Receipt(rw, n)
					c.answer(w.seller, rw, r)
				}
				got, _ := proxytest.Do(w.buyer(), proxytest.Request(t, c.method, w.shop("/x"), nil))
				p := w.Closed(w.Payments()[0].ID)
				if want := c.want(got.Text); p.AnswerStatus != c.status || p.AnswerBody != want {
					t.Errorf("%d %+v, want %d %+v, notes %v", p.AnswerStatus, p.AnswerBody, c.status, want, p.Notes)
				}
			})
		})
	}
}

// A client leaves in the middle. The payment has the hash of what had come, until a repeat brings all of the answer. Later
// answers under the same Idempotency-Key change nothing.
func TestCutAnswersAreHashed(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		w := a.world(t)
		goOn, _ := stream(w.seller, "data: {\"n\":1}\n\n")
		defer close(goOn)
		again := "again"
		w.seller.Reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, again) }
		key := []string{"Idempotency-Key", "order-1"}
		c := w.buyer()
		resp, err := c.Do(proxytest.Request(t, "GET", w.shop("/x"), nil, key...))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 14)); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		id := resp.Header.Get(proxy.HeaderPayment)
		if p := w.Closed(id); p.AnswerStatus != 200 || p.AnswerBody != evidence("data: {\"n\":1}\n\n", true) {
			t.Errorf("cut: %d %+v", p.AnswerStatus, p.AnswerBody)
		}
		for _, again = range []string{"again", "something else"} {
			w.do(c, proxytest.Request(t, "GET", w.shop("/x"), nil, key...)).Paid(t)
			if p := w.Closed(id); p.AnswerStatus != 200 || p.AnswerBody != evidence("again", false) {
				t.Errorf("%s: %d %+v", again, p.AnswerStatus, p.AnswerBody)
			}
		}
	})
}

// A client leaves at the own end of a stream, which is all of the answer.
func TestStreamsAreHashedToTheirOwnEnd(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		w := a.world(t)
		goOn, _ := stream(w.seller, "data: {\"n\":1}\n\n", "data: [DONE]\n\n")
		defer close(goOn)
		c := w.buyer()
		id := take(t, w, c, "[DONE]")
		c.CloseIdleConnections()
		if p := w.Closed(id); p.AnswerBody != evidence("data: {\"n\":1}\n\ndata: [DONE]\n\n", false) {
			t.Errorf("%+v", p.AnswerBody)
		}
	})
}
