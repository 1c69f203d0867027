package conns

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A request goes on when its client has half-closed the connection, and ends with the connection.
func TestLasting(t *testing.T) {
	t.Parallel()
	if !Looks {
		return
	}
	for name, c := range map[string]struct {
		method string
		leave  func(*net.TCPConn)
		late   time.Duration // what the client lets pass before
		ends   bool
	}{
		"half-closed": {"GET", func(c *net.TCPConn) { _ = c.CloseWrite() }, 0, false},
		"broken off": {"GET", func(c *net.TCPConn) {
			_ = c.SetLinger(0)
			_ = c.Close()
		}, 0, true},
		"half-closed and then broken off": {"GET", func(c *net.TCPConn) {
			_ = c.CloseWrite()
			_ = c.SetLinger(0)
			_ = c.Close()
		}, 0, true},
		"given up":            {"GET", func(c *net.TCPConn) { _ = c.CloseWrite() }, halfClosing + time.Millisecond, true},
		"half-closed, a body": {"POST", func(c *net.TCPConn) { _ = c.CloseWrite() }, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began, left, ended := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				lasting, over := lastingFrom(r, time.Now().Add(-c.late))
				defer over()
				if again, _ := Lasting(lasting); again != lasting {
					t.Error("a request is made lasting twice")
				}
				_, _ = io.Copy(io.Discard, r.Body)
				close(began)
				<-left
				<-Asked(lasting.Context()).Done()
				select {
				case <-lasting.Context().Done():
					ended <- true
				case <-time.After(2 * lookAgain):
					ended <- false
				}
			}))
			s.Config.ConnContext = InDoor
			s.Start()
			defer s.Close()
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, c.method+" / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
			<-began
			c.leave(conn.(*net.TCPConn))
			close(left)
			if got := <-ended; got != c.ends {
				t.Errorf("the request has ended: %t", got)
			}
		})
	}
	r := httptest.NewRequest("GET", "/", nil).WithContext(context.WithValue(t.Context(), askedKey{}, t.Context()))
	if lasting, over := Lasting(r); lasting != r {
		over()
		t.Error("a connection that is not known lasts")
	}
}
