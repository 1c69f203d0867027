package faults

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/sandbox/evm"
)

var (
	runs      = flag.Int("faults.runs", setting("PURSER_FAULTS_RUNS", 1), "how many random runs there are")
	everybody = flag.Bool("faults.all", setting("PURSER_FAULTS_ALL", 0) != 0, "every kind of customer at every door")
	seed      = flag.Uint64("faults.seed", uint64(setting("PURSER_FAULTS_SEED", 0)), "seed of the first random run; 0 draws one")
)

// setting reads a number from the environment.
func setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// patience bounds every wait of the tests.
const patience = 2 * time.Minute

// parallel is the number of tests that run at once: they wait for blocks and time limits, not for a processor.
const parallel = "64"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if dir := binaries.dir; dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// clock is a clock that can be turned.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time       { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) turn(d time.Duration) { c.ahead.Add(int64(d)) }

// ground is a chain with a clock that it shares with those on it.
type ground struct {
	chain *evm.Chain
	clock *clock
}

func newGround(t *testing.T) *ground {
	t.Helper()
	g := &ground{clock: &clock{}}
	var err error
	if g.chain, err = evm.Start(context.Background(), evm.Options{Now: g.clock.now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.chain.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// pass lets time go by for everybody on the chain, and returns when the chain shows it.
func (g *ground) pass(t *testing.T, d time.Duration) {
	t.Helper()
	g.clock.turn(d)
	if err := g.chain.Mine(bounded(t)); err != nil {
		t.Fatal(err)
	}
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually asks until the answer is "" or the time is over, and then fails with the last answer.
func eventually(t *testing.T, limit time.Duration, ask func() string) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		problem := ask()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", limit, problem)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
