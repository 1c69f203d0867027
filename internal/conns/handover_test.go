package conns

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// shared is a socket that several servers have in turn, as Caddy's are across reloads.
type shared struct {
	net.Listener
	came chan net.Conn
}

func share(t *testing.T) *shared {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &shared{l, make(chan net.Conn)}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		defer close(s.came)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.came <- c
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		go func() {
			for c := range s.came {
				_ = c.Close()
			}
		}()
		accepting.Wait()
	})
	return s
}

// user is one server's hold on a shared socket.
type user struct {
	*shared
	once sync.Once
	gone chan struct{}
}

func (u *user) Accept() (net.Conn, error) {
	select {
	case c, ok := <-u.came:
		if ok {
			return c, nil
		}
	case <-u.gone:
	}
	return nil, net.ErrClosed
}

func (u *user) Close() error {
	u.once.Do(func() { close(u.gone) })
	return nil
}

// site is a server that names itself in its answers.
type site struct {
	*http.Server
	set   *Set
	done  chan struct{}
	begun chan struct{} // has something for each slow request, which lasts until the server is shut down
}

func startSite(h *Places, s *shared, name string) *site {
	return startSiteOn(h, &user{shared: s, gone: make(chan struct{})}, name)
}

func startSiteOn(h *Places, inner net.Listener, name string) *site {
	set := NewSet(Limits{Places: h})
	set.patience = 10 * time.Second // a slow machine needs it
	begun, over := make(chan struct{}, 1), make(chan struct{})
	one := &site{set: set, done: make(chan struct{}), begun: begun, Server: &http.Server{
		ReadHeaderTimeout: time.Minute, ConnState: set.State,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			if r.URL.Path == "/slow" {
				begun <- struct{}{}
				<-over
			}
			fmt.Fprintf(w, "%s %s", name, b)
		}),
	}}
	one.RegisterOnShutdown(func() { close(over) })
	l := set.Listen(inner)
	go func() {
		defer close(one.done)
		_ = one.Serve(l)
	}()
	return one
}

func (s *site) stop(t *testing.T) {
	t.Helper()
	s.set.Retire()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	<-s.done
}

func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// Servers follow each other while clients ask without pause: each request is answered, and by one server only.
func TestNoRequestIsLostBetweenServers(t *testing.T) {
	t.Parallel()
	places, socket := new(Places), share(t)
	now := startSite(places, socket, "0")
	var clients sync.WaitGroup
	var over atomic.Bool
	var asked, connected atomic.Int64
	for c := range 8 {
		clients.Go(func() {
			var conn net.Conn
			var r *bufio.Reader
			defer func() { _ = conn.Close() }()
			for n := 0; !over.Load(); n++ {
				if conn == nil {
					var err error
					if conn, err = net.Dial("tcp", socket.Addr().String()); err != nil {
						t.Error(err)
						return
					}
					r = bufio.NewReader(conn)
					connected.Add(1)
				}
				if c%4 == 3 {
					time.Sleep(time.Duration(n%7) * time.Millisecond)
				}
				body := fmt.Sprint(c, " ", n)
				request := post("/a", body)
				if c%2 == 1 && n%3 == 0 { // in two packets, with some time between them
					_, _ = io.WriteString(conn, request[:20])
					time.Sleep(time.Duration(n%5) * 100 * time.Microsecond)
					request = request[20:]
				}
				_, _ = io.WriteString(conn, request)
				res, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Errorf("client %d, request %d: %v", c, n, err)
					return
				}
				got, err := io.ReadAll(res.Body)
				if _, text, _ := strings.Cut(string(got), " "); err != nil || text != body {
					t.Errorf("client %d, request %d: %q %v", c, n, got, err)
					return
				}
				asked.Add(1)
				if res.Close {
					_ = conn.Close()
					conn = nil
				}
			}
		})
	}
	for n := range 100 {
		time.Sleep(5 * time.Millisecond)
		next := startSite(places, socket, fmt.Sprint(n+1))
		now.stop(t)
		now = next
	}
	over.Store(true)
	clients.Wait()
	now.stop(t)
	if n := now.set.Open(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
	t.Logf("%d requests on %d connections", asked.Load(), connected.Load())
}

// waitsIn waits until a site has n connections.
func (s *site) waitsIn(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); s.set.Open() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections, not %d", s.set.Open(), n)
		}
	}
}

func TestQuietConnectionsAreHandedOver(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{
		"nothing was sent": "", "half a request": post("/a", "x")[:10], "two bytes": "PO", "a line break": "\r\n",
	} {
		for _, used := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, used %t", name, used), func(t *testing.T) {
				t.Parallel()
				places, socket := new(Places), share(t)
				old := startSite(places, socket, "old")
				conn := dial(t, socket.Addr().String())
				r := bufio.NewReader(conn)
				if used {
					send(t, conn, post("/a", "1"))
					if got := answered(t, r); got != "old 1" {
						t.Fatal(got)
					}
				} else if begin == "\r\n" {
					t.Skip("no request begins with it")
				}
				send(t, conn, begin)
				time.Sleep(20 * time.Millisecond)
				next := startSite(places, socket, "next")
				old.stop(t) // hands over what is idle; whoever is new to it after a while
				send(t, conn, post("/a", "x")[len(strings.TrimSpace(begin)):])
				if got := answered(t, r); got != "next x" {
					t.Errorf("got %q", got)
				}
				next.waitsIn(t, 1)
				next.stop(t)
			})
		}
	}
}

// late is a hold on a socket that is over while it has a connection in its hands.
type late struct {
	*user
	has, over chan struct{}
}

func (l late) Accept() (net.Conn, error) {
	c, err := l.user.Accept()
	if err == nil {
		close(l.has)
		<-l.over
	}
	return c, err
}

// A connection that is just being accepted when its server closes the listener is the next one's.
func TestConnectionThatIsJustAccepted(t *testing.T) {
	t.Parallel()
	places, socket := new(Places), share(t)
	inner := late{&user{shared: socket, gone: make(chan struct{})}, make(chan struct{}), make(chan struct{})}
	old := startSiteOn(places, inner, "old")
	conn := dial(t, socket.Addr().String())
	<-inner.has
	next := startSite(places, socket, "next")
	old.stop(t)
	close(inner.over)
	send(t, conn, post("/a", "x"))
	if got := answered(t, bufio.NewReader(conn)); got != "next x" {
		t.Errorf("got %q", got)
	}
	next.stop(t)
}

// What is under way stays where it is, and so does what cannot be taken apart.
func TestBusyConnectionsStay(t *testing.T) {
	t.Parallel()
	places, socket := new(Places), share(t)
	old := startSite(places, socket, "old")
	conn := dial(t, socket.Addr().String())
	send(t, conn, post("/slow", "1"))
	<-old.begun
	next := startSite(places, socket, "next")
	old.stop(t)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "old 1" || !res.Close {
		t.Errorf("%q %v, last %t", b, err, res.Close)
	}
	next.waitsIn(t, 0)
	next.stop(t)
}

// Without another listener at the address, connections are closed as ever.
func TestNobodyToHandOverTo(t *testing.T) {
	t.Parallel()
	places, socket := new(Places), share(t)
	old := startSite(places, socket, "old")
	elsewhere := startSite(places, share(t), "elsewhere")
	conn := dial(t, socket.Addr().String())
	send(t, conn, post("/a", "1"))
	r := bufio.NewReader(conn)
	answered(t, r)
	old.stop(t)
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("not closed: %v", err)
	}
	elsewhere.stop(t)
}
