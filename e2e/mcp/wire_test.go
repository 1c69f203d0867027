package mcp

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// An exchange is a request and its answer, as they were on the wire.
type exchange struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Header  map[string]string `json:"header"`
	Body    string            `json:"body"`
	Status  int               `json:"status"`
	Answer  map[string]string `json:"answerHeader"`
	Content string            `json:"answer"`
}

// sender sends a request with a body, and returns the answer whose body is yet to be read.
type sender func(r *http.Request, body []byte) (*http.Response, error)

// A wire stands between client and seller, and notes what passes.
type wire struct {
	*httptest.Server
	seller *url.URL

	mu     sync.Mutex
	passed []exchange
}

// newWire opens a wire to a seller. Around the plain sending there may be more, such as a payer.
func newWire(t testing.TB, seller string, around func(sender) sender) *wire {
	t.Helper()
	to, err := url.Parse(seller)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{seller: to}
	transport := &http.Transport{DisableCompression: true}
	plain := sender(func(r *http.Request, body []byte) (*http.Response, error) {
		return w.send(transport, r, body)
	})
	if around != nil {
		plain = around(plain)
	}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		relay(rw, r, plain)
	}))
	t.Cleanup(func() {
		w.CloseClientConnections()
		w.Close()
		transport.CloseIdleConnections()
	})
	return w
}

// relay answers a request with what a sender gets, event by event.
func relay(rw http.ResponseWriter, r *http.Request, send sender) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	res, err := send(r, body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer res.Body.Close()
	for name, values := range res.Header {
		rw.Header()[name] = values
	}
	rw.WriteHeader(res.StatusCode)
	flusher := http.NewResponseController(rw)
	_ = flusher.Flush()
	part := make([]byte, 32<<10)
	for {
		n, err := res.Body.Read(part)
		if _, failed := rw.Write(part[:n]); failed != nil {
			return
		}
		_ = flusher.Flush()
		if err == io.EOF {
			return
		} else if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// send sends a request to the seller, and notes it with its answer when that ends.
func (w *wire) send(transport http.RoundTripper, r *http.Request, body []byte) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = w.seller.Scheme, w.seller.Host, w.seller.Host, ""
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out.Header.Del("Connection")
	out.Header.Del("Accept-Encoding")
	res, err := transport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	x := exchange{
		Method: r.Method, Path: r.URL.RequestURI(), Header: flat(out.Header), Body: string(body),
		Status: res.StatusCode, Answer: flat(res.Header),
	}
	res.Body = &noted{ReadCloser: res.Body, end: func(content string) {
		x.Content = content
		w.mu.Lock()
		defer w.mu.Unlock()
		w.passed = append(w.passed, x)
	}}
	return res, nil
}

// calls lists the exchanges whose request calls the paid tool.
func (w *wire) calls() (found []exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.passed {
		if strings.Contains(x.Body, `"tools/call"`) && strings.Contains(x.Body, `"get_weather"`) {
			found = append(found, x)
		}
	}
	return found
}

// noted is a body that tells what was read of it when it is closed.
type noted struct {
	io.ReadCloser
	content bytes.Buffer
	once    sync.Once
	end     func(content string)
}

func (n *noted) Read(p []byte) (int, error) {
	read, err := n.ReadCloser.Read(p)
	n.content.Write(p[:read])
	if err != nil {
		n.once.Do(func() { n.end(n.content.String()) })
	}
	return read, err
}

func (n *noted) Close() error {
	n.once.Do(func() { n.end(n.content.String()) })
	return n.ReadCloser.Close()
}

// flat leaves out what says nothing.
func flat(header http.Header) map[string]string {
	all := map[string]string{}
	for name, values := range header {
		if name != "Date" && name != "Content-Length" {
			all[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	return all
}

// response is the answer once more.
func (x exchange) response() *http.Response {
	header := http.Header{}
	for name, value := range x.Answer {
		header.Set(name, value)
	}
	return &http.Response{StatusCode: x.Status, Header: header, Body: io.NopCloser(strings.NewReader(x.Content))}
}
