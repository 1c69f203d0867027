package caddymodule

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/internal/conns"
)

// watched is a handler that keeps the contexts of requests in watchedFor.
type watched struct{}

// watchedFor has the contexts by the addresses of clients.
var watchedFor sync.Map

func (watched) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_watched", New: func() caddy.Module { return new(watched) }}
}

func (watched) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	watchedFor.Store(r.RemoteAddr, r.Context())
	return next.ServeHTTP(w, r)
}

// seenLeaving reports whether purser can see that the client of a connection has left.
func seenLeaving(c net.Conn) bool {
	at, ok := watchedFor.Load(c.LocalAddr().String())
	if !ok {
		return false
	}
	ctx := at.(context.Context)
	return ctx.Err() != nil || conns.Gone(ctx)
}

// At each door of the shipped configuration: a client that sent more than its request, and
// then left, is seen leaving, so that its repeat is no purchase of its own.
func TestShippedDoorsSeeClientsLeave(t *testing.T) {
	testDoorsSeeClientsLeave(t, shipped(t), "\r\n")
}

// The same holds without the listener wrapper, and for a client that has sent more than the wrapper keeps.
func TestDoorsSeeClientsLeaveWithoutWrapper(t *testing.T) {
	wrapper := regexp.MustCompile(`(?s)\t\tlistener_wrappers \{.*?\n\t\t\}\n`)
	bare := wrapper.ReplaceAllString(shipped(t), "")
	if strings.Contains(bare, "listener_wrappers") || bare == shipped(t) {
		t.Fatal("the shipped configuration has other wrappers")
	}
	testDoorsSeeClientsLeave(t, bare, "abc")
	testDoorsSeeClientsLeave(t, shipped(t), strings.Repeat("x", 100<<10))
}

func testDoorsSeeClientsLeave(t *testing.T, config, ahead string) {
	t.Helper()
	f, v := newStandIn(t), newVendor(t)
	f.hold = make(chan struct{})
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	t.Setenv("PURSER_UPSTREAM", v.URL)
	const key = "pk_deployment"
	t.Setenv("PURSER_KEY", key)
	sidecar := shippedSidecar(t)
	port := freePort(t)
	t.Setenv("PURSER_PORT", fmt.Sprint(port))
	mustLoad(t, strings.ReplaceAll(config, "\troute {", "\troute {\n\t\ttest_watched"))
	at := fmt.Sprintf("127.0.0.1:%d", port)

	arrived, goOn := make(chan struct{}, 10), make(chan struct{})
	defer close(goOn)
	settle := sync.OnceFunc(func() { close(f.hold) })
	defer settle()
	v.delivers(func(w http.ResponseWriter, _ *http.Request, n int) {
		arrived <- struct{}{}
		<-goOn
		v.receipt(w, n)
		_, _ = io.WriteString(w, "goods")
	})
	body := payBody(10_000, "https://api.example.com/rest")
	for _, door := range []struct{ name, at, request string }{
		{"api", at, fmt.Sprintf("POST /v1/pay HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", at, key, len(body), body)},
		{"proxy", at, fmt.Sprintf("GET %s/proxy HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic %s\r\n\r\n", v.URL,
			base64.StdEncoding.EncodeToString([]byte(key+":")))},
		{"sidecar", strings.TrimPrefix(sidecar, "http://"), "GET /sidecar HTTP/1.1\r\nHost: localhost\r\n\r\n"},
	} {
		name := door.name
		payments := func() (n int) {
			for _, p := range mustCall(t, 200, "GET", "http://"+at+"/v1/payments?limit=500", key, "")["payments"].([]any) {
				if u, _ := url.Parse(p.(map[string]any)["request_url"].(string)); u.Path == "/"+name || name == "api" && u.Path == "/rest" {
					n++
				}
			}
			return n
		}
		open := func() net.Conn {
			c, err := net.Dial("tcp", door.at)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			_, _ = io.WriteString(c, door.request)
			return c
		}
		first := open()
		at := arrived
		if name == "api" {
			at = f.asked
		}
		select {
		case <-at:
		case <-time.After(10 * time.Second):
			t.Fatal(name + ": nothing arrived")
		}
		_, _ = io.WriteString(first, ahead) // in a packet of its own
		time.Sleep(50 * time.Millisecond)
		_ = first.Close()
		eventually(t, name+": the client is seen leaving", func() bool { return seenLeaving(first) })
		again := open()
		time.Sleep(300 * time.Millisecond)
		if n := payments(); n != 1 {
			t.Errorf("%s: %d payments", name, n)
		}
		_ = again.Close()
		if name == "api" {
			settle()
		}
	}
}

func TestListenerBounds(t *testing.T) {
	s := newSite(t)
	s.global = "servers {\n\t\tprotocols h1\n\t\tlistener_wrappers {\n\t\t\tpurser {\n\t\t\t\tmax_connections 20\n\t\t\t\tmax_peer_connections 10\n\t\t\t}\n\t\t}\n\t}"
	mustLoad(t, s.caddyfile())
	at := fmt.Sprintf("127.0.0.1:%d", s.port)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		return c
	}
	slow := dial()
	_, _ = fmt.Fprintf(slow, "POST /api-keys HTTP/1.1\r\nHost: %s\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n", at)
	answers := bufio.NewReader(slow)
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") { // it is under way
		t.Fatal(line, err)
	}
	_, _ = answers.ReadString('\n')
	for range 50 {
		dial()
	}
	if got := mustCall(t, 200, "GET", "http://"+at+"/health", "", "")["ok"]; got != true {
		t.Error(got)
	}
	// A connection with a request under way need not go.
	_, _ = io.WriteString(slow, "{}")
	resp, err := http.ReadResponse(answers, nil)
	if err != nil || resp.StatusCode != 201 {
		t.Errorf("%v %v", resp, err)
	}
}
