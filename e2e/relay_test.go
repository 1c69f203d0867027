package e2e

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/x402"
)

// relay is an HTTP server between purser and another server. It passes everything on, and loses the answers it is told to
// lose.
type relay struct {
	url    string
	server *httptest.Server

	mu    sync.Mutex
	traps []*trap
}

// trap waits for one request.
type trap struct {
	match func(*http.Request, []byte) bool
	loss  loss
	// sprung is closed when the request has come and before it is passed on.
	sprung chan struct{}
}

// loss names the part of an exchange that a relay loses. It then resets the connection.
type loss int

const (
	nothing loss = iota
	theAnswer
	theRequest
)

func newRelay(target string) (*relay, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	r := &relay{}
	forward := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.Out.Host = p.In.Host
		},
		// A server may end a connection that it kept while the next request is on its way.
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		trap := r.find(req, body)
		if trap == nil {
			forward.ServeHTTP(w, req)
			return
		}
		close(trap.sprung)
		switch trap.loss {
		case nothing:
			forward.ServeHTTP(w, req)
			return
		case theAnswer: // the server behind must not notice
			forward.ServeHTTP(httptest.NewRecorder(), req)
		case theRequest:
		}
		panic(http.ErrAbortHandler)
	}))
	r.url = r.server.URL
	return r, nil
}

func (r *relay) close() error {
	r.server.CloseClientConnections()
	r.server.Close()
	return nil
}

// find takes the first trap that a request springs.
func (r *relay) find(req *http.Request, body []byte) *trap {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, trap := range r.traps {
		if trap.match(req, body) {
			r.traps = append(r.traps[:i], r.traps[i+1:]...)
			return trap
		}
	}
	return nil
}

// set lays a trap.
func (r *relay) set(match func(*http.Request, []byte) bool, loss loss) *trap {
	trap := &trap{match: match, loss: loss, sprung: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.traps = append(r.traps, trap)
	return trap
}

// settleOf matches the settlement of a payer's payment at a facilitator.
func settleOf(p *payer) func(*http.Request, []byte) bool {
	return func(req *http.Request, body []byte) bool {
		return req.URL.Path == "/settle" && bytes.Contains(bytes.ToLower(body), []byte(strings.ToLower(p.wallet.Hex())))
	}
}

// paidRequest matches any request that carries a payment.
func paidRequest(req *http.Request, _ []byte) bool {
	return req.Header.Get(x402.HeaderSignature) != "" || req.Header.Get(x402.HeaderV1Payment) != ""
}

// startRelay starts a relay for one test.
func startRelay(t *testing.T, target string) *relay {
	t.Helper()
	r, err := newRelay(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.close() })
	return r
}

// fate says what a wire does with one connection.
type fate struct {
	// cut resets the connection on both sides when it is closed.
	cut <-chan struct{}
	// lose reads the answer to its end, throws it away and then resets the client's side.
	lose bool
}

// startWire starts a TCP listener in front of a server, between it and a client. The first connections meet the given
// fates in turn, all others are passed through. It returns its host and port.
func startWire(t *testing.T, target string, fates ...fate) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ended := make(chan struct{})
	t.Cleanup(func() {
		close(ended)
		_ = listener.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for n := 0; ; n++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			var f fate
			if n < len(fates) {
				f = fates[n]
			}
			wg.Go(func() { carry(client.(*net.TCPConn), target, f, ended) })
		}
	})
	return listener.Addr().String()
}

// carry serves one connection of a wire.
func carry(client *net.TCPConn, target string, f fate, ended <-chan struct{}) {
	defer client.Close()
	conn, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		return
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	var answer io.Writer = client
	if f.lose {
		answer = io.Discard
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.CloseWrite()
	}()
	go func() {
		defer close(over)
		_, _ = io.Copy(answer, server)
	}()
	select {
	case <-over:
		if f.lose {
			_ = client.SetLinger(0)
		}
	case <-f.cut:
		_ = client.SetLinger(0)
		_ = server.SetLinger(0)
	case <-ended:
	}
}
