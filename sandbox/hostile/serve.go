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
	// maxBody bounds what is read of a request.
	maxBody = 4 << 20
	// maxHeader holds the largest payment header.
	maxHeader = 256 << 10
	// hangTime bounds how long a call is left without an answer.
	hangTime = 2 * time.Minute
	// notice is how long a party waits after a customer was told to hang up, so that purser hears of it first.
	notice = 150 * time.Millisecond
)

// server is a listener on loopback.
type server struct {
	http   *http.Server
	url    string
	done   chan struct{}
	failed error // of serving; readable once done is closed
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

// close cuts off what is running.
func (s *server) close() error {
	err := s.http.Close()
	<-s.done
	return errors.Join(err, s.failed)
}

// Answer is an HTTP answer that has not been sent.
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
	_, _ = w.Write(a.Body) // who is gone is gone
}

func jsonAnswer(status int, v any) Answer {
	text, err := json.Marshal(v)
	if err != nil {
		return Answer{Status: http.StatusInternalServerError}
	}
	return Answer{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: text}
}

// reset ends a connection without an answer, as a network that fails does.
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

// worldKey is what a request's context has its world by.
type worldKey struct{}

// hang leaves a caller without an answer until it is gone.
func hang(w http.ResponseWriter, r *http.Request) {
	if at, ok := r.Context().Value(worldKey{}).(*World); ok && at.Hung != nil {
		at.Hung(r)
	}
	pause(r.Context(), hangTime)
	reset(w)
}

// pause waits, but not for longer than ctx lives.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// endless writes until the caller has enough.
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

// inventTransaction names a transaction that is on no chain.
func inventTransaction() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return "0x" + hex.EncodeToString(b[:])
}

// inHeader is a value as x402 headers carry it.
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
