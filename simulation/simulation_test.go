package simulation

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

var (
	seeds = flag.Int("simulation.seeds", 60, "how many seeds are run")
	first = flag.Uint64("simulation.seed", 1, "the first seed")
	tell  = flag.Bool("simulation.tell", false, "print the story of each run")
	quiet = flag.Bool("simulation.quiet", false, "tell no story of a violation")
	again = flag.Int("simulation.again", 10, "each of so many runs is run twice, and must be the same")
)

// TestMain runs on one processor: goroutines that run at once would take turns that no seed decides.
func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// scratch returns a folder in memory, if there is one: the disk that tests tear is no faster on a real one.
func scratch(t *testing.T) string {
	t.Helper()
	parent := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		parent = "/dev/shm"
	}
	dir, err := os.MkdirTemp(parent, "purser-simulation-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// report holds the end of a run.
type report struct {
	story  string
	hash   [32]byte
	broken []string
	moves  int
	lives  int
	steps  int
}

// run runs a seed.
func run(t *testing.T, name string, seed uint64) (r report) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		dir := scratch(t)
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, dir)
			w.play()
			r.story, r.hash = w.conductor.story()
			r.broken, r.moves, r.lives, r.steps = w.broken, len(w.chain.moved()), w.lives, w.conductor.lines
		})
	})
	return r
}

func TestSeeds(t *testing.T) {
	began := time.Now()
	moves, lives, other := 0, 0, 0
	for i := range *seeds {
		seed := *first + uint64(i)
		r := run(t, fmt.Sprint("seed ", seed), seed)
		moves, lives = moves+r.moves, lives+r.lives
		if *tell || len(r.broken) > 0 && !*quiet {
			t.Logf("the story of seed %d\n%s", seed, r.story)
		}
		for _, b := range r.broken {
			t.Errorf("seed %d: %s", seed, b)
		}
		if *again > 0 && i%*again == 0 {
			if second := run(t, fmt.Sprint("seed ", seed, " again"), seed); second.hash != r.hash {
				other++
				t.Errorf("seed %d does not repeat: %s", seed, differ(r.story, second.story))
			}
		}
	}
	t.Logf("%d seeds, %d transfers, %d pursers, %d that did not repeat, in %v", *seeds, moves, lives, other, time.Since(began).Round(time.Second))
}

// differ returns the first lines in which two stories differ.
func differ(a, b string) string {
	one, two := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(one), len(two)) {
		if one[i] != two[i] {
			return fmt.Sprintf("line %d\n%s\n%s", i+1, one[i], two[i])
		}
	}
	return fmt.Sprintf("%d and %d lines", len(one), len(two))
}
