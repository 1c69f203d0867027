package mcp

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/purserpay/purser/e2e/internal/official"
	"github.com/purserpay/purser/e2e/internal/process"
)

// env holds the parts that all tests share.
var env *world

// world is a chain with a facilitator, and the sellers that tests have asked for.
type world struct {
	*official.Town
	building sync.Once // of the client for Go
}

func TestMain(m *testing.M) {
	if os.Getenv(sellsOnStreams) != "" {
		os.Exit(sellOnStreams())
	}
	official.Main(m, sellerName, func(w *official.Town) func() {
		env = &world{Town: w}
		return func() {}
	})
}

// here is the path of a file of this package.
func here(parts ...string) string {
	return filepath.Join(append([]string{process.Root(), "e2e", "mcp"}, parts...)...)
}
