package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// child is a running program under test.
type child struct {
	cmd  *exec.Cmd
	said *said
	done chan struct{} // closed when the program has ended
	err  error         // the result of Wait; readable once done is closed

	url string // its address
	dir string // its working folder
	api *http.Client
}

// said holds what a program printed, and counts it.
type said struct {
	text  bytes.Buffer // read it only after done
	bytes atomic.Int64
}

func (s *said) Write(p []byte) (int, error) {
	s.bytes.Add(int64(len(p)))
	return s.text.Write(p)
}

// startServer starts Caddy with a Caddyfile in its own folder. It returns when Caddy answers on its
// port.
func (b *bench) startServer(ctx context.Context, config, dir string, port int, environment ...string) (*child, error) {
	config, err := filepath.Abs(config)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	cmd := exec.Command(b.binary, "run", "--config", config, "--adapter", "caddyfile") //nolint:gosec,noctx // our own binary, which stop ends gently
	cmd.Dir = dir
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		cmd.Env = append(cmd.Env, name+"="+os.Getenv(name))
	}
	cmd.Env = append(cmd.Env, environment...)
	c := &child{
		cmd: cmd, said: new(said), done: make(chan struct{}), dir: dir,
		url: "http://127.0.0.1:" + strconv.Itoa(port), api: client(&b.received),
	}
	cmd.Stderr = c.said
	cmd.WaitDelay = 5 * time.Second // in case a child of it keeps the pipe
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		c.err = cmd.Wait()
		close(c.done)
	}()
	if err := c.await(ctx); err != nil {
		c.stop()
		return nil, fmt.Errorf("%w\n%s", err, tail(c.said.text.Bytes()))
	}
	return c, nil
}

// await polls until the server answers.
func (c *child) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
		if err != nil {
			return err
		}
		res, err := c.api.Do(req)
		if err == nil {
			return res.Body.Close()
		}
		select {
		case <-c.done:
			return fmt.Errorf("server ended: %w", c.err)
		case <-ctx.Done():
			return fmt.Errorf("server does not answer: %w", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// stop ends the program and waits for its end.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // fails only when it has ended
	select {
	case <-c.done:
	case <-time.After(10 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
	c.api.CloseIdleConnections()
}

// pid returns the program's process, or 0 when there is none.
func (c *child) pid() int {
	if c == nil {
		return 0
	}
	return c.cmd.Process.Pid
}

// kill ends the program as a crash would.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // fails only when it has ended
	<-c.done
	c.api.CloseIdleConnections()
}

func tail(said []byte) []byte { return said[max(0, len(said)-2000):] }

// startPurser starts purser as it is shipped. Its data folder is new, unless dir has one.
func (b *bench) startPurser(ctx context.Context, dir string, environment ...string) (*purser, error) {
	ports, err := freePorts(ctx, 3)
	if err != nil {
		return nil, err
	}
	p := &purser{secret: rand.Text()}
	environment = append(environment,
		"PURSER_PORT="+strconv.Itoa(ports[0]), "PURSER_METRICS_PORT="+strconv.Itoa(ports[1]),
		"PURSER_UPSTREAM_PORT="+strconv.Itoa(ports[2]),
		"PURSER_DATA_DIR=data", "PURSER_ADMIN=unix/./admin.sock|0600",
		"PURSER_DAILY_BUDGET=off", "PURSER_PER_MINUTE=off", "PURSER_PLANS=off", "PURSER_INTERNAL_SECRET="+p.secret)
	p.sidecar = "http://127.0.0.1:" + strconv.Itoa(ports[2])
	p.child, err = b.startServer(ctx, "xcaddy.Caddyfile", dir, ports[0], environment...)
	if err != nil {
		return nil, fmt.Errorf("start purser: %w", err)
	}
	return p, nil
}

// purser is a running purser.
type purser struct {
	*child
	secret  string // PURSER_INTERNAL_SECRET
	sidecar string // URL of the sidecar door
}

// newKeys makes API keys with a wallet. Each belongs to its own organization.
func (p *purser) newKeys(ctx context.Context, n int) ([]string, error) {
	var keys []string
	for i := range n {
		body := fmt.Sprintf(`{"label":"bench","organization_id":"bench-%d","plan":"AGENCY"}`, i)
		_, got, err := ask(ctx, p.api, http.MethodPost, p.url+"/api-keys", body, http.StatusCreated, "X-Internal-Secret", p.secret)
		if err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		var made struct{ Key string }
		if err := json.Unmarshal(got, &made); err != nil || made.Key == "" {
			return nil, errors.New("make a key: the answer has none")
		}
		if err := p.newWallet(ctx, made.Key); err != nil {
			return nil, err
		}
		keys = append(keys, made.Key)
	}
	return keys, nil
}

func (p *purser) newWallet(ctx context.Context, key string) error {
	if _, _, err := ask(ctx, p.api, http.MethodPost, p.url+"/wallets", "{}", http.StatusCreated, "X-Api-Key", key); err != nil {
		return fmt.Errorf("make a wallet: %w", err)
	}
	return nil
}

// client returns an HTTP client that keeps its connections, and counts what it receives.
func client(received *atomic.Int64) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return counting{conn, received}, nil
		},
		MaxIdleConnsPerHost: maxClients, DisableCompression: true,
	}}
}

// freePorts finds unused TCP ports.
func freePorts(ctx context.Context, n int) ([]int, error) {
	var ports []int
	for range n {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = listener.Close() }() // at the end, so that no port is found twice
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
