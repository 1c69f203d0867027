package faults

import (
	"context"
	"flag"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/evm"
	"github.com/purserpay/purser/sandbox/token"
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

// patience bounds every wait of the tests. It only keeps them from waiting for ever: no verdict hangs on it.
const patience = 5 * time.Minute

// parallel is the number of tests that run at once: they wait for blocks and for payments to expire more than for a
// processor, but must not take it from each other either.
const parallel = 24

func TestMain(m *testing.M) { os.Exit(process.Main(m, parallel)) }

// ground is a chain with a clock that it shares with those on it.
type ground struct {
	chain token.Chain
	clock *process.Clock
	mine  func(context.Context) error // makes a block by the clock's time
}

// newGround makes a chain without an EVM, which answers at once however many there are.
func newGround(t *testing.T) *ground {
	t.Helper()
	clock := process.NewClock(t)
	return &ground{process.StartLedger(t, clock), clock, func(context.Context) error { return nil }} // its blocks follow the clock
}

// realGround makes a chain with an EVM and the contract that everybody uses.
func realGround(t *testing.T) *ground {
	t.Helper()
	clock := process.NewClock(t)
	c, err := evm.Start(context.Background(), evm.Options{Now: clock.Now})
	process.CloseAtEnd(t, c, err)
	return &ground{c, clock, c.Mine}
}

// pass lets time go by for everybody on the chain, and returns when the chain shows it.
func (g *ground) pass(t *testing.T, d time.Duration) {
	t.Helper()
	g.clock.Forward(t, d)
	if err := g.mine(bounded(t)); err != nil {
		t.Fatal(err)
	}
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
