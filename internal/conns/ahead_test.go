package conns

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serve runs a server over a set until the test ends.
func serve(t *testing.T, s *Set, h http.Handler) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ConnState: s.State}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(s.Listen(l))
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// answered reads one answer and returns its body.
func answered(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const get = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"

// A client is seen leaving whatever it sent behind its request, however it was cut up.
func TestClientIsSeenLeaving(t *testing.T) {
	t.Parallel()
	post := "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
	for name, c := range map[string]struct {
		request string
		more    []string
	}{
		"nothing":            {get, nil},
		"line break":         {get, []string{"\r\n"}},
		"line breaks":        {post, []string{"\r", "\n", "\r\n"}},
		"pipelined":          {get, []string{strings.ReplaceAll(get, "/a", "/b")}},
		"pipelined, halves":  {post, []string{"GET /b HT", "TP/1.1\r\n"}},
		"in the same packet": {get + "\r\n", nil},
		"a lot":              {get, []string{strings.Repeat("x", 60<<10)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun, left := make(chan string, 10), make(chan string, 10)
			addr := serve(t, NewSet(Limits{}), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				begun <- r.URL.Path
				select {
				case <-r.Context().Done():
					left <- r.URL.Path
				case <-time.After(10 * time.Second):
				}
			}))
			conn := dial(t, addr)
			send(t, conn, c.request)
			if got := <-begun; got != "/a" {
				t.Fatal(got)
			}
			for _, m := range c.more {
				send(t, conn, m)
				time.Sleep(20 * time.Millisecond) // in a packet of its own
			}
			_ = conn.Close()
			select {
			case got := <-left:
				if got != "/a" {
					t.Errorf("left %s", got)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("not seen leaving")
			}
		})
	}
}

// A request that comes early is not lost, and comes in order, also when it is more than is kept.
func TestPipelinedRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	addr := serve(t, NewSet(Limits{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/a" {
			<-goOn
		}
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %d %s", r.URL.Path, len(b), strings.Trim(string(b), "x"))
	}))
	conn := dial(t, addr)
	send(t, conn, get)
	go func() {
		_, _ = io.WriteString(conn, fmt.Sprintf("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s!", 300<<10+1, strings.Repeat("x", 300<<10)))
		_, _ = io.WriteString(conn, strings.ReplaceAll(get, "/a", "/c")+strings.ReplaceAll(get, "/a", "/d"))
	}()
	time.Sleep(50 * time.Millisecond)
	close(goOn)
	r := bufio.NewReader(conn)
	for _, want := range []string{"/a 0 ", fmt.Sprintf("/b %d !", 300<<10+1), "/c 0 ", "/d 0 "} {
		if got := answered(t, r); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// net/http reads single bytes also when its buffer has room for no more. These reads do not watch
// for the client's leaving, and must not wait.
func TestSingleByteOfHeader(t *testing.T) {
	t.Parallel()
	addr := serve(t, NewSet(Limits{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(r.URL.Path)) }))
	for _, n := range []int{4090, 4091, 4092, 4093, 4094, 4095, 4096} {
		conn := dial(t, addr)
		line := "GET /" + strings.Repeat("a", n)
		send(t, conn, line[:n])
		time.Sleep(10 * time.Millisecond)
		for _, b := range line[n:] + " HTTP/1.1\r\nHost: x\r\n\r\n" {
			send(t, conn, string(b))
			time.Sleep(time.Millisecond)
		}
		if got := answered(t, bufio.NewReader(conn)); got != fmt.Sprint(n+1) {
			t.Errorf("%d: %q", n, got)
		}
	}
}

// A handler that has taken a connection over may read it byte by byte.
func TestHijackedConnection(t *testing.T) {
	t.Parallel()
	addr := serve(t, NewSet(Limits{}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Time{})
		one := make([]byte, 1)
		for range 3 {
			var from io.Reader = conn
			if buffered.Reader.Buffered() > 0 {
				from = buffered
			}
			if _, err := from.Read(one); err != nil {
				t.Error(err)
				return
			}
			_, _ = conn.Write(one)
		}
	}))
	conn := dial(t, addr)
	send(t, conn, get)
	for _, b := range "xyz" {
		send(t, conn, string(b))
		got := make([]byte, 1)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != string(b) {
			t.Fatalf("%q %v", got, err)
		}
	}
}
