package hostile

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"time"
)

const (
	// maxBody bounds the body of a request, in bytes.
	maxBody = 4 << 20
	// hangTime bounds the time that a call stays without an answer.
	hangTime = 2 * time.Minute
	// notice is the pause after a customer was told to hang up, so that purser notices it first.
	notice = 150 * time.Millisecond
)

// Answer is an HTTP answer that was not sent yet.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

func (a Answer) writeTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.Header)
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // ignore a caller that has left
}

func jsonAnswer(status int, v any) Answer {
	text, _ := json.Marshal(v) // cannot fail: answers hold texts and numbers
	return Answer{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: text}
}

// stamp sets the Date header of an answer.
func stamp(w http.ResponseWriter, at time.Time) {
	w.Header().Set("Date", at.UTC().Format(http.TimeFormat))
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
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// endless writes until the caller closes the connection.
func endless(w http.ResponseWriter, r *http.Request, start string) {
	if _, err := w.Write([]byte(start)); err != nil {
		return
	}
	chunk := bytes.Repeat([]byte(" "), 32<<10)
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
