package process

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/ports"
)

// buildTime bounds one build, with nothing in Go's caches.
const buildTime = 14 * time.Minute

// Names of this repository's programs.
const (
	Plain      = "purser"
	Failpoints = "purser-failpoints" // a test build, see internal/failpoint
	Offline    = "purser-sandbox"
)

// variables name programs that were built before.
var variables = map[string]string{Plain: "PURSER_BIN", Failpoints: "PURSER_FAILPOINTS_BIN", Offline: "PURSER_SANDBOX_BIN"}

// built holds what this run has built.
var built struct {
	sync.Mutex
	dir string
}

// Main runs the tests of a package, so many at once: they wait for blocks and processes, not for
// a processor. It removes what was built for them. Shortly before go test gives up, it ends what still runs.
func Main(m *testing.M, parallel int) int {
	if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
		panic(err) // the flag is there
	}
	flag.Parse()
	if limit := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration); limit > 0 {
		defer time.AfterFunc(limit*14/15, killAll).Stop()
	}
	defer func() {
		if built.dir != "" {
			_ = os.RemoveAll(built.dir)
		}
	}()
	return m.Run()
}

// Program returns the path of one of this repository's programs: the one that a variable names,
// such as PURSER_BIN, else one that is built once for the run of a package's tests.
func Program(t testing.TB, name string) string {
	t.Helper()
	if path := os.Getenv(variables[name]); path != "" {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	if name == Failpoints {
		return Build(t, name, "-tags", "failpoints", "./cmd/purser")
	}
	return Build(t, name, "./cmd/"+name)
}

// Build builds a program of this repository, once for the run of a package's tests, and returns its path.
func Build(t testing.TB, name string, arguments ...string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "purser-e2e-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir = dir
	}
	path := filepath.Join(built.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	build := exec.CommandContext(ctx, "go", append([]string{"build", "-o", path}, arguments...)...) //nolint:gosec // a test gives it
	build.Dir = Root()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return path
}

// Root returns the folder of the repository.
func Root() string {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	panic(fmt.Sprintf("the tests do not run in the repository, but in %s: %v", dir, err))
}

// Files lists the files of the repository that git knows or does not ignore, and that are there.
func Files(t testing.TB, patterns ...string) (names []string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}, patterns...)...)
	list.Dir = Root()
	text, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(text), "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(Root(), name)); err == nil { // neither deleted nor a link to nothing
			names = append(names, name)
		}
	}
	return names
}

// Checkout copies files of the repository to a folder as git has them: without what was built or installed here.
func Checkout(t testing.TB, to string, patterns ...string) {
	t.Helper()
	for _, name := range Files(t, patterns...) {
		from := filepath.Join(Root(), name)
		info, err := os.Stat(from)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), text, info.Mode().Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

var free ports.Free

// Ports finds ports that are free, and gives none of them twice in a run.
func Ports(t testing.TB, n int) []int {
	t.Helper()
	found, err := free.Take(n)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Port finds one free port and returns it as text.
func Port(t testing.TB) string {
	t.Helper()
	return strconv.Itoa(Ports(t, 1)[0])
}

// Shipped writes the configuration that people start from to a file of the test, after some
// replacements: each text by the one behind it. It fails if one of them is not there.
func Shipped(t testing.TB, pairs ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(), "xcaddy.Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(path, []byte(Replaced(t, string(text), pairs...)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Replaced replaces texts in a configuration, each by the one behind it. It fails if one of them is not there.
func Replaced(t testing.TB, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("no %q in the configuration", pairs[i])
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// ProxyBlock and AppBlock are where the shipped configuration has its options of purser_proxy and of the app.
const (
	ProxyBlock = "purser_proxy {\n"
	AppBlock   = "\n\tpurser {\n"
)
