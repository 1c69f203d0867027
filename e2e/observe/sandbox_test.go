package observe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

const waitTime = 30 * time.Second

// sandbox is a running purser-sandbox.
type sandbox struct {
	*process.Sandbox
	t *testing.T
}

func startSandbox(t *testing.T, variables ...string) *sandbox {
	t.Helper()
	return &sandbox{process.StartSandbox(t, []string{"-v"}, variables), t}
}

type answer = process.Answer

// send sends a request with a client; header holds names and values in turn. A reload drops connections that it has not
// accepted yet, so one that was cut off without an answer is sent again.
func (s *sandbox) send(by *http.Client, method, target, body string, header ...string) answer {
	s.t.Helper()
	var got answer
	var err error
	for range 3 {
		if got, err = process.Ask(s.t.Context(), by, method, target, body, header...); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			break
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// direct is a client that knows where the sellers are and uses no proxy.
func direct() *http.Client {
	by := process.Client(nil, nil)
	by.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, port, err := net.SplitHostPort(address); err == nil && strings.HasSuffix(host, ".test") {
			address = net.JoinHostPort("127.0.0.1", port)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return by
}

// proxied is a client behind the proxy, with a key and a task; it trusts the interception root.
func (s *sandbox) proxied(key, task string) *http.Client {
	s.t.Helper()
	proxy, err := url.Parse(s.Proxy)
	if err != nil {
		s.t.Fatal(err)
	}
	proxy.User = url.UserPassword(key, task)
	text, err := os.ReadFile(s.CA)
	if err != nil {
		s.t.Fatal(err)
	}
	roots, err := process.Roots(string(text))
	if err != nil {
		s.t.Fatal(err)
	}
	return process.Client(proxy, roots)
}

// pay has the API pay for a URL of the seller that wants to be paid before it is asked again.
func (s *sandbox) pay(path string, header ...string) answer {
	s.t.Helper()
	target := s.Seller + path
	asked := s.send(direct(), http.MethodGet, target, "")
	if asked.Status != http.StatusPaymentRequired {
		s.t.Fatalf("%s: status %d", target, asked.Status)
	}
	body, err := json.Marshal(map[string]string{"paymentRequiredHeader": asked.Header.Get("Payment-Required"), "requestUrl": target})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.send(direct(), http.MethodPost, s.API+"/v1/pay", string(body), append(header, "X-Api-Key", s.Key)...)
}

// configure changes the running configuration through the admin socket.
func (s *sandbox) configure(method, path string, value any) {
	s.t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		s.t.Fatal(err)
	}
	a := s.send(s.AdminClient(), method, "http://admin/config"+path, string(text))
	if a.Status != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	process.Eventually(t, waitTime, func() string {
		if holds() {
			return ""
		}
		return "not yet: " + what
	})
}
