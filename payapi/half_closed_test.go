package payapi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/conns"
)

// A client that ends its sending side behind the call still reads. It is told that nothing is paid for it, and not
// that the database fails. Calls that pay nothing are served.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	if !conns.Looks {
		return
	}
	w := newWorld(t)
	key := w.payingKey()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			<-r.Context().Done()
		}
		for !conns.Gone(r.Context()) { // the client's end may come behind the request
			time.Sleep(time.Millisecond)
		}
		w.api.ServeHTTP(rw, r)
	}))
	s.Config.ConnContext = conns.InDoor
	s.Start()
	t.Cleanup(s.Close)
	ask := func(method, path, body string) (int, map[string]any) {
		t.Helper()
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(15 * time.Second))
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, key, len(body), body)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		var answer map[string]any
		_ = json.Unmarshal(text, &answer)
		return resp.StatusCode, answer
	}
	if status, answer := ask("GET", "/wallets/me", ""); status != http.StatusOK || answer["wallets"] == nil {
		t.Errorf("wallets: %d %v", status, answer)
	}
	order := fmt.Sprintf(`{"paymentRequiredHeader":%q,"requestUrl":%q}`, v2(requirementV2(nil)), bought)
	status, answer := ask("POST", "/v1/pay", order)
	if detail, _ := answer["detail"].(string); status != http.StatusServiceUnavailable || !strings.Contains(detail, "half-closed") {
		t.Errorf("pay: %d %v", status, answer)
	}
	if status, answer := ask("POST", "/v1/quote", order); status != http.StatusOK || answer["amount"] == nil {
		t.Errorf("quote: %d %v", status, answer)
	}
	w.call("POST", "/v1/pay", key, json.RawMessage(order)).is(http.StatusOK, "").want("settled", true)
	if count, _ := w.facilitator.moved(); count != 1 {
		t.Errorf("%d settlements", count)
	}
}
