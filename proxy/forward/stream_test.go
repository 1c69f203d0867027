package forward

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// Events arrive one by one, while the seller is still writing.
func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		w := a.world(t)
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
		resp, err := w.buyer().Do(proxytest.Request(t, "GET", w.shop("/events"), nil)) // returns before the first event
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		id := resp.Header.Get(proxy.HeaderPayment)
		br := bufio.NewReader(resp.Body)
		for i := range 3 {
			next <- struct{}{} // the next event is written only now
			if line, err := br.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
				t.Fatalf("%q %v", line, err)
			}
			_, _ = br.ReadString('\n')
			if i == 1 { // the lease is kept until the answer is written out
				if p, err := w.Payer.Payment(t.Context(), w.Key, id); err != nil || p.Lease.Owner == "" {
					t.Errorf("lease while streaming: %+v %v", p, err)
				}
			}
		}
		if _, err := br.ReadByte(); err != io.EOF {
			t.Error(err)
		}
		if p := w.Closed(id); !p.Answered {
			t.Errorf("%+v", p)
		}
	})
}

// An answer that is cut short reaches the client cut short, and was none.
func TestCutAnswer(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		w := a.world(t)
		w.seller.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
			w.seller.Receipt(rw, n)
			rw.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(rw, "the beginning")
			_ = http.NewResponseController(rw).Flush()
			panic(http.ErrAbortHandler)
		}
		if a, err := proxytest.Do(w.buyer(), proxytest.Request(t, "GET", w.shop("/x"), nil)); err == nil {
			t.Fatalf("a whole answer: %s", a.Text)
		}
		p := w.Closed(w.Payments()[0].ID)
		if p.State != pay.Settled || p.Answered || !p.Unanswered {
			t.Errorf("%+v", p)
		}
		w.seller.Paid, w.seller.Reuse = nil, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "all of it") }
		if b := w.do(w.buyer(), proxytest.Request(t, "GET", w.shop("/x"), nil)); b.Paid(t) != p.ID || b.Text != "all of it" {
			t.Errorf("%v %s", b.Header, b.Text)
		}
		w.seller.Expect(2, 2, 1)
	})
}

// Trailers, HEAD, ranges, codings, informational responses, 100-continue and uploads pass as they are.
func TestFeatures(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		w := a.world(t)
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		_, _ = io.WriteString(zip, "packed by the seller")
		_ = zip.Close()
		hint := func(rw http.ResponseWriter) {
			rw.Header().Set("Link", "</style.css>; rel=preload")
			rw.Header().Set(proxy.HeaderPayment, "forged")
			rw.WriteHeader(http.StatusEarlyHints)
			rw.Header().Del("Link")
			rw.Header().Del(proxy.HeaderPayment)
		}
		w.seller.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
			if r.URL.Path == "/refused" {
				w.seller.WriteChallenge(rw, r, w.seller.Price, "no")
				return
			}
			if r.URL.Path == "/hints" {
				hint(rw)
			}
			w.seller.Receipt(rw, n)
			switch r.URL.Path {
			case "/trailers":
				rw.Header().Set("Trailer", "X-Sum, Purser-Transaction")
				_ = http.NewResponseController(rw).Flush() // a length would leave no room for trailers over HTTP/1
				_, _ = io.Copy(rw, r.Body)
				rw.Header().Set("X-Sum", "42")
				rw.Header().Set("Purser-Transaction", "forged")
				rw.Header().Set(http.TrailerPrefix+"Purser-Amount", "forged")
			case "/range":
				http.ServeContent(rw, r, "x.txt", time.Time{}, strings.NewReader("0123456789"))
			case "/gzip":
				rw.Header().Set("Content-Encoding", "gzip")
				_, _ = rw.Write(packed.Bytes())
			case "/hints":
				_, _ = io.WriteString(rw, "then")
			default:
				_, _ = io.Copy(rw, r.Body)
			}
		}
		w.seller.Challenge = func(rw http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/trailers": // net/http drops an HTTP/2 connection on which they come after the answer
				_, _ = io.Copy(io.Discard, r.Body)
			case "/hints": // before the 402 as well
				hint(rw)
			}
			w.seller.WriteChallenge(rw, r, w.seller.Price, "")
		}
		c := w.buyer()
		c.Transport.(*http.Transport).ExpectContinueTimeout = 20 * time.Second

		r := proxytest.Request(t, "POST", w.shop("/trailers"), io.MultiReader(strings.NewReader("sent")), "TE", "trailers")
		r.Trailer = http.Header{"X-Request-Sum": nil}
		r.Body = &trailing{r.Body, func() { r.Trailer.Set("X-Request-Sum", "7") }}
		got := w.do(c, r)
		got.Paid(t)
		if got.Text != "sent" || got.Trailer.Get("X-Sum") != "42" || got.Trailer.Get("Purser-Transaction") != "" || got.Trailer.Get("Purser-Amount") != "" {
			t.Errorf("%q %v", got.Text, got.Trailer)
		}
		if bought := w.seller.Bought[0]; bought.Trailer.Get("X-Request-Sum") != "7" || bought.Header.Get("Te") != "trailers" {
			t.Errorf("the seller got trailers %v, TE %q", bought.Trailer, bought.Header.Get("Te"))
		}

		got = w.do(c, proxytest.Request(t, "HEAD", w.shop("/head"), nil))
		if got.Declined(t, proxy.DeclinedUnasked, true); got.Text != "" {
			t.Errorf("a HEAD with body %q", got.Text)
		}

		got = w.do(c, proxytest.Request(t, "GET", w.shop("/range"), nil, "Range", "bytes=2-4"))
		if got.StatusCode != http.StatusPartialContent || got.Text != "234" || got.Header.Get("Content-Range") != "bytes 2-4/10" || got.Header.Get(proxy.HeaderPayment) == "" {
			t.Errorf("%d %v %q", got.StatusCode, got.Header, got.Text)
		}

		got = w.do(c, proxytest.Request(t, "GET", w.shop("/gzip"), nil, "Accept-Encoding", "gzip"))
		if got.Paid(t); got.Text != packed.String() || got.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%v %q", got.Header, got.Text)
		}

		var hints []string
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, h.Get("Link"), h.Get(proxy.HeaderPayment)))
				return nil
			},
		})
		got = w.do(c, proxytest.Request(t, "GET", w.shop("/hints"), nil).WithContext(ctx))
		if got.Paid(t); got.Text != "then" || len(hints) != 2 || hints[0] != "103</style.css>; rel=preload" || hints[1] != hints[0] {
			t.Errorf("%q after %q", got.Text, hints)
		}

		got = w.do(c, proxytest.Request(t, "POST", w.shop("/expect"), strings.NewReader("body"), "Expect", "100-continue"))
		if got.Paid(t); got.Text != "body" {
			t.Errorf("%q", got.Text)
		}
		if last := w.seller.Unpaid[len(w.seller.Unpaid)-1]; last.Header.Get("Expect") != "" {
			t.Errorf("the seller got Expect: %q", last.Header.Get("Expect"))
		}

		large := strings.Repeat("a large upload ", 40_000) // which the seller asks money for before it has read it
		if got = w.do(c, proxytest.Request(t, "PUT", w.shop("/upload"), io.MultiReader(strings.NewReader(large)))); got.Paid(t) == "" || got.Text != large {
			t.Errorf("%d bytes", len(got.Text))
		}
	})
}

// trailing runs f at the end of a body.
type trailing struct {
	io.ReadCloser
	f func()
}

func (b *trailing) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.f()
	}
	return n, err
}

func TestOtherUpgradesAreNotRelayed(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	a := w.get(s.URL+"/x", "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "Http2-Settings", "AAMAAABk")
	a.Paid(t)
	for _, r := range append(s.Unpaid, s.Bought...) {
		for _, name := range []string{"Upgrade", "Connection", "Http2-Settings"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s: %q", name, r.Header.Get(name))
			}
		}
	}
}

// A seller's odd headers do not keep the paid answer from the client.
func TestOddHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	addr := listen(t, func(conn net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(conn))
		switch {
		case err != nil:
		case r.Header.Get("Payment-Signature") == "":
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 402 P\r\nPAYMENT-REQUIRED: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", proxytest.V2Challenge("10000", "http://x/", ""))
		default:
			_, _ = io.WriteString(conn, "HTTP/1.1 200 \xc3\xa9\r\nX-Title: caf\xc3\xa9 \xff\xfe\r\nPAYMENT-RESPONSE: caf\xc3\xa9\r\n"+
				"Purser-Payment: forged\r\npurser-amount: 1\r\nContent-Length: 4\r\nConnection: close\r\n\r\npaid")
		}
	})
	a := w.get("http://" + addr + "/x")
	id := a.Paid(t)
	if a.Text != "paid" || a.Header.Get("X-Title") != "caf\xc3\xa9 \xff\xfe" || a.Header.Get("Payment-Response") != "caf\xc3\xa9" {
		t.Errorf("%v %q", a.Header, a.Text)
	}
	if len(a.Header.Values(proxy.HeaderPayment)) != 1 || id == "forged" || a.Header.Get(proxy.HeaderAmount) != "10000" {
		t.Errorf("forged headers came through: %v", a.Header)
	}
	proxytest.Eventually(t, "the oddity is noted", func() bool {
		p := w.Closed(id)
		return len(p.Notes) == 1 && strings.Contains(p.Notes[0].Text, "receipt not readable")
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
