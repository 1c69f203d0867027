package kills

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/ports"
	"github.com/purserpay/purser/internal/vault"
)

// Secrets of all pursers here.
const (
	deploymentKey = "pk_killskillskillskillskillskills"
	masterKeyText = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)

func masterKey() vault.Source {
	k, err := vault.ParseMasterKey(masterKeyText)
	if err != nil {
		panic(err) // it is a constant
	}
	return vault.Given(k)
}

// purser is the program under test on one data directory, however often it is started.
type purser struct {
	data     string
	upstream string
	settings []string
	// The ports stay the same over restarts.
	port, sidecar, metrics int

	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	said *tail         // by all that were started
}

func newPurser(t *testing.T, data, seller, facilitator, rpc string) *purser {
	t.Helper()
	ports := freePorts(t, 3)
	p := &purser{data: data, upstream: seller, port: ports[0], sidecar: ports[1], metrics: ports[2], said: &tail{}}
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		p.settings = append(p.settings, name+"="+os.Getenv(name))
	}
	p.settings = append(
		p.settings, "PURSER_PORT="+strconv.Itoa(p.port), "PURSER_UPSTREAM_PORT="+strconv.Itoa(p.sidecar),
		"PURSER_METRICS_PORT="+strconv.Itoa(p.metrics), "PURSER_DATA_DIR="+data, "PURSER_ADMIN=unix/"+data+".sock|0600",
		"PURSER_MASTER_KEY="+masterKeyText, "PURSER_KEY="+deploymentKey, "PURSER_UPSTREAM="+seller,
		"PURSER_FACILITATOR_URL="+facilitator, "PURSER_RPC_URL="+rpc,
		"PURSER_MAX_PAYMENT=off", "PURSER_DAILY_BUDGET=1000000", "PURSER_MONTHLY_BUDGET=1000000",
		"PURSER_FAILURES_PER_MINUTE=off", "PURSER_FAILURES_PER_DAY=off",
	)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("purser said:\n%s", p.said)
		}
	})
	return p
}

func (p *purser) url() string        { return "http://127.0.0.1:" + strconv.Itoa(p.port) }
func (p *purser) sidecarURL() string { return "http://127.0.0.1:" + strconv.Itoa(p.sidecar) }
func (p *purser) database() string   { return p.data + "/purser.db" }

// spawn starts the program, which ends itself at a place (see failpoint.KillAt), if one is given.
func (p *purser) spawn(t *testing.T, at string, more ...string) {
	t.Helper()
	cmd := exec.Command(binaries.armed, "run", "--config", "../../xcaddy.Caddyfile")
	cmd.Env = append(append(p.settings[:len(p.settings):len(p.settings)], more...), failpoint.KillAt+"="+at)
	cmd.Stdout, cmd.Stderr = p.said, p.said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait() // it is killed
	}()
}

// start runs the program until it answers. It reports false if the program died before that.
func (p *purser) start(t *testing.T, at string, more ...string) bool {
	t.Helper()
	p.spawn(t, at, more...)
	return p.answers(t)
}

// answers waits until the program answers, or has died.
func (p *purser) answers(t *testing.T) bool {
	t.Helper()
	alive := true
	eventually(t, time.Minute, func() string {
		select {
		case <-p.done:
			alive = false
			return ""
		default:
		}
		resp, err := http.Get(p.url() + "/")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return resp.Status
		}
		return ""
	})
	if !alive {
		p.requireKilled(t)
	}
	return alive
}

// dies waits for the program to end itself, and reports whether it has.
func (p *purser) dies(t *testing.T, patience time.Duration) bool {
	t.Helper()
	select {
	case <-p.done:
		p.requireKilled(t)
		return true
	case <-time.After(patience):
		return false
	}
}

// kill ends the program as kill -9 does, whatever it is doing.
func (p *purser) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.done
}

// stop ends the program as an operator does.
func (p *purser) stop(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended already
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Error("purser does not stop")
		p.kill()
	}
}

// requireKilled fails the test if the program ended for another reason than SIGKILL.
func (p *purser) requireKilled(t *testing.T) {
	t.Helper()
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("purser ended by itself: %v", p.cmd.ProcessState)
	}
}

// check runs `purser check` on the closed database.
func (p *purser) check(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binaries.armed, "check", "--data-dir", p.data)
	cmd.Env = p.settings
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("purser check: %v\n%s", err, out)
	}
}

// free has the ports of all pursers: one that is down must find its own again when it comes back.
var free ports.Free

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	found, err := free.Take(n)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// tail keeps the end of what programs say.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 24 << 10

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
	return string(l.text)
}

// eventually asks until the answer is "" or the time is over, and then fails with the last answer.
func eventually(t *testing.T, limit time.Duration, ask func() string) {
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
