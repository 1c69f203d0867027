package dashboard

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/testing/needed"
	"github.com/purserpay/purser/sandbox"
)

var (
	pictures = flag.String("dashboard.pictures", "", "folder for pictures of every page; without it there are only those of a failure, among the test's artifacts")
	events   = flag.Int("dashboard.events", 200_000, "payments of the organization whose pages TestALongHistory measures")
)

// startWorld starts a chain, a facilitator and a seller, which the tests of a run share, when the first asks for them.
var startWorld = sync.OnceValues(func() (*sandbox.World, error) {
	worldStarted = true
	return sandbox.Start(context.Background(), sandbox.Options{})
})

var worldStarted bool

func TestMain(m *testing.M) {
	code := process.Main(m, 4)
	if worldStarted {
		if w, err := startWorld(); err == nil {
			if err := w.Close(); err != nil {
				fmt.Fprintln(os.Stderr, "end of the world:", err)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// needNode skips a test where Node.js or its packages are missing.
func needNode(t *testing.T) {
	t.Helper()
	needed.Program(t, "it runs the identity provider and the browser's driver", "node")
	needed.File(t, "`make e2e-deps`", filepath.Join("node_modules", "oidc-provider"))
}

// needBrowser skips a test where there is no browser either, and returns its path.
func needBrowser(t *testing.T) string {
	t.Helper()
	needNode(t)
	return needed.Program(t, "Debian: apt-get install chromium", "chromium", "chromium-browser", "google-chrome")
}
