package mcp

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/agent"
)

// Web pages do not get through, whatever their names resolve to.
func TestGuard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host, origin string
		remote, want bool
	}{
		{"127.0.0.1:8410", "", false, true},
		{"localhost:8410", "", false, true},
		{"[::1]:8410", "", false, true},
		{"127.0.0.1:8410", "http://127.0.0.1:8410", false, true},
		{"localhost", "http://LOCALHOST", false, true},
		{"127.0.0.1:8410", "http://127.0.0.1:3000", false, false},
		{"127.0.0.1:8410", "https://127.0.0.1:8410", false, false},
		{"127.0.0.1:8410", "https://evil.example", false, false},
		{"127.0.0.1:8410", "null", false, false},
		{"evil.example:8410", "", false, false},
		{"evil.example:8410", "http://evil.example:8410", false, false},
		{"localhost.evil.example", "", false, false},
		{"", "", false, false},
		{"purser.internal:8410", "", true, true},
		{"purser.internal:8410", "http://purser.internal:8410", true, false},
	} {
		r := httptest.NewRequest(http.MethodPost, Path, nil)
		if r.Host = c.host; c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if got := allowed(r, c.remote); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "localhost:0": true, "[::1]:1": true, "127.9.9.9:1": true,
		":8410": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "example.com:1": false, "8410": false,
	} {
		if IsLoopback(address) != want {
			t.Errorf("%s: %v", address, !want)
		}
	}
}

// A call ends its request when its answer can reach no client any more: the server is told to end, or
// the client leaves.
func TestHTTPCallsEnd(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]bool{"the server ends": false, "the client leaves": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun, ended := make(chan struct{}), make(chan struct{})
			purser := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(begun)
				<-r.Context().Done()
				close(ended)
			}))
			t.Cleanup(purser.Close)
			proxy, err := url.Parse(purser.URL)
			if err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			served := make(chan error, 1)
			go func() {
				served <- ServeHTTP(ctx, Options{Connect: func(context.Context) (*agent.Client, error) {
					return &agent.Client{Proxy: proxy, Key: testKey, Task: "mcp"}, nil
				}}, l, false)
			}()
			// The request is one of a client that ends without a word.
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fetch_paid","arguments":{"url":"http://api.example/"}}}`
			session, client := newSession(t, "http://"+l.Addr().String()+Path), &http.Transport{DisableKeepAlives: true}
			called, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				if resp, err := client.RoundTrip(session(called, body)); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}()
			<-begun
			if leaves {
				hangUp()
				<-ended
			}
			stop()
			<-ended
			if err := <-served; err != nil {
				t.Error(err)
			}
			<-answered
		})
	}
}

// newSession begins a session, and returns what makes its requests.
func newSession(t *testing.T, target string) func(context.Context, string) *http.Request {
	t.Helper()
	id := ""
	request := func(ctx context.Context, body string) *http.Request {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Content-Type", "application/json")
		if id != "" {
			r.Header.Set("Mcp-Session-Id", id)
		}
		return r
	}
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		resp, err := http.DefaultClient.Do(request(t.Context(), body))
		if err != nil || resp.StatusCode >= http.StatusBadRequest {
			t.Fatalf("%v, %v", err, resp)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if id == "" {
			id = resp.Header.Get("Mcp-Session-Id")
		}
	}
	return request
}
