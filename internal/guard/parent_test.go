package guard

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// echo greets each connection, and sends back what comes.
func echo(t *testing.T) (address string) {
	t.Helper()
	return accept(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "hello\n")
		_, _ = io.Copy(conn, conn)
	})
}

func accept(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

// relay moves bytes between a client of a proxy and the echo.
func relay(client net.Conn, in io.Reader, to string) {
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(up, in)
		_ = up.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, up)
}

// asked remembers what a parent was asked for.
type asked struct {
	mu    sync.Mutex
	names []string
}

func (a *asked) add(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names = append(a.names, name)
}

func (a *asked) all() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.names, " ")
}

// connectProxy leads each CONNECT with the login "agent:secret" to the echo.
func connectProxy(t *testing.T, a *asked, to string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.add(r.Host)
		if r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") != "Basic YWdlbnQ6c2VjcmV0" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		up, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		defer up.Close()
		greeting, _ := bufio.NewReader(io.LimitReader(up, 6)).ReadString('\n')
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"+greeting) // in one packet
		go func() { _, _ = io.Copy(up, buffered); _ = up.(*net.TCPConn).CloseWrite() }()
		_, _ = io.Copy(conn, up)
	})
}

// socks is a SOCKS5 proxy without logins that leads each name to the echo.
func socks(t *testing.T, a *asked, to string) (address string) {
	return accept(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		head := make([]byte, 2)
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		_, _ = io.CopyN(io.Discard, in, int64(head[1]))
		_, _ = conn.Write([]byte{5, 0})
		request := make([]byte, 5) // version, CONNECT, 0, a name, its length
		if _, err := io.ReadFull(in, request); err != nil || request[3] != 3 {
			t.Errorf("request %v, %v", request, err)
			return
		}
		name := make([]byte, int(request[4])+2)
		if _, err := io.ReadFull(in, name); err != nil {
			return
		}
		port := binary.BigEndian.Uint16(name[len(name)-2:])
		a.add(net.JoinHostPort(string(name[:len(name)-2]), map[bool]string{true: "443"}[port == 443]))
		_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		relay(conn, in, to)
	})
}

// A dialer reaches hosts through each kind of upstream proxy, which gets their names, and the others directly.
func TestParents(t *testing.T) {
	t.Parallel()
	to := echo(t)
	for _, kind := range []string{"http", "https", "socks5"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var names asked
			var parent string
			var roots *x509.CertPool
			switch kind {
			case "http":
				s := httptest.NewServer(connectProxy(t, &names, to))
				t.Cleanup(s.Close)
				parent = strings.Replace(s.URL, "//", "//agent:secret@", 1)
			case "https":
				s := httptest.NewUnstartedServer(connectProxy(t, &names, to))
				s.TLS = &tls.Config{NextProtos: []string{"http/1.1"}}
				s.StartTLS()
				t.Cleanup(s.Close)
				roots = x509.NewCertPool()
				roots.AddCert(s.Certificate())
				parent = strings.Replace(s.URL, "//", "//agent:secret@", 1)
			case "socks5":
				parent = "socks5://" + socks(t, &names, to)
			}
			p, err := ParseParent(parent, ".inside.example,10.0.0.0/8", roots)
			if err != nil {
				t.Fatal(err)
			}
			d := NewDialer(Options{Parent: p, Rules: Rules{AllowLoopback: true}, Timeout: 5 * time.Second})
			conn, err := d.DialContext(t.Context(), "tcp", "far.example:443")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if got := conn.RemoteAddr().String(); got != "far.example:443" {
				t.Errorf("the connection is said to lead to %s", got)
			}
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = io.WriteString(conn, "ping\n")
			_ = conn.(interface{ CloseWrite() error }).CloseWrite() // TLS has an end of its own
			if text, err := io.ReadAll(conn); string(text) != "hello\nping\n" || err != nil {
				t.Errorf("%q, %v", text, err)
			}
			direct, err := d.DialContext(t.Context(), "tcp", to)
			if err != nil {
				t.Fatalf("loopback: %v", err)
			}
			_ = direct.Close()
			for address, want := range map[string]Verdict{
				"169.254.169.254:80": DenyLinkLocal, "10.1.1.1:80": DenyPrivate, "far.example:22": DenyPort,
			} {
				_, err := d.DialContext(t.Context(), "tcp", address)
				if denied, _ := errors.AsType[*DeniedError](err); denied == nil || denied.Verdict != want {
					t.Errorf("%s: %v, want %s", address, err, want)
				}
			}
			if got := names.all(); got != "far.example:443" {
				t.Errorf("the parent was asked for %q", got)
			}
		})
	}
}

// A parent that refuses, says nothing or talks without end is an error in time, which does not tell its password.
func TestParentsThatFail(t *testing.T) {
	t.Parallel()
	var names asked
	refusing := httptest.NewServer(connectProxy(t, &names, ""))
	t.Cleanup(refusing.Close)
	silent := accept(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	endless := accept(t, func(conn net.Conn) {
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
		for err == nil {
			_, err = io.WriteString(conn, "X: "+strings.Repeat("x", 1000)+"\r\n")
		}
	})
	for name, parent := range map[string]string{
		"refusing": strings.Replace(refusing.URL, "//", "//agent:hunter2@", 1), "silent": "http://agent:hunter2@" + silent, "endless": "http://agent:hunter2@" + endless,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := ParseParent(parent, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			d := NewDialer(Options{Parent: p, Timeout: 500 * time.Millisecond})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			conn, err := d.DialContext(ctx, "tcp", "far.example:443")
			if err == nil {
				_ = conn.Close()
				t.Fatal("connected")
			}
			if ctx.Err() != nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v", err)
			}
		})
	}
	for _, bad := range []string{"", "proxy:3128", "ftp://proxy:21", "http://", "http://proxy/path", "http://agent:hunter2@proxy:x"} {
		if _, err := ParseParent(bad, "", nil); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Lists say which hosts are reached. In report mode they refuse none.
func TestReach(t *testing.T) {
	t.Parallel()
	list := func(entries ...string) Hosts {
		l, err := ParseHosts(entries...)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for _, c := range []struct {
		reach Reach
		host  string
		ok    bool
	}{
		{Reach{}, "a.example", true},
		{Reach{Deny: list("a.example")}, "a.example", false},
		{Reach{Deny: list("*.example")}, "b.a.example", false},
		{Reach{Deny: list("a.example")}, "b.example", true},
		{Reach{Allow: list("a.example")}, "a.example", true},
		{Reach{Allow: list("a.example")}, "b.example", false},
		{Reach{Allow: list("a.example")}, "8.8.8.8", false},
		{Reach{Allow: list("*"), Deny: list("a.example")}, "a.example", false},
	} {
		err := NewDialer(Options{Reach: c.reach}).Foresee(c.host, 443)
		denied, _ := errors.AsType[*DeniedError](err)
		if c.ok != (err == nil) || !c.ok && denied.Verdict != DenyReach {
			t.Errorf("%s: %v", c.host, err)
		}
		var told []string
		c.reach.Report = func(host string) { told = append(told, host) }
		if err := NewDialer(Options{Reach: c.reach}).Foresee(c.host, 443); err != nil || c.ok != (told == nil) {
			t.Errorf("%s in report mode: %v, told of %v", c.host, err, told)
		}
	}
}
