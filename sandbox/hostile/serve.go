package hostile

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// maxBody bounds the body of a request, in bytes.
	maxBody = 4 << 20
	// maxHeader holds the largest payment header, in bytes.
	maxHeader = 256 << 10
	// hangTime bounds the time that a call stays without an answer.
	hangTime = 2 * time.Minute
	// notice is the pause after a customer was told to hang up, so that purser notices it first.
	notice = 150 * time.Millisecond
)

// server is a listener on loopback.
type server struct {
	http   *http.Server
	url    string
	done   chan struct{}
	failed error // error of serving; readable once done is closed
}

// serve starts a server whose requests end with ctx.
func serve(ctx context.Context, handler http.Handler) (*server, error) {
	socket, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{
		url: "http://" + socket.Addr().String(), done: make(chan struct{}),
		http: &http.Server{
			Handler: handler, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: maxHeader,
			ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
			BaseContext: func(net.Listener) context.Context { return ctx },
		},
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			s.failed = err
		}
	}()
	return s, nil
}

// close cuts off running requests.
func (s *server) close() error {
	err := s.http.Close()
	<-s.done
	return errors.Join(err, s.failed)
}

// Answer is an HTTP answer that was not sent yet.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// recorder takes an answer from a handler.
type recorder struct{ Answer }

func newRecorder() *recorder {
	return &recorder{Answer{Status: http.StatusOK, Header: http.Header{}}}
}

func (r *recorder) Header() http.Header         { return r.Answer.Header }
func (r *recorder) WriteHeader(status int)      { r.Status = status }
func (r *recorder) Write(b []byte) (int, error) { r.Body = append(r.Body, b...); return len(b), nil }

func (a Answer) writeTo(w http.ResponseWriter) {
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // ignore a caller that has left
}

func jsonAnswer(status int, v any) Answer {
	text, err := json.Marshal(v)
	if err != nil {
		return Answer{Status: http.StatusInternalServerError}
	}
	return Answer{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: text}
}

// reset closes a connection without an answer, like a failing network.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// worldKey is the context key of a request's world.
type worldKey struct{}

// hang sends no answer until the caller leaves.
func hang(w http.ResponseWriter, r *http.Request) {
	if at, ok := r.Context().Value(worldKey{}).(*World); ok && at.Hung != nil {
		at.Hung(r)
	}
	pause(r.Context(), hangTime)
	reset(w)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// endless writes until the caller closes the connection.
func endless(w http.ResponseWriter, r *http.Request, start string) {
	if _, err := w.Write([]byte(start)); err != nil {
		return
	}
	chunk := make([]byte, 32<<10)
	for i := range chunk {
		chunk[i] = ' '
	}
	for began := time.Now(); r.Context().Err() == nil && time.Since(began) < hangTime; {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// inventTransaction returns a transaction hash that is on no chain.
func inventTransaction() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // cannot fail: crypto/rand ends the process instead
	return "0x" + hex.EncodeToString(b[:])
}

// inHeader encodes a value for an x402 header.
func inHeader(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return base64.StdEncoding.EncodeToString(text)
}

func closeAll(servers ...*server) error {
	var errs []error
	for _, s := range servers {
		if s != nil {
			if err := s.close(); err != nil {
				errs = append(errs, fmt.Errorf("close %s: %w", s.url, err))
			}
		}
	}
	return errors.Join(errs...)
}
