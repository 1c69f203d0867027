package attacks

import (
	"bytes"
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purserpay/purser/sandbox/hostile"
)

// Every attack has its own name, says what it tries and what must hold, and consists of existing
// scenarios that fit its customers.
func TestAttacks(t *testing.T) {
	t.Parallel()
	there := map[string]bool{otherPayee().Name: true}
	for _, s := range hostile.Scenarios() {
		there[s.Name] = true
	}
	all := attacks(true)
	name := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen, played := map[string]bool{}, map[string]bool{}
	for _, a := range all {
		if !name.MatchString(a.name) || seen[a.name] || a.tries == "" || a.group == "" {
			t.Errorf("%q of %q tries %q, twice: %v", a.name, a.group, a.tries, seen[a.name])
		}
		seen[a.name] = true
		if (a.run == nil) == (len(a.plays) == 0) || (a.holds == "") == (len(a.plays) > 0) {
			t.Errorf("%s: %d plays, holds %q", a.name, len(a.plays), a.holds)
		}
		for _, p := range a.plays {
			played[p.scenario.Name] = true
			if !there[p.scenario.Name] || !p.scenario.Fits(p.door, p.custom) {
				t.Errorf("%s: %s", a.name, p)
			}
		}
	}
	for _, s := range hostile.Scenarios() {
		if s.RPC == nil && !played[s.Name] && !outlasts(s) {
			t.Errorf("nobody plays %q", s.Name)
		}
	}
	if !slices.IsSortedFunc(all, func(a, b attack) int {
		return slices.Index(groups, a.group) - slices.Index(groups, b.group)
	}) {
		t.Error("the groups are mixed up")
	}
}

func TestChosen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names []string
		want  int // 0: an error
	}{
		{nil, len(attacks(false))},
		{[]string{"killed"}, 1},
		{[]string{"killed", "check"}, 2},
		{[]string{books}, len(bookAttacks())},
		{[]string{books, "check"}, len(bookAttacks())},
		{[]string{"kill"}, 0},
		{[]string{"killed", ""}, 0},
	} {
		list, err := selectAttacks(attacks(false), c.names)
		if (err == nil) != (c.want > 0) || err == nil && len(list) != c.want {
			t.Errorf("%q: %d attacks, %v", c.names, len(list), err)
		}
	}
}

// A purser that has ended by itself holds nothing.
func TestNothingHoldsOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	close(done)
	main := &purser{setup: &setup{}, done: done}
	e := &examination{world: &world{pursers: []*purser{main}}, main: main}
	for _, a := range attacks(false) {
		if !a.last {
			continue
		}
		if f := e.attack(t.Context(), a); f.Result != Unmade {
			t.Errorf("%s: %s %s", a.name, f.Result, f.Says)
		}
	}
}

// A limit of each clock minute allows a flood twice the limit when a minute ends meanwhile.
func TestFloodOverTheEndOfAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 100
		time.Sleep(58700 * time.Millisecond)
		var mu sync.Mutex
		perMinute := map[int]int{}
		made, took, refused := flood(limit, func(int64) bool {
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			perMinute[time.Now().Minute()]++
			return perMinute[time.Now().Minute()] > limit
		})
		if !refused {
			t.Errorf("%d requests in %s are said to be too many", made, took)
		}
		if made, took, refused := flood(limit, func(int64) bool { return false }); refused || made > 3*limit {
			t.Errorf("without a limit: %d requests in %s, refused %v", made, took, refused)
		}
	})
}

// An order costs at least its amount, and little more.
func TestOrder(t *testing.T) {
	t.Parallel()
	for amount, want := range map[int64]uint64{0: 0, 1: 1, 10: 1, 11: 2, 1_000_000: 100_000, 1_000_001: 100_001} {
		if got := order(big.NewInt(amount)); got != want {
			t.Errorf("%d: order %d, want %d", amount, got, want)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := Report{Changes: []Change{}}
	r.add(Finding{Group: "g", Attack: "a", Result: Held})
	if text := r.Summary(); !strings.HasPrefix(text, "1 held, 0 failed, 0 off") || strings.Contains(text, "do not") {
		t.Errorf("%s", text)
	}
	r.add(Finding{Group: "g", Attack: "b", Result: Unmade})
	if text := r.Summary(); !strings.Contains(text, "1 could not be made") {
		t.Errorf("%s", text)
	}
	r.add(Finding{Group: "g", Attack: "c", Result: Failed, Says: "so it was", Story: []string{"first", "second\nline"}})
	if text := r.Summary(); !strings.Contains(text, "do not let this purser handle money") {
		t.Errorf("%s", text)
	}
	var out bytes.Buffer
	WriteFinding(&out, r.Findings[2])
	if out.String() != "FAIL  c                  so it was\n        first\n        second\n        line\n" {
		t.Errorf("%q", out.String())
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(text, &back); err != nil || back["failed"] != 1.0 || back["unmade"] != 1.0 || back["test_build"] != false {
		t.Errorf("%v in %s", err, text)
	}
	healthy := Report{TestBuild: true}
	healthy.add(Finding{Result: Held})
	if text := healthy.Summary(); !strings.Contains(text, "test build") {
		t.Errorf("%s", text)
	}
	out.Reset()
	if healthy.WriteHead(&out, "/bin/purser"); !strings.Contains(out.String(), "/bin/purser") || !strings.Contains(out.String(), testBuild) {
		t.Errorf("%s", out.String())
	}
}

// Secrets are found in each form that they are sent in, and not repeated.
func TestLeaks(t *testing.T) {
	t.Parallel()
	const key = "pk_0123456789"
	for text, n := range map[string]int{
		"nothing here": 0, "user=" + key: 1, "Basic cGtfMDEyMzQ1Njc4OTo=": 1, "x " + key + " " + key: 1,
	} {
		story := leaks("it", text, []string{key})
		if len(story) != n || strings.Contains(strings.Join(story, ""), key) {
			t.Errorf("%q: %q", text, story)
		}
	}
}
