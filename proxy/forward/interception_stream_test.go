package forward

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

func TestServerSentEventsInside(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, http2 bool) {
		w := newSecure(t)
		next := make(chan struct{})
		w.seller.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
			w.seller.Receipt(rw, n)
			rw.Header().Set("Content-Type", "text/event-stream")
			rc := http.NewResponseController(rw)
			_ = rc.Flush()
			for i := range 3 {
				<-next
				_, _ = fmt.Fprintf(rw, "data: %d\n\n", i)
				_ = rc.Flush()
			}
		}
		resp, err := w.secureAgent(http2).Do(proxytest.Request(t, "GET", w.shop("/events"), nil)) // returns before the first event
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		br := bufio.NewReader(resp.Body)
		for i := range 3 {
			next <- struct{}{}
			if line, err := br.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
				t.Fatalf("%q %v", line, err)
			}
			_, _ = br.ReadString('\n')
		}
		if _, err := br.ReadByte(); err != io.EOF {
			t.Error(err)
		}
		if p := w.Closed(resp.Header.Get(proxy.HeaderPayment)); !p.Answered {
			t.Errorf("%+v", p)
		}
	})
}

func TestFeaturesInside(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, http2 bool) {
		w := newSecure(t)
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		_, _ = io.WriteString(zip, "packed by the seller")
		_ = zip.Close()
		w.seller.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
			w.seller.Receipt(rw, n)
			switch r.URL.Path {
			case "/trailers":
				rw.Header().Set("Trailer", "X-Sum, Purser-Transaction")
				_ = http.NewResponseController(rw).Flush() // a length would leave no room for trailers over HTTP/1
				_, _ = io.Copy(rw, r.Body)
				rw.Header().Set("X-Sum", "42")
				rw.Header().Set("Purser-Transaction", "forged")
			case "/range":
				http.ServeContent(rw, r, "x.txt", time.Time{}, strings.NewReader("0123456789"))
			case "/gzip":
				rw.Header().Set("Content-Encoding", "gzip")
				_, _ = rw.Write(packed.Bytes())
			case "/hints":
				rw.Header().Set("Link", "</style.css>; rel=preload")
				rw.WriteHeader(http.StatusEarlyHints)
				_, _ = io.WriteString(rw, "then")
			case "/cut":
				rw.Header().Set("Content-Length", "1000")
				_, _ = io.WriteString(rw, "the beginning")
				_ = http.NewResponseController(rw).Flush()
				panic(http.ErrAbortHandler)
			default:
				_, _ = io.Copy(rw, r.Body)
			}
		}
		w.seller.Challenge = func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/trailers" { // net/http drops an HTTP/2 connection on which they come after the answer
				_, _ = io.Copy(io.Discard, r.Body)
			}
			w.seller.WriteChallenge(rw, r, w.seller.Price, "")
		}
		c := w.secureAgent(http2)
		c.Transport.(*http.Transport).ExpectContinueTimeout = 5 * time.Second

		r := proxytest.Request(t, "POST", w.shop("/trailers"), io.MultiReader(strings.NewReader("sent")), "TE", "trailers")
		r.Trailer = http.Header{"X-Request-Sum": nil}
		r.Body = &trailing{r.Body, func() { r.Trailer.Set("X-Request-Sum", "7") }}
		a := w.do(c, r)
		a.Paid(t)
		if a.Text != "sent" || a.Trailer.Get("X-Sum") != "42" || a.Trailer.Get("Purser-Transaction") != "" {
			t.Errorf("%q %v", a.Text, a.Trailer)
		}
		if got := w.seller.Bought[0].Trailer.Get("X-Request-Sum"); got != "7" {
			t.Errorf("the seller got trailers %v", w.seller.Bought[0].Trailer)
		}

		a = w.do(c, proxytest.Request(t, "HEAD", w.shop("/head"), nil))
		if a.Paid(t); a.Text != "" {
			t.Errorf("%q", a.Text)
		}

		a = w.do(c, proxytest.Request(t, "GET", w.shop("/range"), nil, "Range", "bytes=2-4"))
		if a.StatusCode != http.StatusPartialContent || a.Text != "234" || a.Header.Get("Content-Range") != "bytes 2-4/10" || a.Header.Get(proxy.HeaderPayment) == "" {
			t.Errorf("%d %v %q", a.StatusCode, a.Header, a.Text)
		}

		a = w.do(c, proxytest.Request(t, "GET", w.shop("/gzip"), nil, "Accept-Encoding", "gzip"))
		if a.Paid(t); a.Text != packed.String() || a.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%v %q", a.Header, a.Text)
		}

		var hints []string
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, h.Get("Link")))
				return nil
			},
		})
		a = w.do(c, proxytest.Request(t, "GET", w.shop("/hints"), nil).WithContext(ctx))
		if a.Paid(t); a.Text != "then" || len(hints) != 1 || hints[0] != "103</style.css>; rel=preload" {
			t.Errorf("%q after %q", a.Text, hints)
		}

		a = w.do(c, proxytest.Request(t, "POST", w.shop("/expect"), strings.NewReader("body"), "Expect", "100-continue"))
		if a.Paid(t); a.Text != "body" {
			t.Errorf("%q", a.Text)
		}

		large := strings.Repeat("a large upload ", 40_000)
		a = w.do(c, proxytest.Request(t, "PUT", w.shop("/upload"), io.MultiReader(strings.NewReader(large))))
		if a.Paid(t); a.Text != large {
			t.Errorf("%d bytes", len(a.Text))
		}

		if a, err := proxytest.Do(c, proxytest.Request(t, "GET", w.shop("/cut"), nil)); err == nil {
			t.Errorf("a whole answer: %q", a.Text)
		}
		if p := w.Closed(w.Payments()[0].ID); p.Answered || !p.Unanswered {
			t.Errorf("cut short: %+v", p)
		}
	})
}

// Headers may be as large as at the proxy's own site, and no larger.
func TestLargeHeadersInside(t *testing.T) {
	t.Parallel()
	w := newSecure(t)
	conn := w.inside(w.target(), "shop.example")
	text := func(n int) string {
		return "GET /free HTTP/1.1\nHost: " + w.target() + "\nX-Large: " + strings.Repeat("x", n) + "\n\n"
	}
	a, br := w.raws(conn, text(60<<10), "GET")
	if a.StatusCode != http.StatusOK {
		t.Errorf("%d", a.StatusCode)
	}
	go func() { _, _ = io.WriteString(conn, strings.ReplaceAll(text(80<<10), "\n", "\r\n")) }()
	if b := w.next(br, "GET"); b.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d", b.StatusCode)
	}
}

// A client that knows only HTTP/1.1 gets it, whatever the seller speaks.
func TestProtocolOfClient(t *testing.T) {
	t.Parallel()
	w := newSecure(t)
	for _, c := range []struct {
		offers []string
		want   string
	}{{nil, ""}, {[]string{"http/1.1"}, "http/1.1"}, {[]string{"h2", "http/1.1"}, "h2"}, {[]string{"http/1.1", "h2"}, "h2"}} {
		conn := w.inside(w.target(), "shop.example", c.offers...)
		if err := conn.Handshake(); err != nil || conn.ConnectionState().NegotiatedProtocol != c.want || conn.ConnectionState().Version != tls.VersionTLS13 {
			t.Errorf("%v: %q %v", c.offers, conn.ConnectionState().NegotiatedProtocol, err)
		}
	}
}
