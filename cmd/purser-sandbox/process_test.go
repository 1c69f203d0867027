package main

import (
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

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/internal/ports"
	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/x402"
)

// patience bounds every wait of the tests.
const patience = time.Minute

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "purser-sandbox-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "purser-sandbox")
		// The printed commands need purser too.
		if out, err := exec.Command("go", "build", "-o", dir, ".", "../purser").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// text is output that can be read while it is written.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *text) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *text) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// process is a running sandbox.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr text
	temp           string // its empty folder for temporary files
	done           chan struct{}
}

// launch starts the program with its own folder for temporary files. Of purser's variables it gets
// only the given ones.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary, args...), temp: t.TempDir(), done: make(chan struct{})}
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PURSER_") && !strings.HasPrefix(entry, "TMPDIR=") {
			p.cmd.Env = append(p.cmd.Env, entry)
		}
	}
	p.cmd.Env = append(append(p.cmd.Env, "TMPDIR="+p.temp), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the state has the exit status
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // if it still runs
		<-p.done
		if t.Failed() {
			t.Logf("%s\nstdout: %s\nstderr: %s", p.cmd, &p.stdout, &p.stderr)
		}
	})
	return p
}

// exits waits for the end. It checks the status, and that no files are left.
func (p *process) exits(t *testing.T, status int) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("exit status %d (%s), want %d", got, p.cmd.ProcessState, status)
	}
	left, err := os.ReadDir(p.temp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// says waits for a text on standard output.
func (p *process) says(t *testing.T, what string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		out := p.stdout.String()
		if strings.Contains(out, what) {
			return out
		}
		select {
		case <-p.done:
			t.Fatalf("it ended: %s", p.cmd.ProcessState)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("it never said %q", what)
		}
	}
}

// about waits for the line of -json.
func (p *process) about(t *testing.T) about {
	t.Helper()
	line := p.says(t, "\n")
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	var a about
	if err := d.Decode(&a); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("more than one line: %q", line)
	}
	return a
}

// balance asks the chain for a balance.
func balance(t *testing.T, rpc, owner string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := chain.New(chain.Options{URL: rpc})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	address, err := x402.ParseAddress(owner)
	if err != nil {
		t.Fatal(err)
	}
	base, _ := x402.NetworkByWire("base")
	amount, err := client.Balance(ctx, base, base.Assets[0], address)
	if err != nil {
		t.Fatal(err)
	}
	return amount.String()
}

var free ports.Free

// freeBase finds a port whose following sandbox ports are all free.
func freeBase(t *testing.T) int {
	t.Helper()
	base, err := free.Block(sandbox.LastOffset + 1)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// shell runs commands as a user's shell does.
func shell(t *testing.T, commands string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sh", "-c", commands).Output()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", commands, err, out)
	}
	return string(out)
}

// terminate sends the usual signal to end a program.
const terminate = syscall.SIGTERM
