// Package process starts the programs that the end-to-end tests are about, waits for them, and
// ends them: purser, purser-sandbox, and what runs in Node.js or a shell beside them.
//
// Every wait ends with an event or after a bounded time. Programs are ended by their process, and
// a failed test shows the end of what they said.
package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTime = time.Minute      // on a busy machine
	stopTime  = 45 * time.Second // units and manifests in deploy give purser as long
)

// Process is a program that was started. Its standard input stays open as long as the test's
// process lives, by which the programs in e2e/peers notice that they are no longer needed.
type Process struct {
	Cmd  *exec.Cmd
	Log  *Log
	Done chan struct{} // closed when it has ended
	Err  error         // what Wait returned; readable once Done is closed
	// Stdin is nil if the command brought its own.
	Stdin io.Closer
}

// Run starts a program. lines receives its standard output, which the log keeps if lines is nil.
func Run(cmd *exec.Cmd, log *Log, lines func(string)) (*Process, error) {
	p := &Process{Cmd: cmd, Log: log, Done: make(chan struct{})}
	cmd.Stderr = log
	var stdout io.Reader
	var errs [3]error
	if cmd.Stdin == nil {
		p.Stdin, errs[0] = cmd.StdinPipe()
	}
	if lines == nil {
		cmd.Stdout = log
	} else {
		stdout, errs[1] = cmd.StdoutPipe()
	}
	errs[2] = cmd.Start()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	running.Store(p, nil)
	go func() {
		defer close(p.Done)
		defer running.Delete(p)
		if lines != nil {
			scan := bufio.NewScanner(stdout)
			for scan.Buffer(nil, 1<<20); scan.Scan(); {
				lines(scan.Text())
			}
			_, _ = io.Copy(io.Discard, stdout) // after a line that was too long
		}
		p.Err = cmd.Wait()
	}()
	return p, nil
}

// Announced starts a program and returns the first line of its standard output that is wanted, by
// which it says that it is ready.
func Announced(cmd *exec.Cmd, wanted func(line string) bool) (p *Process, line string, err error) {
	ready := make(chan string, 1)
	if p, err = Run(cmd, new(Log), func(line string) {
		if wanted(line) {
			select {
			case ready <- line:
			default:
			}
		}
	}); err != nil {
		return nil, "", err
	}
	select {
	case line := <-ready:
		return p, line, nil
	case <-p.Done:
		return nil, "", fmt.Errorf("%s: %w: %s\n%s", p.name(), ErrEnded, p.Cmd.ProcessState, p.Log.End())
	case <-time.After(startTime):
		p.Kill()
		return nil, "", fmt.Errorf("%s is not ready after %s\n%s", p.name(), startTime, p.Log.End())
	}
}

// running holds the processes of this run that have not ended.
var running sync.Map

func killAll() {
	running.Range(func(p, _ any) bool {
		_ = p.(*Process).Cmd.Process.Kill()
		return true
	})
}

// Start starts a program for a test, which ends it and fails if it does not end well.
func Start(t testing.TB, cmd *exec.Cmd, lines func(string)) *Process {
	t.Helper()
	p, err := Run(cmd, new(Log), lines)
	if err != nil {
		t.Fatal(err)
	}
	p.Cleanup(t)
	return p
}

// Cleanup has a test end the program, if nothing has by then, and show what it said if the test failed.
func (p *Process) Cleanup(t testing.TB) {
	t.Cleanup(func() {
		if !p.Ended() {
			if err := p.Stop(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", p.name(), p.Log.End())
		}
	})
}

func (p *Process) name() string { return filepath.Base(p.Cmd.Path) }

// Ended reports whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Kill ends the program as a power failure does, and returns when it is gone.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill() // fails only if it has ended already
	<-p.Done
}

// Killed reports whether the program was ended by SIGKILL.
func (p *Process) Killed() bool {
	status, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Stop asks the program to end and returns what Wait said. After 45 s it is killed.
func (p *Process) Stop(signal os.Signal) error {
	_ = p.Cmd.Process.Signal(signal) // fails only if it has ended already
	if !p.EndsWithin(stopTime) {
		p.Kill()
		return fmt.Errorf("%s did not stop within %s of %v", p.name(), stopTime, signal)
	}
	if p.Err != nil {
		return fmt.Errorf("%s ended with %w", p.name(), p.Err)
	}
	return nil
}

// EndsWithin waits for the end of the program and reports whether it came in time.
func (p *Process) EndsWithin(limit time.Duration) bool {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-p.Done:
		return true
	case <-late.C:
		return p.Ended()
	}
}

// ErrEnded is the error of Await for a program that has ended.
var ErrEnded = errors.New("it has ended")

// Await waits until a GET of url gets a 200.
func (p *Process) Await(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		res, err := client.Do(r)
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(res.Status)
		}
		select {
		case <-p.Done:
			return fmt.Errorf("%s: %w: %s\n%s", p.name(), ErrEnded, p.Cmd.ProcessState, p.Log.End())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer at %s: %w\n%s", p.name(), url, err, p.Log.End())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Eventually asks until the answer is empty or the time is over, and then fails with the last answer.
func Eventually(t testing.TB, limit time.Duration, ask func() string) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		problem := ask()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", limit, problem)
		}
	}
}

// Environment returns what every program gets: nothing of the caller's proxies, keys or options.
func Environment(settings ...string) (list []string) {
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	return append(list, settings...)
}
