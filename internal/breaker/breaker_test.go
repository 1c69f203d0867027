package breaker

import (
	"errors"
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	t.Parallel()
	b := New(Options{Failures: 3, Wait: 10 * time.Second, MaxWait: 30 * time.Second})
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	allowed := func(want bool) {
		t.Helper()
		_, err := b.Allow(now)
		if (err == nil) != want {
			t.Fatalf("allowed: %v", err)
		}
		if _, ok := errors.AsType[*OpenError](err); err != nil && !ok {
			t.Fatalf("%T", err)
		}
	}
	fail := func(opened bool) {
		t.Helper()
		if b.Failed(now) != opened {
			t.Fatalf("opened, want %t", opened)
		}
	}
	// These failures are not in a row.
	fail(false)
	fail(false)
	if b.Succeeded() {
		t.Fatal("it was not open")
	}
	fail(false)
	fail(false)
	allowed(true)
	fail(true)
	allowed(false)
	if got := b.State(now).Error(); got != "failed 3 times in a row, and is asked again in 10s" {
		t.Error(got)
	}
	// A failure of an earlier attempt changes nothing.
	now = now.Add(9 * time.Second)
	fail(false)
	fail(false)
	allowed(false)
	now = now.Add(time.Second)
	if b.State(now) == nil {
		t.Fatal("looking lets nothing through, and closes nothing")
	}
	allowed(true)
	allowed(false) // one at a time
	// The probe was not made, so the next one is allowed.
	b.Unused(now)
	allowed(true)
	fail(false)
	now = now.Add(19 * time.Second)
	allowed(false)
	now = now.Add(time.Second)
	allowed(true)
	// The outcome of this probe is never reported.
	now = now.Add(20 * time.Second)
	allowed(true)
	fail(false)
	now = now.Add(29 * time.Second)
	allowed(false)
	now = now.Add(time.Second) // no longer than MaxWait
	allowed(true)
	if !b.Succeeded() || b.State(now) != nil {
		t.Fatal("a success closes it")
	}
	allowed(true)
	allowed(true)
	fail(false)
	fail(false)
	fail(true)
	now = now.Add(10 * time.Second) // as in the beginning
	allowed(true)
}
