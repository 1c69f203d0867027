package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// child is a running program. Its standard input stays open as long as the test process lives, which is how the peers
// notice that they are no longer needed.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	log   *tail
	done  chan struct{} // closed when it has ended
	err   error         // what Wait returned; readable once done is closed
}

// startChild starts a program whose life ctx bounds. lines receives its standard output.
func startChild(ctx context.Context, name string, cmd *exec.Cmd, lines func(string)) (*child, error) {
	c := &child{name: name, cmd: cmd, log: &tail{}, done: make(chan struct{})}
	cmd.Stderr = c.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c.stdin = stdin
	go func() {
		defer close(c.done)
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			lines(scan.Text())
		}
		c.err = cmd.Wait()
	}()
	go func() {
		select {
		case <-ctx.Done():
			c.kill()
		case <-c.done:
		}
	}()
	return c, nil
}

// kill ends the program as a power failure would, and returns when it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // fails only if it has ended already
	<-c.done
}

// stopTime is by when a program has ended; purser may wait 11 s for what is in flight.
const stopTime = 45 * time.Second

// stop asks the program to end and returns what Wait said. Whoever takes longer than stopTime is killed.
func (c *child) stop(signal os.Signal) error {
	_ = c.cmd.Process.Signal(signal) // fails only if it has ended already
	select {
	case <-c.done:
		return c.err
	case <-time.After(stopTime):
		c.kill()
		return fmt.Errorf("%s did not stop within %s of %v", c.name, stopTime, signal)
	}
}

// cleanup stops the program after a test and shows its last words if the test failed.
func (c *child) cleanup(t *testing.T) {
	t.Cleanup(func() {
		select {
		case <-c.done: // ended by the test
		default:
			if err := c.stop(syscall.SIGTERM); err != nil {
				t.Errorf("stop %s: %v", c.name, err)
			}
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", c.name, c.log)
		}
	})
}

// peerReady is what a peer that listens prints first.
type peerReady struct{ URL, TLS string }

// startPeer starts one of the programs in peers and returns where it listens.
func startPeer(ctx context.Context, script string, environment map[string]string) (*child, peerReady, error) {
	cmd := peerCommand(ctx, script, environment)
	first := make(chan string, 1)
	c, err := startChild(ctx, script, cmd, func(line string) {
		select {
		case first <- line:
		default:
		}
	})
	if err != nil {
		return nil, peerReady{}, err
	}
	select {
	case line := <-first:
		var ready peerReady
		if err := json.Unmarshal([]byte(line), &ready); err != nil {
			c.kill()
			return nil, ready, fmt.Errorf("%s: first line %q: %w", script, line, err)
		}
		return c, ready, nil
	case <-c.done:
		return nil, peerReady{}, fmt.Errorf("%s ended: %w\n%s", script, c.err, c.log)
	case <-time.After(60 * time.Second):
		c.kill()
		return nil, peerReady{}, fmt.Errorf("%s is not ready after 60 s:\n%s", script, c.log)
	}
}

// runPeer runs one of the programs in peers to its end and decodes the line that it prints.
func runPeer(t *testing.T, script string, environment map[string]string, answer any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := peerCommand(ctx, script, environment)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, stderr.String())
	}
	if err := json.Unmarshal(out, answer); err != nil {
		t.Fatalf("%s printed %q: %v", script, out, err)
	}
}

func peerCommand(ctx context.Context, script string, environment map[string]string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "node", filepath.Join("peers", script))
	cmd.Env = append(baseEnvironment(), assignments(environment)...)
	return cmd
}

// baseEnvironment is what every child gets: nothing of the caller's proxies, keys or options.
func baseEnvironment() []string {
	var kept []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			kept = append(kept, name+"="+value)
		}
	}
	return kept
}

func assignments(environment map[string]string) []string {
	var list []string
	for name, value := range environment {
		list = append(list, name+"="+value)
	}
	return list
}

// binary returns the path of a command of this repository: the one that an environment variable names, else one built
// once per run.
func (w *world) binary(t *testing.T, command, variable string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	return w.build(t, "../cmd/"+command)
}

// build builds a program once per run and returns its path.
func (w *world) build(t *testing.T, folder string) string {
	t.Helper()
	w.buildMu.Lock()
	defer w.buildMu.Unlock()
	path := filepath.Join(w.dir, filepath.Base(folder))
	if _, err := os.Stat(path); err == nil {
		return path
	} else if !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(w.ctx, "go", "build", "-o", path, folder).CombinedOutput()
	if err != nil {
		t.Fatalf("build %s: %v\n%s", folder, err, out)
	}
	return path
}

// tail keeps the end of what a program says.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 16 << 10

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - tailBytes; over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
	}
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.text))
}
