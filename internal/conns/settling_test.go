package conns

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A read that goes on behind a handler is over, and none begins, once its connection has settled.
func TestSettling(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(done)
		settled, settle := Settling(w)
		settle() // of a connection that was not taken over
		conn, _, err := http.NewResponseController(settled).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		begun, read := make(chan struct{}), false
		go func() {
			c := conn.(*settlingConn)
			c.begin()
			close(begun)
			_, _ = c.Conn.Read(make([]byte, 1))
			read = true
			c.end()
		}()
		<-begun
		_ = conn.Close()
		settle()
		if !read {
			t.Error("settled while it is read")
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}))
	defer s.Close()
	c := dial(t, s.Listener.Addr().String())
	send(t, c, get)
	<-done
}
