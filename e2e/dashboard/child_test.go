package dashboard

import (
	"bufio"
	"errors"
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

// child is a running program. Its standard input stays open as long as the test process lives.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	log   tail
	done  chan struct{} // closed when it has ended
	err   error         // what Wait returned; readable once done is closed
}

// startChild starts a program, and ends it with the test. lines receives its standard output.
func startChild(t *testing.T, cmd *exec.Cmd, lines func(string)) *child {
	t.Helper()
	c := &child{name: filepath.Base(cmd.Path), cmd: cmd, done: make(chan struct{})}
	cmd.Stderr = &c.log
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	c.stdin = stdin
	go func() {
		defer close(c.done)
		scan := bufio.NewScanner(stdout)
		scan.Buffer(nil, 1<<20)
		for scan.Scan() {
			lines(scan.Text())
		}
		_, _ = io.Copy(io.Discard, stdout)
		c.err = cmd.Wait()
	}()
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Errorf("stop %s: %v", c.name, err)
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", c.name, &c.log)
		}
	})
	return c
}

// stop asks the program to end, and returns when it has. What has ended by itself is no trouble.
func (c *child) stop() error {
	select {
	case <-c.done:
		return nil
	default:
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended already
	select {
	case <-c.done:
		return c.err
	case <-time.After(45 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.done
		return errors.New("it did not stop within 45 s")
	}
}

// environment is what every child gets: nothing of the caller's proxies, keys or options.
func environment(more map[string]string) []string {
	var list []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	for name, value := range more {
		list = append(list, name+"="+value)
	}
	return list
}

// program is the path of a command of this repository: the one that a variable names, else one built once per run.
func program(t *testing.T, command, variable string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	return build(t, "../../cmd/"+command)
}

// build builds a program once per run and returns its path.
func build(t *testing.T, folder string) string {
	t.Helper()
	env.mu.Lock()
	defer env.mu.Unlock()
	path := filepath.Join(env.dir, filepath.Base(folder))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if out, err := exec.CommandContext(env.ctx, "go", "build", "-o", path, folder).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", folder, err, out)
	}
	return path
}

// freePorts finds TCP ports that nobody listens on, and gives none of them twice in a run.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	found, err := env.ports.Take(n)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// eventually asks until the answer is "" or the time is over, and then fails with the last answer.
func eventually(t *testing.T, limit time.Duration, ask func() string) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; {
		problem := ask()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", limit, problem)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// tail keeps the end of what a program says.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - 64<<10; over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
	}
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.text))
}
