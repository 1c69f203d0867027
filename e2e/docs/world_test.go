package docs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	buildTime   = 10 * time.Minute
	startTime   = time.Minute
	stopTime    = 20 * time.Second
	commandTime = 90 * time.Second // one block
)

func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// binaries makes a folder with purser and purser-sandbox: those that are named, else new ones.
func binaries(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, variable := range map[string]string{"purser": "PURSER_BIN", "purser-sandbox": "PURSER_SANDBOX_BIN"} {
		path := filepath.Join(dir, name)
		if given := os.Getenv(variable); given != "" {
			if err := os.Symlink(given, path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), buildTime)
		build := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/"+name)
		build.Dir = repository(t)
		out, err := build.CombinedOutput()
		cancel()
		if err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	return dir
}

// sandbox is a running purser-sandbox.
type sandbox struct {
	API         string `json:"api"`
	Key         string `json:"key"`
	Seller      string `json:"seller"`
	SellerTLS   string `json:"seller_tls"`
	Facilitator string `json:"facilitator"`
	RPC         string `json:"rpc"`
	Metrics     string `json:"metrics"`
	Admin       string `json:"admin"`
	keyID       string
}

func startSandbox(t *testing.T, bin string) *sandbox {
	t.Helper()
	c := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(bin, "purser-sandbox"), "-json", "-port", "0")
	c.Dir = t.TempDir()
	var log lockedBuffer
	c.Stderr = &log
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	background(t, c, &log)
	s := new(sandbox)
	late := time.AfterFunc(startTime, func() { _ = c.Process.Kill() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	late.Stop()
	if err == nil {
		err = json.Unmarshal(line, s)
	}
	if err != nil {
		t.Fatalf("purser-sandbox did not start: %v\n%s", err, log.String())
	}
	s.keyID = s.findKey(t, bin)
	return s
}

// findKey is the id of the sandbox's key, which is not the one of `purser exec`.
func (s *sandbox) findKey(t *testing.T, bin string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(bin, "purser"), "keys", "--json", "--admin", s.Admin)
	text, err := c.Output()
	if err != nil {
		t.Fatalf("purser keys: %v", err)
	}
	var list struct{ Keys []struct{ ID, Label string } }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, k := range list.Keys {
		if k.Label != "exec" {
			return k.ID
		}
	}
	t.Fatalf("no key: %s", text)
	return ""
}

// challenge is what the seller asks for.
func (s *sandbox) challenge(t *testing.T) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+portOf(t, s.Seller)+"/weather", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.Header.Get("Payment-Required")
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" {
		t.Fatalf("no port in %q", address)
	}
	return u.Port()
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// background starts a program that is to go on until the test ends, and to end well then.
func background(t *testing.T, c *exec.Cmd, log *lockedBuffer) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(stopTime, func() { _ = c.Process.Kill() })
		defer late.Stop()
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", c, err, log.String())
		}
	})
}

// awaitHealth waits until a purser answers.
func awaitHealth(t *testing.T, port string, log *lockedBuffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			_ = resp.Body.Close()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no purser on port %s: %v\n%s", port, err, log.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lockedBuffer collects what a program says while others read it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
