package simulation

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

var (
	seeds   = flag.Int("simulation.seeds", 60, "how many seeds are run")
	first   = flag.Uint64("simulation.seed", 1, "the first seed")
	step    = flag.Uint64("simulation.step", 1, "the distance of a seed from the next one")
	workers = flag.Int("simulation.workers", 1, "how many processes share the seeds")
	tell    = flag.Bool("simulation.tell", false, "print the story of each run")
	quiet   = flag.Bool("simulation.quiet", false, "print no story of a violation")
	one     = flag.Bool("simulation.first", false, "stop at the first violation")
	again   = flag.Int("simulation.again", 10, "of so many runs each is run twice, and must be the same; 0: none")
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

// TestFormerFailures runs each seed that has found a fault of purser in the world as it is. A change of the world makes
// others of them: then they show nothing any more.
func TestFormerFailures(t *testing.T) {
	for _, seed := range []uint64{1283, 2369, 10846, 12028, 19858} {
		for _, b := range run(t, fmt.Sprint("seed ", seed), seed).broken {
			t.Errorf("seed %d: %s", seed, b)
		}
	}
}

// tellEvery is the time between two lines of progress.
const tellEvery = 10 * time.Second

func TestSeeds(t *testing.T) {
	if *workers > 1 {
		share(t)
		return
	}
	began, told := time.Now(), time.Now()
	count, moves, lives, other := 0, 0, 0, 0
	for i := range *seeds {
		seed := *first + uint64(i)**step
		r := run(t, fmt.Sprint("seed ", seed), seed)
		count, moves, lives = count+1, moves+r.moves, lives+r.lives
		if *tell || len(r.broken) > 0 && !*quiet {
			fmt.Printf("the story of seed %d, which `make simulate SEED=%d` tells again\n%s", seed, seed, r.story)
		}
		for _, b := range r.broken {
			t.Errorf("seed %d: %s", seed, b)
		}
		if t.Failed() && *one {
			break
		}
		if *again > 0 && i%*again == 0 {
			if second := run(t, fmt.Sprint("seed ", seed, " again"), seed); second.hash != r.hash {
				other++
				t.Errorf("seed %d does not repeat: %s", seed, differ(r.story, second.story))
			}
		}
		if time.Since(told) > tellEvery {
			told = time.Now()
			fmt.Printf("%d of %d seeds …\n", count, *seeds)
		}
	}
	fmt.Printf("%d seeds from %d, %d payments moved money, %d pursers lived, %d seeds did not repeat, in %v\n",
		count, *first, moves, lives, other, time.Since(began).Round(time.Second))
}

// share has processes share the seeds: in each of them one goroutine runs at a time.
func share(t *testing.T) {
	t.Helper()
	program := must(os.Executable())
	var all sync.WaitGroup
	for i := range *workers {
		arguments := []string{
			"-test.run=^TestSeeds$", "-test.timeout=0", fmt.Sprint("-simulation.seed=", *first+uint64(i)), fmt.Sprint("-simulation.step=", *workers),
			fmt.Sprint("-simulation.seeds=", (*seeds+*workers-1-i) / *workers), fmt.Sprint("-simulation.again=", *again),
			fmt.Sprint("-simulation.quiet=", *quiet), fmt.Sprint("-simulation.first=", *one),
		}
		all.Go(func() {
			worker := exec.CommandContext(t.Context(), program, arguments...) //nolint:gosec // this program
			worker.Stdout, worker.Stderr = os.Stdout, os.Stderr
			if err := worker.Run(); err != nil {
				t.Errorf("worker %d: %v", i, err)
			}
		})
	}
	all.Wait()
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
