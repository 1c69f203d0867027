package ship

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTime bounds how long a purser takes to answer on a busy machine.
const startTime = time.Minute

// purser is a running purser.
type purser struct {
	cmd  *exec.Cmd
	url  string
	done chan struct{} // closed when it has ended
	err  error         // what Wait returned; readable once done is closed
	said *record
}

// start starts a purser and waits until it answers.
func start(t *testing.T, cmd *exec.Cmd, url string) *purser {
	t.Helper()
	p := launch(t, cmd, url)
	eventually(t, startTime, func() string {
		select {
		case <-p.done:
			t.Fatalf("purser ended: %v\n%s", p.err, p.said)
		default:
		}
		resp, err := http.Get(url + "/")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return resp.Status
		}
		return ""
	})
	return p
}

// launch starts a purser.
func launch(t *testing.T, cmd *exec.Cmd, url string) *purser {
	t.Helper()
	p := &purser{cmd: cmd, url: url, done: make(chan struct{}), said: new(record)}
	cmd.Stdout, cmd.Stderr = p.said, p.said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails only if it has ended already
		<-p.done
		if t.Failed() {
			t.Logf("purser said:\n%s", p.said)
		}
	})
	return p
}

// stop ends it as a service manager does, and fails unless it ends well, and in the time that the units and manifests of
// deploy give it.
func (p *purser) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
		if p.err != nil {
			t.Fatalf("purser was asked to stop: %v\n%s", p.err, p.said)
		}
	case <-time.After(45 * time.Second):
		t.Fatal("purser does not stop")
	}
}

// get is an answer that must be a 200.
func get(t *testing.T, client *http.Client, url string) (string, http.Header) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v: %s", url, resp.Status, err, body)
	}
	return string(body), resp.Header
}

// requireVersion fails unless purser tells everywhere which build it is.
func requireVersion(t *testing.T, status, health, metrics string) {
	t.Helper()
	for place, text := range map[string]string{"purser status": status, "/health": health, "/metrics": metrics} {
		want := shown
		if place == "/metrics" {
			want = fmt.Sprintf("version=%q", shown)
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s does not show %s:\n%.3000s", place, want, text)
		}
	}
	if !strings.Contains(metrics, "purser_build_info{") {
		t.Error("there is no metric purser_build_info")
	}
}

// record keeps what a program says.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}
