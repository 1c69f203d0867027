package attacks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// startTime bounds the time until a purser answers.
	startTime = 30 * time.Second
	// stopTime bounds the time that a purser has to end by itself.
	stopTime = 3 * time.Second
	// lastWords is the length of the log's end that is shown when a purser does not start, in
	// bytes.
	lastWords = 2 << 10
	// logFile holds the output of a purser, in its folder.
	logFile = "purser.log"
)

// purser runs the program under examination with a scratch configuration.
type purser struct {
	*setup
	program string

	mu   sync.Mutex // guards the fields below: an attack may kill the process
	cmd  *exec.Cmd
	done chan struct{}
	how  error // how the process ended; readable once done is closed
}

// said returns what the program has written.
func (p *purser) said() string {
	text, _ := os.ReadFile(filepath.Join(p.dir, logFile)) // without a file, it has said nothing
	return string(text)
}

// lastSaid returns the end of what the program has written.
func (p *purser) lastSaid() string {
	text := p.said()
	return strings.TrimSpace(text[max(0, len(text)-lastWords):])
}

// errTaken reports that another program listens on the purser's port.
var errTaken = errors.New("a port was taken meanwhile")

// start runs the program, and returns when it answers. It fails with errTaken when the program
// cannot listen.
func (p *purser) start(ctx context.Context) error {
	for _, dir := range []string{p.dir, filepath.Join(p.dir, "home")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	file := filepath.Join(p.dir, "purser.json")
	if err := os.WriteFile(file, p.config, 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(p.dir, logFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the program has a handle of its own
	// The command does not use ctx, because its end would leave no time to report why.
	cmd := exec.Command(p.program, "run", "--config", file) //nolint:gosec,noctx // the user's own program
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.dir, p.environ, log, log
	p.mu.Lock()
	if err := cmd.Start(); err != nil {
		p.mu.Unlock()
		return fmt.Errorf("start %s: %w", p.program, err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	go func() {
		defer close(done)
		p.how = cmd.Wait()
	}()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		// Its own socket is asked first, because another program may listen at its port.
		_, err := p.operator(ctx, http.MethodGet, "/config/apps/purser", nil)
		if err == nil {
			_, err = p.get(ctx, "/health")
		}
		if err == nil {
			return nil
		}
		select {
		case <-done:
			// purser says so in its own words where it finds the port taken before Caddy listens.
			last := p.lastSaid()
			if strings.Contains(last, "address already in use") || strings.Contains(last, "another program listens on") {
				return fmt.Errorf("%w; the scratch purser said:\n%s", errTaken, last)
			}
			return fmt.Errorf("the scratch purser ended at once (%w); it said:\n%s", p.how, p.lastSaid())
		case <-ctx.Done():
			return fmt.Errorf("the scratch purser does not answer (%w); it said:\n%s", err, p.lastSaid())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// restart starts the program again at the same ports. It waits when another program holds a port
// for a moment.
func (p *purser) restart(ctx context.Context) (err error) {
	for range 5 {
		if err = p.start(ctx); !errors.Is(err, errTaken) {
			return err
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return err
}

// kill ends the program at once, as a power failure does.
func (p *purser) kill() {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill() // fails only when the process has ended
	<-done
}

// stop asks the program to end, and kills it soon after: its store is scratch.
func (p *purser) stop() {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	if cmd.Process.Signal(os.Interrupt) == nil {
		select {
		case <-done:
			return
		case <-time.After(stopTime):
		}
	}
	p.kill()
}

// url returns the address of the purser's API.
func (p *purser) url() string { return "http://" + p.api }

// get requests a path of the purser's API.
func (p *purser) get(ctx context.Context, path string) ([]byte, error) {
	return ask(ctx, plain, http.MethodGet, p.url()+path, nil)
}

// operator sends a request to the purser's admin endpoint.
func (p *purser) operator(ctx context.Context, method, path string, body io.Reader) ([]byte, error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", p.socket)
		},
	}}
	return ask(ctx, client, method, "http://127.0.0.1"+path, body)
}

// check runs purser check on the purser's database.
func (p *purser) check(ctx context.Context) error {
	run := func(command ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, p.program, append(command, "--admin", "unix/"+p.socket)...) //nolint:gosec // the user's own program
		cmd.Dir, cmd.Env = p.dir, p.environ
		return cmd.CombinedOutput()
	}
	out, err := run("check")
	if err != nil && bytes.Contains(out, []byte(`unknown command "check"`)) { // a Caddy with purser in it
		out, err = run("purser", "check")
	}
	if err != nil {
		return fmt.Errorf("purser check: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// plain opens a new connection for each request and uses no proxy.
var plain = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 4 << 20

// errStatus reports an answer with a status of 400 or more.
var errStatus = errors.New("refused")

// ask sends a request and returns the body of the answer. A status of 400 or more is an error.
func ask(ctx context.Context, client *http.Client, method, url string, body io.Reader) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %w: %s %s", method, r.URL.Path, errStatus, resp.Status, bytes.TrimSpace(text))
	}
	return text, err
}
