package openapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTime = 3 * time.Minute // it may be built in it
	stopTime  = 20 * time.Second
)

// sandbox is a running purser-sandbox.
type sandbox struct {
	t               *testing.T
	API, Key, Admin string
	log             lockedBuffer
}

func startSandbox(t *testing.T) *sandbox {
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
	cmd := exec.CommandContext(context.Background(), binary, "-json", "-port", "0")
	cmd.Dir = t.TempDir()
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PURSER_") }) // those of the tests
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
			t.Errorf("purser-sandbox: %v\n%s", err, ending(s.log.String()))
		}
	})
	late := time.AfterFunc(startTime, func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	late.Stop()
	if err == nil {
		err = json.Unmarshal(line, s)
	}
	if err != nil {
		t.Fatalf("purser-sandbox did not start: %v\n%s", err, ending(s.log.String()))
	}
	return s
}

// liftKeyRate lets one address make as many keys as it likes: the bound of 60 a minute is tested
// elsewhere, and here would hide what lies behind it.
func (s *sandbox) liftKeyRate() {
	s.t.Helper()
	admin := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(s.Admin, "unix/"))
		},
		DisableKeepAlives: true,
	}}
	const handlers = "http://admin/config/apps/http/servers/purser/routes/0/handle"
	var list []struct{ Handler string }
	s.request(admin, http.MethodGet, handlers, nil, &list)
	for i, h := range list {
		if h.Handler == "purser_api" {
			s.request(admin, http.MethodPost, fmt.Sprintf("%s/%d/key_rate", handlers, i), -1, nil)
			return
		}
	}
	s.t.Fatalf("no purser_api among %+v", list)
}

// call makes one call of the API with the sandbox's key and reads its answer.
func (s *sandbox) call(method, path string, body, answer any) {
	s.t.Helper()
	s.request(&http.Client{Timeout: time.Minute}, method, s.API+path, body, answer)
}

func (s *sandbox) request(by *http.Client, method, url string, body, answer any) {
	s.t.Helper()
	var sent io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		sent = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, url, sent)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", s.Key)
	res, err := by.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		s.t.Fatalf("%s %s: %d %s", method, url, res.StatusCode, text)
	}
	if answer != nil {
		if err := json.Unmarshal(text, answer); err != nil {
			s.t.Fatalf("%s %s: %v in %s", method, url, err, text)
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
