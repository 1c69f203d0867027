// Package official has what tests at official sellers share: a chain with a facilitator, sellers that run as programs of
// their own, and pursers that know these sellers by name.
package official

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox"
)

const (
	// parallel is the number of tests that run at once. They wait for blocks more than for a processor.
	parallel = 16
	// atOnce is the number of clients that run at once: a processor is what they need to start.
	atOnce = 4
	// stopTime bounds the time in which sellers end.
	stopTime = 10 * time.Second
)

// Town holds the parts that all tests of a package share.
type Town struct {
	// Dir is a folder that goes with the town.
	Dir          string
	Money        *sandbox.World
	Certificates *process.Certificates

	name  string        // of the sellers
	turns chan struct{} // of the clients that run

	mu      sync.Mutex
	sellers map[string]func() (*Seller, error)
	running []*process.Process
	pursers map[string]*process.Purser
}

// Main runs the tests of a package in a town whose sellers have a name beside 127.0.0.1. use gets the town before the
// tests, and the town's end calls what it returns.
func Main(m *testing.M, name string, use func(*Town) (end func())) {
	code, err := run(m, name, use)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, name string, use func(*Town) (end func())) (code int, err error) {
	w := &Town{name: name, turns: make(chan struct{}, atOnce), sellers: map[string]func() (*Seller, error){}, pursers: map[string]*process.Purser{}}
	end := func() {}
	defer func() {
		if failed := w.close(); err == nil {
			err = failed
		}
		end()
	}()
	if w.Dir, err = os.MkdirTemp("", "purser-town-"); err != nil {
		return 1, err
	}
	if w.Certificates, err = process.NewCertificates(w.Dir, name); err != nil {
		return 1, err
	}
	if w.Money, err = sandbox.Start(context.Background(), sandbox.Options{}); err != nil {
		return 1, err
	}
	end = use(w)
	return process.Main(m, parallel), nil
}

func (w *Town) close() (err error) {
	for _, p := range w.pursers {
		if !p.Ended() {
			err = p.Stop(syscall.SIGTERM)
		}
	}
	for _, s := range w.running {
		_ = s.Stdin.Close() // by which they know their end
	}
	for _, s := range w.running {
		if !s.EndsWithin(stopTime) {
			s.Kill()
			err = fmt.Errorf("%s did not end\n%s", s.Cmd, s.Log.End())
		}
	}
	if w.Money != nil {
		if failed := w.Money.Close(); failed != nil {
			err = failed
		}
	}
	if failed := os.RemoveAll(w.Dir); failed != nil {
		err = failed
	}
	return err
}

// Purser prepares a purser that knows the sellers' authority and their name, with names of more sellers.
func (w *Town) Purser(t testing.TB, program, data string, names []string, settings ...string) *process.Purser {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(process.Root(), "xcaddy.Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	known := process.ProxyBlock + "trust " + w.Certificates.File + "\n"
	for _, name := range append([]string{w.name}, names...) {
		known += "resolve " + name + " 127.0.0.1\n"
	}
	config := data + ".Caddyfile"
	if err := os.WriteFile(config, []byte(process.Replaced(t, string(text), process.ProxyBlock, known)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := process.NewPurser(t, process.Program(t, program), data, append([]string{
		"PURSER_RPC_URL=" + w.Money.RPCURL(), "PURSER_FACILITATOR_URL=" + w.Money.FacilitatorURL(), "SSL_CERT_FILE=" + w.Certificates.File,
		"PURSER_FAILURES_PER_MINUTE=off", "PURSER_FAILURES_PER_DAY=off",
	}, settings...)...)
	p.Config = config
	return p
}

// Shared returns the purser of a name, which runs as long as the tests do. prepare makes it in a folder, and starts none.
func (w *Town) Shared(t testing.TB, name string, prepare func(data string) *process.Purser) *process.Purser {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pursers[name] == nil {
		p := prepare(filepath.Join(w.Dir, name))
		if err := p.Open(); err != nil {
			t.Fatal(err)
		}
		w.pursers[name] = p
	}
	return w.pursers[name]
}
