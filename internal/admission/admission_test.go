package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func full(err error) bool {
	_, ok := errors.AsType[*FullError](err)
	return ok
}

// must takes a place at once, or fails the test.
func (g *Gate) must(t *testing.T, who string) (leave func()) {
	t.Helper()
	leave, err := g.Enter(t.Context(), who)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

// empty checks that the gate forgets idle parties.
func (g *Gate) empty(t *testing.T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside != 0 || g.queued != 0 || len(g.parties) != 0 || g.queue.Len() != 0 {
		t.Errorf("left: %d inside, %d queued, %d parties, %d turns", g.inside, g.queued, len(g.parties), g.queue.Len())
	}
}

func TestNoBounds(t *testing.T) {
	t.Parallel()
	g := New(Options{Concurrent: -1})
	for range 10_000 {
		g.must(t, "a")
	}
}

func TestWaitAndQueueAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Int32
		g := New(Options{Concurrent: 4, Queued: 2, Wait: 100 * time.Millisecond, Refused: func() { refused.Add(1) }})
		leave := []func(){g.must(t, "a"), g.must(t, "a"), g.must(t, "a")} // its share
		began := time.Now()
		if _, err := g.Enter(t.Context(), "a"); !full(err) {
			t.Fatal(err)
		}
		if d := time.Since(began); d != 100*time.Millisecond {
			t.Errorf("waited %s", d)
		}
		leave = append(leave, g.must(t, "b")) // another party has room
		var waiting sync.WaitGroup
		for range 2 {
			waiting.Go(func() {
				if _, err := g.Enter(t.Context(), "a"); !full(err) {
					t.Error(err)
				}
			})
		}
		wait(t, func() bool { return g.waiting() == 2 })
		began = time.Now()
		if _, err := g.Enter(t.Context(), "a"); !full(err) || time.Since(began) > 0 {
			t.Errorf("the queue is full: %v after %s", err, time.Since(began))
		}
		waiting.Wait()
		if refused.Load() != 4 {
			t.Errorf("%d refused", refused.Load())
		}
		for _, l := range leave {
			l()
		}
		g.empty(t)
	})
}

func (g *Gate) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.queued
}

func wait(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time")
		}
	}
}

// A flood from one party takes neither all places nor all of the queue. Its last waiter makes room
// for another party, and the parties take turns.
func TestPartiesTakeTurns(t *testing.T) {
	t.Parallel()
	g := New(Options{Concurrent: 4, Queued: 10, Wait: 10 * time.Second})
	inside := make(chan string, 100)
	goOn := make(chan struct{})
	var all sync.WaitGroup
	enter := func(who string) {
		all.Go(func() {
			leave, err := g.Enter(t.Context(), who)
			if err != nil {
				if who != "flood" || !full(err) {
					t.Errorf("%s: %v", who, err)
				}
				return
			}
			inside <- who
			<-goOn
			leave()
		})
	}
	for range 3 {
		enter("flood")
		<-inside
	}
	enter("other") // the place outside the flood's share
	if got := <-inside; got != "other" {
		t.Fatal(got)
	}
	for i := range 10 {
		enter("flood")
		wait(t, func() bool { return g.waiting() == i+1 })
	}
	for _, who := range []string{"one", "two", "three"} { // although the queue is full
		enter(who)
		wait(t, func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.parties[who] != nil && g.queued == 10
		})
	}
	// The places become free one after the other.
	var order []string
	for range 6 {
		goOn <- struct{}{}
		order = append(order, <-inside)
	}
	if got := fmt.Sprint(order); got != "[flood one two three flood flood]" {
		t.Errorf("let in %s", got)
	}
	close(goOn)
	all.Wait()
	g.empty(t)
}

func TestWhoeverLeavesTheQueueKeepsNoPlace(t *testing.T) {
	t.Parallel()
	g := New(Options{Concurrent: 1})
	leave := g.must(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := g.Enter(ctx, "b")
		done <- err
	}()
	wait(t, func() bool { return g.waiting() == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	leave()
	g.empty(t)
}

// Under concurrency, never more callers are inside than allowed, and none waits for ever.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	g := New(Options{Concurrent: 8, Queued: 16, Wait: 2 * time.Millisecond})
	var inside, ofOne, entered atomic.Int32
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			who := fmt.Sprint("p", i%5*(i%3))
			for j := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(j%4)*time.Millisecond)
				leave, err := g.Enter(ctx, who)
				cancel()
				if err != nil {
					continue
				}
				entered.Add(1)
				if n := inside.Add(1); n > 8 {
					t.Errorf("%d inside", n)
				}
				if who == "p0" {
					if n := ofOne.Add(1); n > 6 {
						t.Errorf("%d of one party", n)
					}
				}
				time.Sleep(50 * time.Microsecond)
				if who == "p0" {
					ofOne.Add(-1)
				}
				inside.Add(-1)
				leave()
			}
		})
	}
	all.Wait()
	if entered.Load() == 0 {
		t.Error("nobody got in")
	}
	g.empty(t)
}
