package mcp

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

// parallel is the number of tests that run at once. They wait for blocks more than for a processor.
const parallel = 16

// stopTime bounds the time in which sellers end.
const stopTime = 10 * time.Second

// env holds the parts that all tests share.
var env *world

// world is a chain with a facilitator, and the sellers that tests have asked for.
type world struct {
	dir          string
	money        *sandbox.World
	certificates *process.Certificates

	building sync.Once     // of the client for Go
	turns    chan struct{} // of the clients that run

	mu      sync.Mutex
	sellers map[string]func() (*seller, error)
	running []*process.Process
	purser  *process.Purser
}

func TestMain(m *testing.M) {
	if os.Getenv(sellsOnStreams) != "" {
		os.Exit(sellOnStreams())
	}
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
	if env.dir, err = os.MkdirTemp("", "purser-mcp-"); err != nil {
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
	for _, s := range w.running {
		_ = s.Stdin.Close() // by which they know their end
	}
	for _, s := range w.running {
		if !s.EndsWithin(stopTime) {
			s.Kill()
			err = fmt.Errorf("%s did not end\n%s", s.Cmd, s.Log.End())
		}
	}
	if w.purser != nil && !w.purser.Ended() {
		if failed := w.purser.Stop(syscall.SIGTERM); failed != nil {
			err = failed
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
	return filepath.Join(append([]string{process.Root(), "e2e", "mcp"}, parts...)...)
}
