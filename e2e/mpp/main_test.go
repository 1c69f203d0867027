package mpp

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
	// stopTime bounds the time in which sellers end.
	stopTime = 10 * time.Second
)

// env holds the parts that all tests share.
var env *world

// world is both chains, and the sellers that tests have asked for.
type world struct {
	dir          string
	money        *sandbox.World
	certificates *process.Certificates
	turns        chan struct{} // of the clients that run

	mu      sync.Mutex
	tempo   func() (*process.Tempo, error)
	sellers map[string]func() (*seller, error)
	running []*process.Process
	purser  *process.Purser
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	env = &world{turns: make(chan struct{}, atOnce), sellers: map[string]func() (*seller, error){}}
	defer func() {
		if failed := env.close(); err == nil {
			err = failed
		}
	}()
	if env.dir, err = os.MkdirTemp("", "purser-mpp-"); err != nil {
		return 1, err
	}
	if env.certificates, err = process.NewCertificates(env.dir, sellerName); err != nil {
		return 1, err
	}
	if env.money, err = sandbox.Start(context.Background(), sandbox.Options{}); err != nil {
		return 1, err
	}
	return process.Main(m, parallel), nil
}

func (w *world) close() (err error) {
	if w.purser != nil && !w.purser.Ended() {
		err = w.purser.Stop(syscall.SIGTERM)
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
	if w.tempo != nil {
		if chain, failed := w.tempo(); failed == nil {
			chain.Kill()
		}
	}
	if failed := w.money.Close(); failed != nil {
		err = failed
	}
	if failed := os.RemoveAll(w.dir); failed != nil {
		err = failed
	}
	return err
}

// here is the path of a file of this package.
func here(parts ...string) string {
	return filepath.Join(append([]string{process.Root(), "e2e", "mpp"}, parts...)...)
}
