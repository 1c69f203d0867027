package observe

import (
	"bufio"
	"bytes"
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
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTime = 4 * time.Minute // it may be built in it
	stopTime  = 20 * time.Second
	waitTime  = 30 * time.Second
)

// sandbox is a running purser-sandbox.
type sandbox struct {
	t *testing.T

	API         string
	Proxy       string
	Key         string
	Seller      string
	SellerTLS   string `json:"seller_tls"`
	Facilitator string
	CA          string
	Metrics     string
	Admin       string

	log lockedBuffer
}

func startSandbox(t *testing.T, environment ...string) *sandbox {
	t.Helper()
	binary := os.Getenv("PURSER_SANDBOX_BIN")
	if binary == "" {
		binary = filepath.Join(t.TempDir(), "purser-sandbox")
		build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/purser-sandbox")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build purser-sandbox: %v\n%s", err, out)
		}
	}
	s := &sandbox{t: t}
	cmd := exec.CommandContext(context.Background(), binary, "-json", "-v", "-port", "0")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stderr = &s.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start purser-sandbox: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(stopTime, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("purser-sandbox: %v\n%s", err, s.log.String())
		}
	})
	late := time.AfterFunc(startTime, func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	late.Stop()
	if err == nil {
		err = json.Unmarshal(line, s)
	}
	if err != nil {
		t.Fatalf("purser-sandbox did not start: %v\n%s", err, s.log.String())
	}
	return s
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
	admin := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(s.Admin, "unix/"))
		},
		DisableKeepAlives: true,
	}}
	a := s.send(admin, method, "http://admin/config"+path, string(text), map[string]string{"Content-Type": "application/json"})
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

// lockedBuffer is what a process says, readable while it runs.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
