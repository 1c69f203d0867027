package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/x402"
)

// The differences that are meant, between a request or an answer through Caddy's own reverse proxy and through purser.
var (
	// Every proxy names itself, and in a request a reverse proxy tells of its client, which a forward proxy and the
	// sidecar door do not. Caddy asks for gzip where the client does not say, and unpacks it. The forward proxy answers
	// Expect itself, because it reads the body for the upstream.
	meantInRequests = []string{"Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Accept-Encoding", "Expect", "Payment-Signature"}
	// Caddy, and purser as a reverse proxy, say "Server: Caddy" where the upstream says nothing. purser has headers of
	// its own for what it says of a 402.
	meantInAnswers = []string{"Via", "Server", "Purser-Declined", "Purser-Declined-Detail", "Date"}
)

// Headers in which paid answers may differ: they describe the payment, or purser has written them in its spelling.
var meantInPaidAnswers = []string{"Purser-Payment", "Purser-Amount", "Purser-Transaction", "Cache-Control", "Location"}

// meantInPayments lists what keeps caches from answering a request with a payment.
var meantInPayments = []string{"Cache-Control", "Pragma"}

// exchange is a request and how the origin answers it.
type exchange struct {
	name   string
	method string // default: GET
	path   string // default: /
	header http.Header
	// body returns the request's body. sized sends its length first.
	body    func() io.Reader
	sized   bool
	trailer http.Header
	// answer is the origin's.
	answer http.HandlerFunc
	// scheme is the only one that the exchange is for; both if empty.
	scheme string
	// free is true for what is not tried with a price as well: errors, and what is cut, leave payments unanswered, of which
	// a host has few.
	free bool
	// asked: the 402 names no terms, so that purser asks for them.
	asked bool
	// http1 says that an HTTP/2 client cannot make it.
	http1 bool
	// last makes the exchange the last one of its HTTP/1 connection: after an upload that the origin did not read, Caddy
	// may take the rest of it for the next request, and answers 431. Over HTTP/2 Go's client would lose others with it.
	last bool
}

func text(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Add(header[i], header[i+1])
		}
		w.WriteHeader(code)
		if code >= 200 && code != http.StatusNoContent && code != http.StatusNotModified {
			_, _ = fmt.Fprintf(w, "status %d", code)
		}
	}
}

func bytesOf(n int) []byte { return bytes.Repeat([]byte("0123456789abcdef"), (n+15)/16)[:n] }

// exchanges are the conformance cases.
func exchanges() []exchange {
	list := []exchange{
		{name: "plain", answer: status(200, "Content-Type", "text/plain", "X-Multi", "1", "X-Multi", "2", "X-Empty", "")},
		{name: "path as it came", path: "/a/../b//c%2Fd/%e2%82%ac/;p=1?x=1;y=%zz&x=2&&", answer: status(200)},
		{name: "no path but a query", path: "?x=1", answer: status(200)},
		{name: "request headers", header: http.Header{
			"X-Multi": {"1", "2, 3"}, "X-Empty": {""}, "Cookie": {"a=1; b=2"}, "Authorization": {"Bearer abc"}, "User-Agent": {"Mine/1.0"},
			"X-Latin": {"caf\xe9"}, "X-Long": {strings.Repeat("x", 8<<10)}, "Accept-Language": {"de, en;q=0.5"}, "Cache-Control": {"no-cache"},
		}, answer: status(200)},
		{name: "hop-by-hop request headers", header: http.Header{
			"Connection": {"X-Hop, keep-alive"}, "X-Hop": {"1"}, "Keep-Alive": {"timeout=5"}, "Te": {"trailers, deflate"}, "X-Kept": {"1"},
		}, http1: true, answer: status(200)},
		{name: "no user agent", header: http.Header{"User-Agent": {""}}, answer: status(200)},
		{name: "answer headers", answer: status(200, "Set-Cookie", "a=1; Path=/", "Set-Cookie", "b=2", "X-Latin", "caf\xe9", "X-Long", strings.Repeat("y", 8<<10),
			"Vary", "Accept", "Vary", "Origin", "Link", "</x>; rel=preload", "Content-Disposition", `attachment; filename="a b"`, "Server", "origin/1")},
		{name: "hop-by-hop answer headers", answer: status(200, "Connection", "X-Hop", "X-Hop", "1", "Keep-Alive", "timeout=5", "X-Kept", "1"), scheme: "http"},
		{name: "caching", answer: status(200, "Cache-Control", "public, max-age=60", "Etag", `"abc"`, "Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT", "Expires", "0", "Age", "3")},
		{name: "not modified", header: http.Header{"If-None-Match": {`"abc"`}}, answer: status(304, "Etag", `"abc"`, "Cache-Control", "max-age=60")},
		{name: "no content", method: "DELETE", answer: status(204, "X-Gone", "1")},
		{name: "reset content", method: "POST", answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(205) }},
		{name: "a status nobody knows", answer: status(299)},
		{name: "gzip, asked for", header: http.Header{"Accept-Encoding": {"gzip"}}, answer: zipped},
		{name: "gzip, not asked for", header: http.Header{"Accept-Encoding": {"identity"}}, answer: zipped},
		{name: "range", header: http.Header{"Range": {"bytes=5-9"}}, answer: ranged},
		{name: "several ranges", header: http.Header{"Range": {"bytes=0-1,4-5"}, "Accept-Encoding": {"identity"}}, answer: ranged},
		{name: "range out of bounds", free: true, header: http.Header{"Range": {"bytes=5000-"}}, answer: ranged},
		{name: "range of something newer", header: http.Header{"Range": {"bytes=0-1"}, "If-Range": {`"old"`}}, answer: ranged},
		{name: "HEAD with a length", free: true, method: "HEAD", answer: status(200, "Content-Length", "1234", "Content-Type", "text/plain")},
		{name: "HEAD without a length", free: true, method: "HEAD", answer: status(200)},
		{name: "HEAD of nothing", free: true, method: "HEAD", answer: status(404)},
		{name: "upload", method: "POST", body: text("some text"), sized: true, header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, answer: echoed},
		{name: "upload of nothing", method: "POST", body: text(""), sized: true, answer: echoed},
		{name: "chunked upload", method: "PUT", body: text("in parts"), answer: echoed},
		{name: "large upload", method: "POST", body: func() io.Reader { return bytes.NewReader(bytesOf(5 << 20)) }, sized: true, answer: hashed},
		{name: "large chunked upload", method: "POST", body: func() io.Reader { return bytes.NewReader(bytesOf(5<<20 + 7)) }, answer: hashed},
		{name: "GET with a body", method: "GET", body: text("odd"), sized: true, answer: echoed},
		{name: "upload that is not read", method: "POST", body: func() io.Reader { return bytes.NewReader(bytesOf(8 << 10)) }, sized: true, last: true, free: true, answer: status(413, "Content-Type", "text/plain")},
		{name: "request trailers", method: "POST", body: text("body"), header: http.Header{"Te": {"trailers"}}, trailer: http.Header{"X-Sum": {"42"}}, answer: echoed},
		{name: "answer trailers", header: http.Header{"Te": {"trailers"}}, answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum, X-Other")
			_, _ = io.WriteString(w, "body")
			_ = http.NewResponseController(w).Flush() // else HTTP/2 says the length as well, and HTTP/1 cannot do both
			w.Header().Set("X-Sum", "42")
			w.Header().Set("X-Other", "a")
		}},
		{name: "trailers not announced", answer: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "body")
			_ = http.NewResponseController(w).Flush()
			w.Header().Set(http.TrailerPrefix+"X-Late", "1")
		}},
		{name: "trailers of an empty answer", answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			_ = http.NewResponseController(w).Flush()
			w.Header().Set("X-Sum", "0")
		}},
		{name: "100-continue", method: "POST", body: text("wanted"), sized: true, header: http.Header{"Expect": {"100-continue"}}, answer: echoed},
		{name: "100-continue, refused", method: "POST", body: text("unwanted"), sized: true, header: http.Header{"Expect": {"100-continue"}}, last: true, free: true, answer: status(417)},
		{name: "early hints", answer: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			status(200)(w, r)
		}},
		{name: "several informational answers", answer: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusProcessing)
			w.WriteHeader(http.StatusEarlyHints)
			status(201)(w, r)
		}},
		{name: "large answer", answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytesOf(8 << 20)) }},
		{name: "large answer with a length", answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(8<<20))
			_, _ = w.Write(bytesOf(8 << 20))
		}},
		{name: "answer in parts", answer: func(w http.ResponseWriter, _ *http.Request) {
			for i := range 20 {
				_, _ = fmt.Fprintf(w, "part %d\n", i)
				_ = http.NewResponseController(w).Flush()
			}
		}},
		{name: "no content type", answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "<html>")
		}},
		{name: "answer that is cut", free: true, answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "the beginning")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}},
		{name: "chunked answer that is cut", free: true, answer: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "the beginning")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}},
		{name: "402 of somebody else", free: true, asked: true, answer: status(402, "Content-Type", "application/json", "X-Plan", "gold")},
		{name: "upstream over HTTP/2", scheme: "https", answer: func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }},
	}
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "QUERY", "brew"} {
		list = append(list, exchange{name: "method " + method, method: method, answer: status(200)})
	}
	for _, code := range []int{201, 202, 203, 300, 400, 401, 403, 404, 405, 409, 410, 418, 422, 429, 451, 500, 501, 502, 503, 504} {
		list = append(list, exchange{name: "status " + strconv.Itoa(code), free: code >= 400, answer: status(code, "Retry-After", "3", "Www-Authenticate", `Basic realm="x"`, "Allow", "GET")})
	}
	for _, code := range []int{301, 302, 303, 307, 308} {
		for what, location := range map[string]string{"absolute": "https://elsewhere.example/x?y=1", "relative": "../up?x=1"} {
			list = append(list, exchange{name: fmt.Sprintf("redirect %d, %s", code, what), method: "POST", body: text("body"), sized: true, answer: status(code, "Location", location)})
		}
	}
	return list
}

func zipped(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = w.Write(bytesOf(5000))
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, _ = z.Write(bytesOf(5000))
	_ = z.Close()
}

func ranged(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Etag", `"new"`)
	if strings.Contains(r.Header.Get("Range"), ",") { // as http.ServeContent, whose boundary is random
		w.Header().Set("Content-Type", "multipart/byteranges; boundary=b")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, "--b\r\nContent-Range: bytes 0-1/100\r\n\r\n01\r\n--b--\r\n")
		return
	}
	http.ServeContent(w, r, "x.txt", time.Unix(1e9, 0), bytes.NewReader(bytesOf(100)))
}

func echoed(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	_, _ = w.Write(body)
}

func hashed(w http.ResponseWriter, r *http.Request) {
	sum := sha256.New()
	n, err := io.Copy(sum, r.Body)
	_, _ = fmt.Fprintf(w, "%d %x %v", n, sum.Sum(nil), err)
}

// seen holds the observations of one side of an exchange, one line for each.
type seen map[string]string

// headers adds the header fields of a message except those that are meant to differ.
func (s seen) headers(what string, h http.Header, meant []string) {
	for name, values := range h {
		if slices.Contains(meant, name) || name == exchangeHeader || name == "Idempotency-Key" || len(values) == 0 {
			continue
		}
		if name == "Trailer" { // its order means nothing
			values = strings.Split(strings.Join(values, ", "), ", ")
			slices.Sort(values)
		}
		s[what+" "+name] = fmt.Sprintf("%.200q", values)
	}
}

// differences lists where two sides saw something else.
func (s seen) differences(want seen) []string {
	var list []string
	names := seen{}
	maps.Copy(names, s)
	maps.Copy(names, want)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if s[name] != want[name] {
			list = append(list, fmt.Sprintf("%s: %s, want %s", name, s[name], want[name]))
		}
	}
	return list
}

// exchangeHeader tells the origin which exchange a request belongs to.
const exchangeHeader = "X-Exchange"

// origin is the server behind all doors.
type origin struct {
	exchanges []exchange
	// challenge, if set, is the 402 for a client that does not pay. Any payment is accepted.
	challenge http.Header

	mu   sync.Mutex
	seen map[string]seen // by the value of exchangeHeader
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(exchangeHeader)
	n, _, _ := strings.Cut(id, " ")
	i, err := strconv.Atoi(n)
	if err != nil || i >= len(o.exchanges) {
		http.NotFound(w, r)
		return
	}
	if o.challenge != nil && !paidRequest(r, nil) {
		if len(r.Trailer) > 0 {
			// Go's HTTP/2 server ends the whole connection when trailers come after its answer.
			_, _ = io.Copy(io.Discard, r.Body)
		}
		maps.Copy(w.Header(), o.challenge)
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	got := seen{"method": r.Method, "target": r.RequestURI, "length": strconv.FormatInt(r.ContentLength, 10)}
	meant := meantInRequests
	if o.challenge != nil {
		meant = append(slices.Clone(meant), meantInPayments...)
	}
	got.headers("header", r.Header, meant)
	defer func() { // also when the answer is cut
		got.headers("trailer", r.Trailer, nil)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.seen[id] = got
	}()
	o.exchanges[i].answer(w, r)
}

func (o *origin) saw(id string) seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen[id]
}

// door is a way to the origin.
type door struct {
	name   string
	client *http.Client
	base   string
}

// exchange makes the exchange through a door and returns what the client saw.
func (d door) exchange(t *testing.T, e exchange, id string, meant []string) seen {
	t.Helper()
	method := e.method
	if method == "" {
		method = "GET"
	}
	var informational []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			if code == http.StatusContinue {
				return nil // the reader of the body reports the error, which may be either side
			}
			informational = append(informational, fmt.Sprintf("%d %v", code, header["Link"]))
			return nil
		},
	})
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var body io.Reader
	if e.body != nil {
		body = e.body()
	}
	path := e.path
	if path == "" {
		path = "/"
	}
	req, err := http.NewRequestWithContext(ctx, method, d.base+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil && !e.sized {
		req.ContentLength, req.GetBody = -1, nil
	}
	req.Header = e.header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set(exchangeHeader, id)
	req.Header.Set("Idempotency-Key", strings.ReplaceAll(id, " ", "-")) // some answers are redirects, and others come beside them
	if req.Header["User-Agent"] == nil {
		req.Header.Set("User-Agent", "conformance")
	}
	req.Trailer, req.Close = e.trailer.Clone(), e.last
	start := time.Now()
	res, err := d.client.Do(req)
	if took := time.Since(start); took > patience/2 {
		t.Errorf("%s: the answer took %s", d.name, took) // such as a body that was not asked for
	}
	if err != nil {
		t.Logf("%s %s: %v", d.name, d.base, err)
		return seen{"cut": "true"}
	}
	defer res.Body.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, res.Body)
	if err != nil && res.ContentLength >= 0 {
		return seen{"cut": "true"} // how much of it came is a matter of buffers
	}
	length := res.ContentLength
	if length < 0 && (res.StatusCode == http.StatusNoContent || res.StatusCode == http.StatusNotModified) {
		length = 0 // over HTTP/2 the end may come in a frame of its own
	}
	got := seen{
		"status": strconv.Itoa(res.StatusCode), "length": strconv.FormatInt(length, 10),
		"body": fmt.Sprintf("%d bytes %.6x", n, sum.Sum(nil)), "informational": strings.Join(informational, ", "),
		"cut": strconv.FormatBool(err != nil),
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && res.ProtoMajor == 1 {
		t.Errorf("%s: %v", d.name, err)
	}
	got.headers("header", res.Header, append(meant, "Connection", "Keep-Alive")) // which end at the proxy
	got.headers("trailer", res.Trailer, nil)
	return got
}

// Requests and answers arrive through each door of purser as they do through Caddy's own reverse proxy.
func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, &origin{exchanges: exchanges(), seen: map[string]seen{}}, meantInAnswers, nil)
}

// The same for what is paid on the way. Through Caddy's own reverse proxy the client pays by itself.
func TestConformanceOfPaidAnswers(t *testing.T) {
	t.Parallel()
	asked := send(t, direct, "GET", env.v2.url+"/paid", "")
	challengeOf(t, asked)
	o := &origin{
		exchanges: slices.DeleteFunc(exchanges(), func(e exchange) bool { return e.free }), seen: map[string]seen{},
		challenge: http.Header{"Payment-Required": asked.Header.Values(x402.HeaderRequired)},
	}
	conform(t, o, append(slices.Clone(meantInAnswers), meantInPaidAnswers...), http.Header{"Payment-Signature": {"paid"}})
}

// conform makes the origin's exchanges through every door, and through Caddy with one more header.
func conform(t *testing.T, o *origin, meant []string, more http.Header) {
	s := startSite(t, nameOther, o)
	d := startDoors(t, s)
	d.fundForMany(t)
	direct, h1, h2 := plainly(t), d.behind(t, false), d.behind(t, true)
	for i, e := range o.exchanges {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			for _, scheme := range schemes {
				if e.scheme != "" && e.scheme != scheme {
					continue
				}
				ways := []door{
					{"transport", direct, d.base(viaTransport, scheme)}, {"sidecar", direct, d.base(viaSidecar, scheme)}, {"forward proxy", h1, s.url(scheme)},
				}
				if scheme == "https" && !e.http1 {
					ways = append(ways, door{"forward proxy, HTTP/2", h2, s.url(scheme)})
				}
				through := func(way door, e exchange) (client, server seen) {
					id := fmt.Sprintf("%d %s %s", i, scheme, way.name)
					client = way.exchange(t, e, id, meant)
					process.Eventually(t, 10*time.Second, func() string { // it may still be at it when the client has its answer
						if server = o.saw(id); server == nil {
							return fmt.Sprintf("%s: the origin has not seen the request; the client's answer is %v", way.name, client)
						}
						return ""
					})
					return client, server
				}
				paying := e
				paying.header = http.Header{}
				maps.Copy(paying.header, e.header)
				maps.Copy(paying.header, more)
				wantClient, wantServer := through(door{"caddy", direct, d.base(viaCaddy, scheme)}, paying)
				for _, way := range ways {
					sent := e
					sent.last = e.last && way.client != h2
					client, server := through(way, sent)
					if e.asked { // purser has asked once more, and said by what it can pay
						delete(server, "header Accept-Payment")
					}
					for _, difference := range client.differences(wantClient) {
						t.Errorf("%s, %s, the client's %s", scheme, way.name, difference)
					}
					for _, difference := range server.differences(wantServer) {
						t.Errorf("%s, %s, the origin's %s", scheme, way.name, difference)
					}
				}
			}
		})
	}
}
