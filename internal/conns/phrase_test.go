package conns

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// An answer has the words that its handler chose, and no other answer has them.
func TestRephrase(t *testing.T) {
	t.Parallel()
	t.Run("as they are", func(t *testing.T) { t.Parallel(); testRephrase(t, func(l net.Listener) net.Listener { return l }) })
	t.Run("wrapped", func(t *testing.T) {
		t.Parallel()
		testRephrase(t, func(l net.Listener) net.Listener { return wrapping{l} })
	})
}

// wrapping puts a connection of its own around each, as Caddy does for a site of HTTP/1 only.
type wrapping struct{ net.Listener }

func (w wrapping) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	return struct{ net.Conn }{c}, err
}

func testRephrase(t *testing.T, wrap func(net.Listener) net.Listener) {
	t.Helper()
	const words = "Payment Required; the budget is used up"
	line := "HTTP/1.1 402 Payment Required\r\n\r\n"
	set := NewSet(Limits{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, ConnState: set.State, ConnContext: set.In}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/words":
			Rephrase(r.Context(), http.StatusPaymentRequired, words)
			w.WriteHeader(http.StatusPaymentRequired)
		case "/other":
			Rephrase(r.Context(), http.StatusPaymentRequired, words)
			_, _ = io.WriteString(w, line)
		case "/large": // more than fits into one write
			Rephrase(r.Context(), http.StatusPaymentRequired, words)
			w.WriteHeader(http.StatusPaymentRequired)
			_, _ = io.WriteString(w, strings.Repeat(line, 4_000))
		default:
			w.WriteHeader(http.StatusPaymentRequired)
			_ = http.NewResponseController(w).Flush()
			Rephrase(r.Context(), http.StatusPaymentRequired, words) // too late, and for a body
			_, _ = io.WriteString(w, line)
		}
	})
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(wrap(set.Listen(l))) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	c := dial(t, l.Addr().String())
	r := bufio.NewReader(c)
	for _, ask := range []struct{ path, version, status, body string }{
		{"/words", "1.1", "402 " + words, ""},
		{"/plain", "1.1", "402 Payment Required", line},
		{"/other", "1.1", "200 OK", line},
		{"/large", "1.1", "402 " + words, strings.Repeat(line, 4_000)},
		{"/plain", "1.1", "402 Payment Required", line},
		{"/words", "1.0", "402 " + words, ""},
	} {
		send(t, c, "GET "+ask.path+" HTTP/"+ask.version+"\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.Status != ask.status || string(body) != ask.body {
			t.Errorf("%s: %q, %d bytes, %v", ask.path, resp.Status, len(body), err)
		}
	}
}

// A connection of another kind keeps its words.
func TestRephraseElsewhere(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	ctx := In(context.Background(), a)
	Rephrase(ctx, http.StatusPaymentRequired, "words")
	if ctx != context.Background() {
		t.Error("a connection of net is kept")
	}
}

// broken takes a part of what is written.
type broken struct {
	net.Conn
	takes int
}

func (b broken) Write(p []byte) (int, error) { return min(b.takes, len(p)), io.ErrClosedPipe }

// A write that breaks off never claims more than the caller has given.
func TestRephraseBroken(t *testing.T) {
	t.Parallel()
	text := "HTTP/1.1 402 Payment Required\r\n"
	for takes := range 80 {
		c := NewAhead(broken{takes: takes})
		c.rephrase(http.StatusPaymentRequired, strings.Repeat("x", 40))
		if n, err := c.Write([]byte(text)); err == nil || n < 0 || n > len(text) {
			t.Errorf("%d of %d: %v", n, takes, err)
		}
	}
}

// In frames of HTTP/2, what looks like a status line is a seller's text: other words there would move
// the frames behind them.
func TestRephraseLeavesHTTP2(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	c := NewAhead(ours)
	go func() { _, _ = io.WriteString(theirs, http2Preface) }()
	if _, err := io.ReadFull(c, make([]byte, len(http2Preface))); err != nil {
		t.Fatal(err)
	}
	Rephrase(In(context.Background(), c), http.StatusPaymentRequired, "Payment Required; words")
	const frame = "8 octets 402 Payment Required\r\n and more"
	go func() { _, _ = io.WriteString(c, frame); _ = c.Close() }()
	if got, err := io.ReadAll(theirs); err != nil || string(got) != frame {
		t.Errorf("%q, %v", got, err)
	}
}
