package dashboard

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/ports"
	"github.com/purserpay/purser/sandbox"
)

var (
	pictures = flag.String("dashboard.pictures", "", "folder for pictures of every page; default: the test's artifacts, see go test -artifacts")
	events   = flag.Int("dashboard.events", 200_000, "payments of the organization whose pages TestALongHistory measures")
)

// runLimit ends everything that a run started, whatever happens to the tests.
const runLimit = 14 * time.Minute

// env is what the tests of a run share.
var env struct {
	ctx context.Context // ends with the run
	dir string          // for programs that were built

	world func() (*sandbox.World, error) // a chain, a facilitator and a seller, started when first asked for

	mu    sync.Mutex
	ports ports.Free
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	var cancel context.CancelFunc
	env.ctx, cancel = context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	var err error
	if env.dir, err = os.MkdirTemp("", "purser-dashboard-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(env.dir)
	started := false
	env.world = sync.OnceValues(func() (*sandbox.World, error) {
		started = true
		return sandbox.Start(env.ctx, sandbox.Options{})
	})
	code := m.Run()
	if started {
		if w, err := env.world(); err == nil {
			if err := w.Close(); err != nil {
				fmt.Fprintln(os.Stderr, "end of the world:", err)
				return 1
			}
		}
	}
	return code
}

// needNode skips a test where Node.js or its packages are missing.
func needNode(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("NOT TESTED: there is no node in PATH, which runs the identity provider and the browser's driver")
	}
	if _, err := os.Stat(filepath.Join("node_modules", "oidc-provider")); err != nil {
		t.Skip("NOT TESTED: the packages of e2e/dashboard are missing: run `make e2e-deps`, which needs a registry")
	}
}

// needBrowser skips a test where there is no browser either, and returns its path.
func needBrowser(t *testing.T) string {
	t.Helper()
	needNode(t)
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("NOT TESTED: there is no chromium in PATH (Debian: apt-get install chromium)")
	return ""
}
