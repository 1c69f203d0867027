// Command bench measures purser side by side with its alternatives, on loopback, in one run: `make
// bench`. Absolute numbers depend on the machine. It therefore prints ratios between programs that
// ran one after the other, beside the budgets of the design.
//
// Load, sellers and the facilitator run in this process. purser, Caddy and Node are separate
// processes, whose CPU time is read from the system. A case that cannot run says why, and the
// others go on: a missing program does not fail the build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/purserpay/purser/e2e/internal/figures"
)

const (
	resultsFile = "bench/results.json" // below the working directory, the root of the repository
	maxSeconds  = 30
	maxEvents   = 10_000_000
)

// options holds the command line.
type options struct {
	seconds float64
	events  int
	dir     string
	profile string
	cases   string
}

func main() {
	if os.Getenv(bareVariable) != "" {
		if err := buyBare(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.Float64Var(&o.seconds, "seconds", 1.5, fmt.Sprintf("length of each measurement, up to %d", maxSeconds))
	flag.IntVar(&o.events, "events", 1_000_000, "longest spend history, up to 10000000, which takes long")
	flag.StringVar(&o.dir, "dir", "bin", "folder on the disk to measure with; a temporary folder is made in it")
	flag.StringVar(&o.profile, "profile", "", "write CPU profiles of paid and unpaid requests, at the proxy and the sidecar, to this folder")
	flag.StringVar(&o.cases, "cases", "", "only these cases, separated by commas: "+strings.Join(caseNames(), ", "))
	flag.Parse()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench: not measured:", err)
	}
}

// run measures all cases. An error means that nothing could be measured.
func run(ctx context.Context, o options) error {
	if o.seconds < 0.1 || o.seconds > maxSeconds {
		return fmt.Errorf("-seconds %g: between 0.1 and %d", o.seconds, maxSeconds)
	}
	if o.events < 2*shortHistory || o.events > maxEvents {
		return fmt.Errorf("-events %d: between %d and %d", o.events, 2*shortHistory, maxEvents)
	}
	chosen, err := choose(o.cases)
	if err != nil {
		return err
	}
	root, err := toRoot(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil { //nolint:gosec // PostgreSQL's user passes through it
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "bench-")
	if err != nil {
		return err
	}
	b := &bench{options: o, dir: dir, length: time.Duration(o.seconds * float64(time.Second)), report: newReport(ctx, o)}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			b.say("left behind: %v", err)
		}
	}()
	if b.seller, err = startSeller(&b.received); err != nil {
		return err
	}
	defer b.seller.close()
	if b.report.FsyncMS, err = fsyncTime(dir); err != nil {
		return err
	}
	b.say("building purser")
	if b.binary, err = build(ctx, dir); err != nil {
		return err
	}
	for _, c := range chosen {
		b.say("%s", c.title)
		if err := c.run(ctx, b); err != nil {
			b.report.skip(c.name, err.Error())
		}
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
	}
	b.report.hide(root)
	b.report.compare()
	b.report.print(os.Stdout)
	if err := b.report.save(resultsFile); err != nil {
		return fmt.Errorf("results were printed, not saved: %w", err)
	}
	fmt.Println("\nsaved as", resultsFile)
	if o.cases != "" {
		return nil
	}
	if b.report.storms, err = figures.ReadStorms("."); err != nil {
		return fmt.Errorf("the figures of `make storms`: %w", err)
	}
	return b.report.draw(docsFolder)
}

// bench holds the parts that all cases share.
type bench struct {
	options

	dir    string
	binary string
	length time.Duration // of one measurement
	seller *seller
	report *report
	// received counts what seller and agents got from the program under test, in bytes.
	received atomic.Int64
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+" …\n", args...)
}

// benchCase is one thing to measure.
type benchCase struct {
	name, title string
	run         func(context.Context, *bench) error
}

var cases = []benchCase{
	{"paid", "paid requests through purser's proxy, and by the reference clients", runPaid},
	{"free", "pass-through of a free route, and of a free tool of MCP", runFree},
	{"memory", "memory around a load", runMemory},
	{"idle", "memory with idle agents", runIdle},
	{"start", "start with open payments", runStart},
	{"size", "file of settled payments", runSize},
	{"stores", "the stores alone, and pgbench", runStores},
	{"rest", "POST /v1/pay, settled by a facilitator", runREST},
	{"history", "a key with a long history", runHistory},
}

func caseNames() []string {
	var names []string
	for _, c := range cases {
		names = append(names, c.name)
	}
	return names
}

// choose finds the cases of a list. An empty list means all.
func choose(list string) ([]benchCase, error) {
	if list == "" {
		return cases, nil
	}
	wanted := map[string]bool{}
	for _, name := range strings.Split(list, ",") {
		wanted[strings.TrimSpace(name)] = true
	}
	var chosen []benchCase
	for _, c := range cases {
		if wanted[c.name] {
			chosen = append(chosen, c)
			delete(wanted, c.name)
		}
	}
	for name := range wanted {
		return nil, fmt.Errorf("-cases: no case %q; there are %s", name, strings.Join(caseNames(), ", "))
	}
	return chosen, nil
}

// toRoot changes to the root of the repository. The command may be started in any of its folders.
func toRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(out)))
	if _, err := os.Stat(filepath.Join(root, "cmd", "purser")); err != nil {
		return "", errors.New("start it inside purser's repository: go run ./e2e/bench")
	}
	return root, os.Chdir(root)
}

// build compiles cmd/purser, unless PURSER_BIN names a binary to measure.
func build(ctx context.Context, dir string) (string, error) {
	if binary := os.Getenv("PURSER_BIN"); binary != "" {
		return filepath.Abs(binary)
	}
	binary, err := filepath.Abs(filepath.Join(dir, "purser"))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/purser") //nolint:gosec // into our own folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/purser: %w\n%s", err, out)
	}
	return binary, nil
}
