package ship

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

const (
	// buildTime bounds one build, with nothing in Go's caches.
	buildTime = 14 * time.Minute
	// runTime bounds what is no build.
	runTime = 2 * time.Minute
	// version and commit are what the builds here are told to be.
	version = "v0.0.0-ship"
	commit  = "0123456789abcdef0123456789abcdef01234567"
	// shown is the form in which purser prints both.
	shown = version + "+0123456789ab"
)

// run runs a program to its end and returns what it said. settings are added to its environment.
func run(t *testing.T, limit time.Duration, settings []string, name string, arguments ...string) string {
	t.Helper()
	out, err := try(t, limit, settings, name, arguments...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, out)
	}
	return out
}

// try is run for a program that may fail.
func try(t *testing.T, limit time.Duration, settings []string, name string, arguments ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Env = append(os.Environ(), settings...)
	cmd.Dir = process.Root()
	cmd.WaitDelay = 10 * time.Second // something it started may hold on to its output
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = errors.Join(err, context.Cause(ctx))
	}
	return string(out), err
}

// identity returns the variables that tell a build its version and commit.
func identity() []string { return []string{"VERSION=" + version, "COMMIT=" + commit} }

var release struct {
	once sync.Once
	path string
	err  error
	said string
}

// releaseBinary is the binary that deploy/release.sh makes, built once.
func releaseBinary(t *testing.T) string {
	t.Helper()
	release.once.Do(func() {
		if release.path = os.Getenv("PURSER_RELEASE_BIN"); release.path != "" {
			release.path, release.err = filepath.Abs(release.path)
			return
		}
		var dir string
		if dir, release.err = os.MkdirTemp("", "purser-ship-"); release.err != nil {
			return
		}
		release.path = filepath.Join(dir, "purser")
		release.said, release.err = try(t, buildTime, identity(), "deploy/release.sh", release.path)
	})
	if release.err != nil {
		t.Fatalf("%v\n%s", release.err, release.said)
	}
	return release.path
}

func TestMain(m *testing.M) {
	code := process.Main(m, 1)
	if release.path != "" && os.Getenv("PURSER_RELEASE_BIN") == "" {
		_ = os.RemoveAll(filepath.Dir(release.path))
	}
	if dist.path != "" {
		_ = os.RemoveAll(dist.path)
	}
	for _, path := range tools.built {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// tool is a program of tools/go.mod, as `make tools` leaves it, else one that is built.
func tool(t *testing.T, pkg string) string {
	t.Helper()
	return toolOf(t, "tools", pkg)
}

// toolOf is a program of one of the modules in tools.
func toolOf(t *testing.T, module, pkg string) string {
	t.Helper()
	built := filepath.Join(process.Root(), "tools", "bin", filepath.Base(pkg))
	if _, err := os.Stat(built); err == nil {
		return built
	}
	tools.Lock()
	defer tools.Unlock()
	if path := tools.built[pkg]; path != "" {
		return path
	}
	dir, err := os.MkdirTemp("", "purser-ship-")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(pkg))
	run(t, buildTime, []string{"GOFLAGS=-mod=mod"}, "go", "build", "-C", module, "-o", path, pkg)
	tools.built[pkg] = path
	return path
}

// tools holds the paths of the programs that the tests built.
var tools = struct {
	sync.Mutex
	built map[string]string
}{built: map[string]string{}}
