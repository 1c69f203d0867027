package perclient

import (
	"testing"
	"time"
)

func TestLimiter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	l := NewLimiter[string](3, 60)
	for range 3 {
		if wait := l.Take("a", 1, now); wait != 0 || l.Take("b", 1, now) != 0 {
			t.Fatalf("waits %s", wait)
		}
	}
	for n := 1; n <= 3; n++ {
		if wait := l.Take("a", n, now); wait != time.Duration(n)*time.Second {
			t.Errorf("%d turns in %s", n, wait)
		}
	}
	if wait := l.Wait("a", now); wait != time.Second || l.Wait("c", now) != 0 {
		t.Errorf("waits %s", wait)
	}
	now = now.Add(2 * time.Second)
	if l.Wait("a", now) != 0 || l.Take("a", 2, now) != 0 || l.Take("a", 1, now) != time.Second {
		t.Error("refused turns were taken")
	}
	if NewLimiter[string](1, -1).Take("a", 1, now) != 0 {
		t.Error("no limit is a limit")
	}
}

// A flood makes a client begin anew only if it outnumbers those that are remembered.
func TestLimiterIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := NewLimiter[int](1, 1)
	for i := range 3 * maxClients {
		if l.Take(i, 1, now) != 0 {
			t.Fatalf("%d waits", i)
		}
		if i%(maxClients/2) == 0 && l.Take(-1, 1, now) == 0 && i > 0 {
			t.Fatalf("forgotten after %d others", i)
		}
	}
	if n := l.clients.Len(); n != maxClients {
		t.Errorf("%d clients", n)
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	m := NewMemory[int, string](2)
	add := func(client string, name int, value string) string {
		return m.GetOrAdd(client, name, func() string { return value })
	}
	if add("a", 1, "x") != "x" || add("a", 1, "y") != "x" || m.Get("b", 1) != "" {
		t.Error("a value was replaced, or is another client's")
	}
	add("a", 2, "two")
	m.Get("a", 1)
	add("a", 3, "three")
	if m.Get("a", 1) != "x" || m.Get("a", 2) != "" || m.Get("a", 3) != "three" {
		t.Error("not the value that was unused the longest was forgotten")
	}
	if m.Set("a", 3, "3"); m.Get("a", 3) != "3" {
		t.Error("not replaced")
	}
	add("a", 4, "new")
	m.Prune("a", func(v string) bool { return v != "new" })
	m.Prune("c", func(string) bool { return true })
	if m.Get("a", 3) != "" || m.Get("a", 4) != "new" {
		t.Error("not the old values were forgotten")
	}
	m.Remove("a", 4)
	m.Remove("b", 3)
	if n := m.clients.Len(); n != 0 {
		t.Errorf("%d clients without values", n)
	}
	for i := range maxClients + 10 {
		add(string(rune(i)), i, "v")
	}
	if n := m.clients.Len(); n != maxClients {
		t.Errorf("%d clients", n)
	}
}
