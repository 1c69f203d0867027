package caddymodule

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

func TestTransportServerSentEvents(t *testing.T) {
	v := newVendor(t)
	next := make(chan struct{})
	v.delivers(func(w http.ResponseWriter, _ *http.Request, n int) {
		v.receipt(w, n)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			<-next
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
		}
	})
	for name, s := range sidecars(t, v) {
		t.Run(name, func(t *testing.T) {
			mustLoad(t, s.caddyfile())
			go func() { next <- struct{}{} }() // without an event, Caddy does not send the header
			resp, err := newClient(t).Do(newRequest(t, "GET", s.url()+"/events", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			lines := bufio.NewReader(resp.Body)
			for i := range 3 {
				if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
					t.Fatalf("%q %v", line, err)
				}
				_, _ = lines.ReadString('\n')
				if i == 1 && payments(t)[0].Lease.Owner == "" {
					t.Error("the lease was given up while the answer was being written")
				}
				if i < 2 {
					next <- struct{}{}
				}
			}
			if _, err := lines.ReadByte(); err != io.EOF {
				t.Error(err)
			}
			if p := closed(t); !p.Answered {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestTransportCutAnswer(t *testing.T) {
	v := newVendor(t)
	for name, s := range sidecars(t, v) {
		t.Run(name, func(t *testing.T) {
			v.delivers(func(w http.ResponseWriter, _ *http.Request, n int) {
				v.receipt(w, n)
				w.Header().Set("Content-Length", "1000")
				_, _ = io.WriteString(w, "the beginning")
				_ = http.NewResponseController(w).Flush()
				proxytest.HangUp(w)
			})
			mustLoad(t, s.caddyfile())
			resp, err := newClient(t).Do(newRequest(t, "GET", s.url()+"/x", nil))
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(resp.Body); err == nil {
				t.Fatalf("a whole answer: %s", text)
			}
			_ = resp.Body.Close()
			v.delivers(func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, "all of it") })
			again, body := do(t, newRequest(t, "GET", s.url()+"/x", nil))
			if body != "all of it" || again.Header.Get(proxy.HeaderPayment) != resp.Header.Get(proxy.HeaderPayment) {
				t.Errorf("%s %v", body, again.Header)
			}
			if p := closed(t); !p.Answered {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestTransportClientLeaves(t *testing.T) {
	v := newVendor(t)
	for name, s := range sidecars(t, v) {
		t.Run(name, func(t *testing.T) {
			asked, release := make(chan struct{}), make(chan struct{})
			v.delivers(func(w http.ResponseWriter, _ *http.Request, n int) {
				close(asked)
				<-release
				v.receipt(w, n)
			})
			s.route = "purser_test_watch\n" + s.route
			mustLoad(t, s.caddyfile())
			ctx, leave := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			go func() {
				_, err := newClient(t).Do(newRequest(t, "GET", s.url()+"/x", nil).WithContext(ctx)) //nolint:bodyclose // an error
				gone <- err
			}()
			<-asked
			leave()
			if err := <-gone; err == nil {
				t.Error("an answer")
			}
			<-clientGone
			close(release)
			if p := closed(t); p.State != pay.Settled || p.Answered || !p.Unanswered {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestTransportWebSocket(t *testing.T) {
	v := newVendor(t)
	v.delivers(func(w http.ResponseWriter, _ *http.Request, _ int) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, buf)
	})
	for name, s := range sidecars(t, v) {
		t.Run(name, func(t *testing.T) {
			mustLoad(t, s.caddyfile())
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url(), "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
				"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, nil)
			if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get(proxy.HeaderPayment) == "" {
				t.Fatalf("%+v %v", resp, err)
			}
			for range 2 {
				_, _ = io.WriteString(conn, "hello")
				echo := make([]byte, 5)
				if _, err := io.ReadFull(in, echo); err != nil || string(echo) != "hello" {
					t.Fatalf("%q %v", echo, err)
				}
			}
			if p := closed(t); !p.Answered { // while the connection is open
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestTransportTrailers(t *testing.T) {
	v := newVendor(t)
	v.delivers(func(w http.ResponseWriter, r *http.Request, n int) {
		body, _ := io.ReadAll(r.Body)
		v.receipt(w, n)
		w.Header().Set("Trailer", "X-Announced")
		fmt.Fprintf(w, "%s, trailer %s", body, r.Trailer.Get("X-Checksum"))
		w.Header().Set("X-Announced", "one")
		w.Header().Set(http.TrailerPrefix+"X-Late", "two")
	})
	for name, s := range sidecars(t, v) {
		t.Run(name, func(t *testing.T) {
			mustLoad(t, s.caddyfile())
			r := newRequest(t, "POST", s.url()+"/x", io.MultiReader(strings.NewReader("chunked "), strings.NewReader("body")))
			r.Trailer = http.Header{"X-Checksum": {"abc"}}
			resp, body := do(t, r)
			if body != "chunked body, trailer abc" || resp.Trailer.Get("X-Announced") != "one" || resp.Trailer.Get("X-Late") != "two" {
				t.Errorf("%s %v", body, resp.Trailer)
			}
			if p := closed(t); !p.Answered {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestTransportHTTP2(t *testing.T) {
	v := newVendor(t, func(v *vendor) { v.EnableHTTP2 = true; v.TLS = new(tls.Config) })
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	trust := "http {\ntls_trust_pool file " + authority + "\n}"
	door := newSite(t)
	door.route = "purser_upstream {\nto " + v.URL + "/base/\n" + trust + "\n}"
	for name, s := range map[string]*site{"transport": newSidecar(t, v, "", trust), "upstream": door} {
		t.Run(name, func(t *testing.T) {
			mustLoad(t, s.caddyfile())
			resp, body := do(t, newRequest(t, "POST", s.url()+"/x", strings.NewReader("body")))
			if resp.StatusCode != 200 || !strings.HasSuffix(body, ": body") || v.protocol() != "HTTP/2.0" {
				t.Errorf("%d %s over %s", resp.StatusCode, body, v.protocol())
			}
			if p := closed(t); p.State != pay.Settled || !strings.HasPrefix(p.RequestURL, "https://") {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestTransportWithoutBodies(t *testing.T) {
	v := newVendor(t)
	v.delivers(func(w http.ResponseWriter, r *http.Request, n int) {
		v.receipt(w, n)
		w.WriteHeader(http.StatusNoContent)
	})
	for name, s := range sidecars(t, v) {
		mustLoad(t, s.caddyfile())
		for i, method := range []string{"GET", "DELETE"} {
			do(t, newRequest(t, method, s.url()+"/x", nil))
			eventually(t, "the attempt ends", func() bool {
				all := payments(t)
				return len(all) == i+1 && all[0].Answered
			})
			if n := tenantRequests(t); n != 0 {
				t.Errorf("%s: %d requests are still counted", name, n)
			}
		}
	}
}

func tenantRequests(t *testing.T) (n int) {
	t.Helper()
	last := pooledAt(t).newestTenant()
	count := last.requests.Open
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if n = count(); n == 0 {
			return 0
		}
	}
	return n
}

func TestTransportReload(t *testing.T) {
	v := newVendor(t)
	for name, s := range sidecars(t, v) {
		t.Run(name, func(t *testing.T) {
			asked, release := make(chan struct{}), make(chan struct{})
			v.delivers(func(w http.ResponseWriter, _ *http.Request, n int) {
				v.receipt(w, n)
				_, _ = io.WriteString(w, "first half, ")
				_ = http.NewResponseController(w).Flush()
				close(asked)
				<-release
				_, _ = io.WriteString(w, "second half")
			})
			mustLoad(t, s.caddyfile())
			answered := make(chan string, 1)
			go func() {
				resp, err := newClient(t).Do(newRequest(t, "GET", s.url()+"/x", nil))
				if err != nil {
					answered <- err.Error()
					return
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				answered <- fmt.Sprint(string(body), err)
			}()
			<-asked
			mustLoad(t, s.caddyfile())
			close(release)
			if got := <-answered; got != "first half, second half<nil>" {
				t.Error(got)
			}
			if p := closed(t); p.State != pay.Settled || !p.Answered {
				t.Errorf("%+v", p)
			}
		})
	}
}

// A repeat that says that it is one is told from a first try across a reload.
func TestRepeatAcrossAReload(t *testing.T) {
	v := newVendor(t)
	for name, s := range sidecars(t, v) {
		t.Run(name, func(t *testing.T) {
			mustLoad(t, s.caddyfile())
			payments := map[string]bool{}
			c := newClient(t)
			for i := range 3 {
				req := newRequest(t, "GET", s.url()+"/x", nil)
				req.Header.Set("X-Stainless-Retry-Count", strconv.Itoa(i))
				resp, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				payments[resp.Header.Get(proxy.HeaderPayment)] = true
				closed(t)
				mustLoad(t, s.caddyfile())
			}
			if len(payments) != 1 {
				t.Errorf("payments %v", payments)
			}
		})
	}
}
