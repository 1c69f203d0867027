package conns

import (
	"context"
	"io"
	"net/http/httptest"
	"testing"
	"time"
)

// A watch that is made before the answer is written waits for it.
func TestAcknowledgedOnceWritten(t *testing.T) {
	t.Parallel()
	server, client := pair(t, "tcp")
	w := NewWatch(In(context.Background(), server), false)
	got := make(chan bool, 1)
	go func() { got <- w.Acknowledged(false) }()
	select {
	case <-got:
		t.Fatal("nothing was written")
	case <-time.After(2 * lastLook):
	}
	_, _ = io.WriteString(server, "answer")
	if _, err := io.ReadFull(client, make([]byte, 6)); err != nil || !<-got {
		t.Errorf("not acknowledged, %v", err)
	}
}

// A payment ends with its client's side, and belongs to what a door has made of the request since: a trace, for one.
func TestAskedKeepsWhatTheRequestHasGot(t *testing.T) {
	t.Parallel()
	type mark struct{}
	server, client := pair(t, "tcp")
	side, leave := context.WithCancel(In(t.Context(), server))
	r, over := Lasting(httptest.NewRequestWithContext(side, "GET", "/", nil))
	defer over()
	asked := Asked(context.WithValue(r.Context(), mark{}, "span"))
	below, stop := context.WithCancel(asked)
	defer stop()
	if asked.Value(mark{}) != "span" || below.Value(mark{}) != "span" || below.Err() != nil {
		t.Errorf("the mark is %v, the error %v", asked.Value(mark{}), below.Err())
	}
	leave()
	<-below.Done()
	if r.Context().Err() != nil {
		t.Error("a free request has ended with its client's side")
	}
	_ = client.Close()
}
