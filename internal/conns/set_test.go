package conns

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// closed reports whether the other side has closed the connection.
func closed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
	}
}

// Connections that say nothing make room for those that do, the oldest first; those with a
// request under way, and those that were taken over, stay.
func TestQuietConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]Limits{"in all": {Max: 5}, "of a peer": {MaxPeer: 5}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dropped atomic.Int32
			limits.Dropped = func() { dropped.Add(1) }
			s := NewSet(limits)
			begun, busy := make(chan struct{}, 2), make(chan struct{})
			addr := serve(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/slow":
					begun <- struct{}{}
					<-busy
				case "/taken":
					conn, _, err := http.NewResponseController(w).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					begun <- struct{}{}
					go func() {
						defer conn.Close()
						_, _ = io.Copy(io.Discard, conn)
					}()
					return
				}
				_, _ = io.WriteString(w, "ok")
			}))
			ask := func(path string) net.Conn {
				c := dial(t, addr)
				send(t, c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
				return c
			}
			slow, taken, kept := ask("/slow"), ask("/taken"), ask("/")
			if got := answered(t, bufio.NewReader(kept)); got != "ok" {
				t.Fatal(got)
			}
			<-begun
			<-begun
			until(t, "three connections", func() bool { return s.Open() == 3 })
			var silent []net.Conn
			for range 40 {
				silent = append(silent, dial(t, addr))
				// Meanwhile a client that speaks is heard.
				if got := answered(t, bufio.NewReader(ask("/"))); got != "ok" {
					t.Fatal(got)
				}
			}
			if n := s.Open(); n > 5 {
				t.Errorf("%d connections", n)
			}
			until(t, "the first silent one is closed", func() bool { return closed(silent[0]) })
			if n := dropped.Load(); n < 70 {
				t.Errorf("%d dropped", n)
			}
			if closed(taken) || closed(slow) {
				t.Errorf("closed: taken %t, slow %t", closed(taken), closed(slow))
			}
			close(busy)
			_ = slow.SetDeadline(time.Now().Add(20 * time.Second))
			if got := answered(t, bufio.NewReader(slow)); got != "ok" {
				t.Errorf("the slow one got %q", got)
			}
			_ = taken.Close()
			for _, c := range silent {
				_ = c.Close()
			}
			_, _ = slow.Close(), kept.Close()
			until(t, "no connections", func() bool { return s.Open() <= 5 })
		})
	}
}

// If every connection is at work, a new one has to go.
func TestNoRoomAtAll(t *testing.T) {
	t.Parallel()
	s := NewSet(Limits{Max: 2})
	goOn, begun := make(chan struct{}), make(chan struct{}, 2)
	addr := serve(t, s, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-goOn
		_, _ = io.WriteString(w, "ok")
	}))
	var at []net.Conn
	for range 2 {
		c := dial(t, addr)
		send(t, c, get)
		at = append(at, c)
		<-begun
	}
	until(t, "a third is closed", func() bool { return closed(dial(t, addr)) })
	close(goOn)
	for _, c := range at {
		if got := answered(t, bufio.NewReader(c)); got != "ok" {
			t.Error(got)
		}
		_ = c.Close()
	}
	until(t, "their places are free", func() bool { return s.Open() == 0 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.peers) != 0 || s.fresh.Len() != 0 || s.idle.Len() != 0 {
		t.Errorf("left: %v, %d, %d", s.peers, s.fresh.Len(), s.idle.Len())
	}
}

// Open returns the number of connections.
func (s *Set) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}
