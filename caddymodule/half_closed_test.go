package caddymodule

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/proxy"
)

// A client of the sidecar that ends its sending side behind the request gets free answers, and is told that nothing
// is paid for it.
func TestUpstreamHalfClosed(t *testing.T) {
	ended := make(chan struct{}, 1)
	s := newSite(t)
	v := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-ended
		if r.URL.Path == "/paid" {
			w.Header().Set("Payment-Required", challenge(10_000))
			w.WriteHeader(http.StatusPaymentRequired)
			return
		}
		select {
		case <-r.Context().Done(): // purser has given the request up
		case <-time.After(300 * time.Millisecond):
		}
		_, _ = io.WriteString(w, "free")
	}))
	t.Cleanup(v.Close)
	s.route = "purser_upstream {\nto " + v.URL + "\n}"
	mustLoad(t, s.caddyfile())
	ask := func(path string) (*http.Response, string) {
		t.Helper()
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(15 * time.Second))
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		ended <- struct{}{}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp, string(body)
	}
	if resp, body := ask("/free"); resp.StatusCode != http.StatusOK || body != "free" {
		t.Errorf("free: %d %v %s", resp.StatusCode, resp.Header, body)
	}
	resp, body := ask("/paid")
	if resp.StatusCode != http.StatusPaymentRequired || resp.Header.Get(proxy.HeaderDeclined) != proxy.DeclinedCallerGone || resp.Header.Get("Payment-Required") != "" ||
		!strings.Contains(body, "half-closed") {
		t.Errorf("paid: %d %v %s", resp.StatusCode, resp.Header, body)
	}
}
