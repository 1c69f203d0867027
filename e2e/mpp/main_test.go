package mpp

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/purserpay/purser/e2e/internal/official"
	"github.com/purserpay/purser/e2e/internal/process"
)

// env holds the parts that all tests share.
var env *world

// world is both chains, and the sellers that tests have asked for.
type world struct {
	*official.Town

	mu    sync.Mutex
	tempo func() (*process.Tempo, error) // nil until a test needs it
}

func TestMain(m *testing.M) {
	official.Main(m, sellerName, func(w *official.Town) func() {
		env = &world{Town: w}
		return env.close
	})
}

func (w *world) close() {
	if w.tempo == nil {
		return
	}
	if chain, err := w.tempo(); err == nil {
		chain.Kill()
	}
}

// here is the path of a file of this package.
func here(parts ...string) string {
	return filepath.Join(append([]string{process.Root(), "e2e", "mpp"}, parts...)...)
}
