package observe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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

// answer is one answer, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request with a client. A reload drops connections that it has not accepted yet, so
// one that was cut off without an answer is sent again.
func (s *sandbox) send(by *http.Client, method, target, body string, header map[string]string) answer {
	s.t.Helper()
	var res *http.Response
	var err error
	for range 3 {
		var req *http.Request
		if req, err = http.NewRequestWithContext(s.t.Context(), method, target, strings.NewReader(body)); err != nil {
			s.t.Fatal(err)
		}
		for name, value := range header {
			req.Header.Set(name, value)
		}
		if res, err = by.Do(req); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			break
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(text)}
}

// direct is a client that knows where the sellers are and uses no proxy.
func direct() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if host, port, err := net.SplitHostPort(address); err == nil && strings.HasSuffix(host, ".test") {
				address = net.JoinHostPort("127.0.0.1", port)
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
		DisableKeepAlives: true,
	}}
}

// proxied is a client behind the proxy, with a key and a task; it trusts the interception root.
func (s *sandbox) proxied(key, task string) *http.Client {
	s.t.Helper()
	proxy, err := url.Parse(s.Proxy)
	if err != nil {
		s.t.Fatal(err)
	}
	proxy.User = url.UserPassword(key, task)
	pem, err := os.ReadFile(s.CA)
	if err != nil {
		s.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		Proxy: http.ProxyURL(proxy), DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}
}

// pay has the API pay for a URL of the seller that wants to be paid before it is asked again.
func (s *sandbox) pay(path string, header map[string]string) answer {
	s.t.Helper()
	target := s.Seller + path
	asked := s.send(direct(), http.MethodGet, target, "", nil)
	if asked.status != http.StatusPaymentRequired {
		s.t.Fatalf("%s: status %d", target, asked.status)
	}
	body, err := json.Marshal(map[string]string{"paymentRequiredHeader": asked.header.Get("Payment-Required"), "requestUrl": target})
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]string{"X-Api-Key": s.Key, "Content-Type": "application/json"}
	for name, value := range header {
		all[name] = value
	}
	return s.send(direct(), http.MethodPost, s.API+"/v1/pay", string(body), all)
}

// configure changes the running configuration through the admin socket.
func (s *sandbox) configure(method, path string, value any) {
	s.t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		s.t.Fatal(err)
	}
	a := s.send(s.AdminClient(), method, "http://admin/config"+path, string(text), map[string]string{"Content-Type": "application/json"})
	if a.status != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitTime); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
