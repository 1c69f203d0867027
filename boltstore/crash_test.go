package boltstore

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
)

// crashEnv makes the test binary a process that is going to be killed.
const crashEnv = "PURSER_BOLTSTORE_CRASH"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashEnv); dir != "" {
		if err := load(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(rewriteEnv); dir != "" {
		fmt.Fprintln(os.Stderr, rewriteOn(dir, os.Getenv(rewriteHowEnv)))
		os.Exit(1)
	}
	// Small bounds let a few rows be more than one transaction takes, and short pauses let tests
	// wait for things instead of time. The model of pay/storetest runs at full length on
	// pay/memory; -rapid.checks lengthens it here.
	scanRows, mergedKeys = 100, 25
	journalRoom = 512 << 10 // so that there are checkpoints
	lockWait, retryEvery, diskCheck = 200*time.Millisecond, 20*time.Millisecond, 10*time.Millisecond
	flag.Parse()
	long := false
	flag.Visit(func(f *flag.Flag) { long = long || f.Name == "rapid.checks" })
	if !long {
		if err := flag.Set("rapid.checks", "25"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// load pays until it is killed, and says what it was promised: "<state> <payment>".
func load(dir string) error {
	d, err := Open(context.Background(), inFolder(dir))
	if err != nil {
		return err
	}
	failed := make(chan error)
	for i := range 8 {
		go func() { failed <- payOn(d, i) }()
	}
	return <-failed
}

// payOn pays with every kind of outcome in turn. Standard output takes one line as one
// write, so lines of several callers do not mix.
func payOn(d *DB, i int) error {
	ctx := context.Background()
	for n := i; ; n++ {
		b, err := d.Begin(ctx, call(fmt.Sprintf("key-%d", i%3)))
		if err != nil {
			return err
		}
		fmt.Printf("%s %s\n", pay.Open, b.Payment.ID)
		o := settlement(b.Payment)
		o.Verdict = []pay.Verdict{pay.VerdictSettled, pay.VerdictVoid, pay.VerdictRefused, pay.Unclear}[n%4]
		p, _, err := d.Record(ctx, o)
		if err != nil {
			return err
		}
		fmt.Printf("%s %s\n", p.State, p.ID)
	}
}

// TestKilled kills a process in the middle of its payments, again and again, and
// demands that everything it was promised is there and that the books agree.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	promised := map[string]pay.State{}
	for round := range 4 {
		kill(t, dir, 100+61*round, promised)

		d := openIn(t, inFolder(dir))
		checked(t, d)
		for id, state := range promised {
			p, err := d.Payment(t.Context(), id)
			if err != nil {
				t.Fatalf("promised payment %s: %v", id, err)
			}
			// What came after the promise may have been written without being told.
			if p.State != state && state != pay.Open {
				t.Errorf("payment %s is %s, promised was %s", id, p.State, state)
			}
			if p.Lease.Owner != "" {
				t.Errorf("payment %s is still leased", id)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// kill runs a process until it made so many promises, and kills it.
func kill(t *testing.T, dir string, after int, promised map[string]pay.State) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashEnv+"="+dir)
	child.Stderr = os.Stderr
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines, killed := bufio.NewScanner(stdout), false
	n := 0
	for lines.Scan() {
		state, id, ok := strings.Cut(lines.Text(), " ")
		if !ok || len(id) != 36 {
			continue // cut off by the kill
		}
		promised[id] = pay.State(state)
		if n++; n >= after && !killed {
			killed = true
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || !killed {
		t.Fatalf("the process ended by itself after %d promises: %v", n, err)
	}
}
