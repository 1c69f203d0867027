package forward

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// Some clients of WebSockets ask a proxy for ws:// URLs. They are paid for, and the upgrade is kept.
func TestWebSocketInAbsoluteForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
		s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
			if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" {
				t.Errorf("the seller got %v", r.Header)
			}
			s.Receipt(rw, n)
			rw.Header().Set("Connection", "Upgrade")
			rw.Header().Set("Upgrade", "websocket")
			rw.WriteHeader(http.StatusSwitchingProtocols)
			conn, buf, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			line, _ := buf.ReadString('\n')
			_, _ = io.WriteString(conn, "echo "+line)
		}
	})
	url := strings.Replace(s.URL, "http://", "WS://", 1)
	ask := "GET %s/x HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: websocket\nProxy-Authorization: %s\n\n"
	a, conn, br := w.raw(fmt.Sprintf(ask, url, basic(w.Secret, "")), "GET")
	if a.StatusCode != http.StatusSwitchingProtocols || a.Header.Get(proxy.HeaderPayment) == "" {
		t.Fatalf("%d %v %s", a.StatusCode, a.Header, a.Text)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if line, err := br.ReadString('\n'); line != "echo hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	if p := w.Closed(a.Header.Get(proxy.HeaderPayment)); p.RequestURL != s.URL+"/x" {
		t.Errorf("booked as %q", p.RequestURL)
	}
	// Over TLS it is as https:// is: only where purser opens the connection.
	a, _, _ = w.raw(fmt.Sprintf(ask, strings.Replace(s.URL, "http://", "wss://", 1), basic(w.Secret, "")), "GET")
	if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.Text, "use CONNECT") {
		t.Errorf("%d %s", a.StatusCode, a.Text)
	}
	a, _, _ = w.raw(fmt.Sprintf(ask, "gopher://x", basic(w.Secret, "")), "GET")
	if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.Text, "ws://") {
		t.Errorf("%d %s", a.StatusCode, a.Text)
	}
}
