package caddymodule

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/proxy"
)

// ask sends a request on a connection of its own and reads the header of the answer.
func ask(t *testing.T, s *site) (net.Conn, *http.Response) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if err := newRequest(t, "GET", s.url()+"/x", nil).Write(conn); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return conn, resp
}

// An answer that a buffer took from the upstream, and that the client broke off, was none:
// the next request gets the same payment.
func TestTransportBrokenOffDownload(t *testing.T) {
	v := newVendor(t)
	v.delivers(func(w http.ResponseWriter, _ *http.Request, n int) {
		v.receipt(w, n)
		_, _ = w.Write(make([]byte, 32<<20)) // more than sockets hold
	})
	for name, s := range map[string]*site{
		"unbuffered": newSidecar(t, v, "", ""), "response_buffers": newSidecar(t, v, "response_buffers 64MiB", ""),
		"upstream": sidecars(t, v)["upstream"],
	} {
		t.Run(name, func(t *testing.T) {
			mustLoad(t, s.caddyfile())
			conn, resp := ask(t, s)
			if _, err := io.ReadFull(resp.Body, make([]byte, 1000)); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %v", resp.Status, err)
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
			if p := closed(t); p.Answered || !p.Unanswered {
				t.Errorf("%+v", p)
			}
			again, body := do(t, newRequest(t, "GET", s.url()+"/x", nil))
			if id := resp.Header.Get(proxy.HeaderPayment); len(body) != 32<<20 || id == "" || again.Header.Get(proxy.HeaderPayment) != id {
				t.Errorf("%d bytes, %v, then %v", len(body), resp.Header, again.Header)
			}
			if p := closed(t); !p.Answered {
				t.Errorf("%+v", p)
			}
		})
	}
}

// A client that leaves with the last byte has its answer.
func TestTransportClientLeavesWithTheLastByte(t *testing.T) {
	v := newVendor(t)
	v.delivers(func(w http.ResponseWriter, _ *http.Request, n int) {
		v.receipt(w, n)
		w.Header().Set("Content-Length", strconv.Itoa(1<<20)) // else the last byte is not the end
		_, _ = w.Write(make([]byte, 1<<20))
	})
	for name, more := range map[string]string{"unbuffered": "", "response_buffers": "response_buffers 64MiB"} {
		t.Run(name, func(t *testing.T) {
			s := newSidecar(t, v, more, "")
			mustLoad(t, s.caddyfile())
			for i := range 10 {
				conn, resp := ask(t, s)
				if _, err := io.ReadFull(resp.Body, make([]byte, 1<<20)); err != nil {
					t.Fatal(err)
				}
				_ = conn.Close()
				eventually(t, "the attempt ends", func() bool {
					all := payments(t)
					return len(all) == i+1 && all[0].Lease.Owner == ""
				})
			}
			for _, p := range payments(t) {
				if !p.Answered {
					t.Errorf("%+v", p)
				}
			}
		})
	}
}

// A reverse proxy that goes on writing for ever is not waited for for ever.
func TestWrittenOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repl, began := caddy.NewReplacer(), time.Now()
		if writtenOut(repl) || time.Since(began) != proxy.WriteWait {
			t.Errorf("given up after %s", time.Since(began))
		}
		go func() {
			time.Sleep(proxy.WriteWait / 2)
			repl.Set(proxyWrote, 1)
			repl.Set(proxyEnded, 1)
		}()
		if began = time.Now(); !writtenOut(repl) || time.Since(began) > proxy.WriteWait/2+proxy.WritePause {
			t.Errorf("not seen for %s", time.Since(began))
		}
		forgetProxying(repl)
		repl.Set(proxyEnded, 1)
		if writtenOut(repl) || writtenOut(nil) {
			t.Error("an answer that broke off was written")
		}
	})
}

// Purser-* headers are purser's, in answers ahead of the real one as well.
func TestTransportForgedHeadersInInformationalAnswers(t *testing.T) {
	v := newVendor(t)
	v.delivers(func(w http.ResponseWriter, _ *http.Request, n int) {
		w.Header().Set(proxy.HeaderPayment, "forged")
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del(proxy.HeaderPayment)
		v.receipt(w, n)
	})
	for name, s := range sidecars(t, v) {
		mustLoad(t, s.caddyfile())
		_, hints := ask(t, s)
		if hints.StatusCode != http.StatusEarlyHints || hints.Header.Get("Link") == "" || hints.Header.Get(proxy.HeaderPayment) != "" {
			t.Errorf("%s: %s %v", name, hints.Status, hints.Header)
		}
	}
}
