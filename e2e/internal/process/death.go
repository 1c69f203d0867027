package process

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
)

// Death is a way for a purser to be killed.
type Death struct {
	At    string        // "" or a place with its turn, see failpoint.KillAt: there a test build ends itself
	After time.Duration // of the start: then it is killed from outside
}

func (d Death) String() string { return fmt.Sprintf("%q or after %v", d.At, d.After) }

// Deaths bounds what Draw draws.
type Deaths struct {
	Places []string
	// Turns bounds how often a place is passed, and Passes how often all places are, until purser dies there.
	Turns, Passes int
	// Within bounds the time until it is killed from outside.
	Within time.Duration
}

// Draw picks one: at a random time, at a random pass of a random place, or at a random pass of any place.
func (d Deaths) Draw(luck *rand.Rand) Death {
	switch luck.IntN(3) {
	case 0:
		return Death{fmt.Sprintf("%s:%d", d.Places[luck.IntN(len(d.Places))], 1+luck.IntN(d.Turns)), d.Within}
	case 1:
		return Death{fmt.Sprintf("%s:%d", failpoint.Anywhere, 1+luck.IntN(d.Passes)), d.Within}
	}
	return Death{After: time.Duration(luck.Int64N(int64(d.Within)))}
}

// LaunchFor starts a test build that may end itself as it was drawn.
func (p *Purser) LaunchFor(t testing.TB, d Death) {
	t.Helper()
	p.Launch(t, failpoint.KillAt+"="+d.At)
}

// Die lets a program that runs die as it was drawn, and reports whether it has ended itself.
func (p *Purser) Die(t testing.TB, d Death) (byItself bool) {
	t.Helper()
	if !p.EndsWithin(d.After) {
		p.Kill()
		return false
	}
	if !p.Killed() {
		t.Fatalf("purser ended by itself: %v", p.Cmd.ProcessState)
	}
	return true
}
