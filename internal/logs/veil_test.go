package logs_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/logs"
)

// veiledServer serves with a veil that is drawn by its first connection, as in Caddy. before sees a request
// as logs do, and behind as handlers do.
func veiledServer(t *testing.T, v *logs.Veil, before func(*http.Request), behind http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before(r.Clone(r.Context()))
		logs.Lift(r)
		behind(w, r)
	}))
	s.Config.ConnContext = v.Draw
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func TestVeilHidesHeadersOfRequests(t *testing.T) {
	t.Parallel()
	for _, credentials := range []bool{false, true} {
		seen := make(chan http.Header, 2)
		s := veiledServer(t, &logs.Veil{Credentials: credentials}, func(r *http.Request) { seen <- r.Header }, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Clone() })
		for range 2 { // the second one comes when the veil is drawn
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"x-api-key", "X-Internal-Secret", "PAYMENT-SIGNATURE", "X-PAYMENT", "SIGN-IN-WITH-X", "PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE", "Proxy-Authorization"} {
				r.Header.Add(name, "secret")
				r.Header.Add(name, "again")
			}
			r.Header.Set("X-Other", "plain")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			logged, handled := <-seen, <-seen
			for name, values := range r.Header {
				if !slices.Equal(handled[name], values) {
					t.Errorf("handlers have %s as %q", name, handled[name])
				}
				if hidden := name != "X-Other" && (credentials || name != "Proxy-Authorization"); hidden != (logged[name] == nil) {
					t.Errorf("logs have %s as %q", name, logged[name])
				}
			}
		}
	}
}

func TestVeilHidesHeadersOfAnswers(t *testing.T) {
	t.Parallel()
	for what, answer := range map[string]func(http.ResponseWriter){
		"a status":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) },
		"a body":     func(w http.ResponseWriter) { _, _ = w.Write([]byte("goods")) },
		"a long one": func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader("goods")) },
		"a flush":    func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
		"hints first": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusOK)
		},
		"a trailer": func(w http.ResponseWriter) {
			w.Header().Set("Trailer", "X-Sum")
			w.WriteHeader(http.StatusOK)
			w.Header().Set("X-Sum", "1")
		},
	} {
		logged := make(chan http.Header, 1)
		s := veiledServer(t, &logs.Veil{Answers: true}, func(*http.Request) {}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Payment-Response", "receipt")
			w.Header().Set("X-Api-Key", "key")
			w.Header().Set("X-Other", "plain")
			answer(w)
			logged <- w.Header().Clone()
		})
		resp, err := http.Get(s.URL) //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.Header.Get("Payment-Response") != "receipt" || resp.Header.Get("X-Api-Key") != "key" || what == "a trailer" && resp.Trailer.Get("X-Sum") != "1" {
			t.Errorf("%s: the client has %v, %v", what, resp.Header, resp.Trailer)
		}
		if h := <-logged; h.Get("Payment-Response")+h.Get("X-Api-Key") != "" || h.Get("X-Other") != "plain" {
			t.Errorf("%s: logs have %v", what, h)
		}
	}
}

// A connection can be taken over behind a veil, as for CONNECT.
func TestVeilLetsConnectionsBeTakenOver(t *testing.T) {
	t.Parallel()
	s := veiledServer(t, &logs.Veil{Answers: true}, func(*http.Request) {}, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		_ = conn.Close()
	})
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%v %v", resp, err)
	}
}

// A request without a secret passes as it is.
func TestVeilLeavesOtherRequestsAlone(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
	new(logs.Veil).Cover(http.HandlerFunc(func(_ http.ResponseWriter, got *http.Request) {
		if got != r {
			t.Error("another request")
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
	logs.Lift(r)
}
