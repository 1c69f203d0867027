package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// edge is a purser of its own, with the shipped configuration, that is being attacked.
type edge struct {
	*purser
	t      *testing.T
	honest *payer
}

func startEdge(t *testing.T) *edge {
	t.Helper()
	p := newPurser(t, env.facilitator)
	p.start(t)
	return &edge{p, t, p.newPayer(t)}
}

// gauge reads a value from the metrics.
func (e *edge) gauge(name string) float64 {
	e.t.Helper()
	text := send(e.t, direct, "GET", e.MetricsURL(), "").Body
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		e.t.Fatalf("no %s in the metrics", name)
	}
	v, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		e.t.Fatal(err)
	}
	return v
}

// dial opens a connection that lives as long as the test.
func (e *edge) dial() net.Conn {
	e.t.Helper()
	c, err := net.Dial("tcp", e.Host())
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = c.Close() })
	return c
}

// served checks that honest clients are served while connections are attacking: by the API, by the proxy, and with a
// payment. It logs what that costs purser.
func (e *edge) served(attack string) {
	e.t.Helper()
	var slowest time.Duration
	for range 20 {
		client := e.honest.proxied()
		client.Timeout = 30 * time.Second
		for _, ask := range []func() answer{
			func() answer { return send(e.t, client, "GET", env.v2.url+"/free", "") },
			func() answer { return send(e.t, direct, "GET", e.URL("/health"), "") },
			func() answer { return e.honest.call(e.t, "GET", "/v1/spend", "") },
		} {
			began := time.Now()
			requireStatus(e.t, ask(), http.StatusOK)
			slowest = max(slowest, time.Since(began))
		}
	}
	paid := send(e.t, e.honest.proxied(), "GET", env.v2.url+"/paid", "")
	requirePaidAnswer(e.t, paid, getPaid, e.honest)
	goroutines, memory := e.gauge("go_goroutines"), e.gauge("process_resident_memory_bytes")/(1<<20)
	e.t.Logf("%s: slowest honest answer %s, %.0f goroutines, %.0f MiB", attack, slowest.Round(time.Millisecond), goroutines, memory)
	if slowest > 10*time.Second { // on a machine that has others to serve as well
		e.t.Errorf("an honest client waited %s", slowest)
	}
	if memory > 1000 || goroutines > 12_000 {
		e.t.Errorf("%.0f goroutines, %.0f MiB", goroutines, memory)
	}
}

func (e *edge) connect(p *payer, target string) (net.Conn, int, http.Header) {
	e.t.Helper()
	c := e.dial()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic %s\r\n\r\n", target, target,
		base64.StdEncoding.EncodeToString([]byte(p.key+":")))
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: "CONNECT"})
	if err != nil {
		e.t.Fatal(err)
	}
	return c, resp.StatusCode, resp.Header
}

// Clients that mean no good keep no honest one waiting, and take a bounded part of the machine.
// Without t.Parallel: what is measured is this purser's.
func TestEdge(t *testing.T) {
	e := startEdge(t)
	hostile := e.newPayer(t)
	e.served("at rest")

	// Headers that never end; they have 30 s.
	var drips []net.Conn
	for range 1000 {
		c := e.dial()
		_, _ = io.WriteString(c, "GET /health HTTP/1.1\r\nX-")
		drips = append(drips, c)
	}
	stop := make(chan struct{})
	var dripping sync.WaitGroup
	dripping.Go(func() {
		for {
			for _, c := range drips {
				_, _ = io.WriteString(c, "a")
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
			}
		}
	})
	defer func() {
		close(stop)
		dripping.Wait()
	}()
	e.served("1,000 clients drip headers")

	// Bodies that never end, with a key and without one.
	for i := range 1000 {
		c := e.dial()
		path, header := "/v1/pay", "X-Api-Key: "+hostile.key+"\r\n"
		if i%25 == 0 { // one address may make sixty keys a minute
			path, header = "/api-keys", ""
		}
		_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: 100000\r\n\r\n{", path, e.Host(), header)
	}
	e.served("1,000 clients drip bodies")

	t.Run("sizes", func(t *testing.T) {
		for name, c := range map[string]struct {
			head   string
			body   func(io.Writer)
			status int
		}{
			"headers over 64 KiB": {"GET /health HTTP/1.1\r\nHost: " + e.Host() + "\r\nX-Large: " + strings.Repeat("x", 70<<10) + "\r\n", nil, 431},
			"headers just below":  {"GET /health HTTP/1.1\r\nHost: " + e.Host() + "\r\nX-Large: " + strings.Repeat("x", 60<<10) + "\r\n", nil, 200},
			"endless body":        {"POST /v1/pay HTTP/1.1\r\nHost: " + e.Host() + "\r\nX-Api-Key: " + hostile.key + "\r\nTransfer-Encoding: chunked\r\n", endless, 413},
			"endless body, no key": {
				"POST /api-keys HTTP/1.1\r\nHost: " + e.Host() + "\r\nTransfer-Encoding: chunked\r\n", endless, 413,
			},
			"endless body, wrong key": {
				"POST /v1/pay HTTP/1.1\r\nHost: " + e.Host() + "\r\nX-Api-Key: pk_wrong_key\r\nTransfer-Encoding: chunked\r\n", endless, 401,
			},
		} {
			conn := e.dial()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			var sending sync.WaitGroup
			sending.Go(func() {
				_, _ = io.WriteString(conn, c.head+"\r\n")
				if c.body != nil {
					c.body(conn)
				}
			})
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode != c.status {
				t.Errorf("%s: %v %v", name, resp, err)
			}
			_ = conn.Close()
			sending.Wait()
		}
	})
	e.served("endless bodies")

	// Connections that say nothing at all: those above the bound have been closed.
	for range 10_000 {
		e.dial()
	}
	e.served("10,000 silent connections")
	process.Eventually(t, 10*time.Second, func() string {
		if n := e.gauge("purser_connections_dropped_total"); n < 5000 {
			return fmt.Sprintf("%.0f were closed", n)
		}
		return ""
	})

	t.Run("tunnels", func(t *testing.T) {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		go func() {
			for {
				c, err := silent.Accept()
				if err != nil {
					return
				}
				defer c.Close()
			}
		}()
		opened := 0
		for range 1100 {
			_, status, header := e.connect(hostile, silent.Addr().String())
			if status != http.StatusOK {
				if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || header.Get("Purser-Error") != "too-many-tunnels" {
					t.Fatalf("%d %v", status, header)
				}
				break
			}
			opened++
		}
		if opened != 1024 {
			t.Errorf("one key has %d tunnels", opened)
		}
		e.served("1,024 tunnels that say nothing")
	})
	t.Run("handshakes", func(t *testing.T) {
		other := e.newPayer(t)
		var first net.Conn
		for range 500 {
			c, status, _ := e.connect(other, nameV2+":443")
			if status != http.StatusOK {
				t.Fatal(status)
			}
			_, _ = c.Write([]byte{22, 3, 1, 2, 0, 1, 0}) // the beginning of a ClientHello
			if first == nil {
				first = c
			}
		}
		since := time.Now()
		e.served("500 handshakes that stall")
		_ = first.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, first); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("a stalled handshake is not ended: %v", err)
		}
		t.Logf("ended after %s", time.Since(since).Round(time.Second))
	})
	for name, attack := range map[string]func(*http2.Framer, *hpack.Encoder, *bytes.Buffer, string) error{
		"resets": rapidResets, "continuations": endlessContinuations,
	} {
		t.Run("h2 "+name, func(t *testing.T) {
			other, target := e.newPayer(t), nameV2+":"+portOf(t, env.v2.tls)
			var all sync.WaitGroup
			for range 8 {
				c, status, _ := e.connect(other, target)
				if status != http.StatusOK {
					t.Fatal(status)
				}
				all.Go(func() {
					floodHTTP2(t, tls.Client(c, &tls.Config{RootCAs: other.roots(t), ServerName: nameV2, NextProtos: []string{"h2"}}), target, attack)
				})
			}
			e.served("h2 " + name)
			all.Wait()
		})
	}
	e.served("afterwards")
}

func endless(w io.Writer) {
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat("x", 64<<10))
	for range 1000 {
		if _, err := io.WriteString(w, chunk); err != nil {
			return
		}
	}
}

func portOf(t *testing.T, rawURL string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// floodHTTP2 speaks to the server behind an intercepted connection until that has had enough.
func floodHTTP2(t *testing.T, c *tls.Conn, target string, attack func(*http2.Framer, *hpack.Encoder, *bytes.Buffer, string) error) {
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := c.HandshakeContext(ctx); err != nil {
		t.Error(err)
		return
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(c, http2.ClientPreface)
	var block bytes.Buffer
	framer, encoder := http2.NewFramer(c, c), hpack.NewEncoder(&block)
	_ = framer.WriteSettings()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, c)
	}()
	err := attack(framer, encoder, &block, target)
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Errorf("the server has taken all of it (%v)", err)
	}
}

func headers(e *hpack.Encoder, b *bytes.Buffer, target string) []byte {
	b.Reset()
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", target}, {":path", "/free"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	return b.Bytes()
}

// rapidResets asks and takes back, over and over (CVE-2023-44487).
func rapidResets(f *http2.Framer, e *hpack.Encoder, b *bytes.Buffer, target string) error {
	for id := uint32(1); id < 400_000; id += 2 {
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: headers(e, b, target), EndStream: true, EndHeaders: true}); err != nil {
			return err
		}
		if err := f.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
			return err
		}
	}
	return nil
}

// endlessContinuations sends a header that never ends (CVE-2023-45288).
func endlessContinuations(f *http2.Framer, e *hpack.Encoder, b *bytes.Buffer, target string) error {
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers(e, b, target)}); err != nil {
		return err
	}
	for i := range 1_000_000 {
		b.Reset()
		_ = e.WriteField(hpack.HeaderField{Name: fmt.Sprint("x-", i), Value: strings.Repeat("x", 8<<10), Sensitive: true})
		if err := f.WriteContinuation(1, false, b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
