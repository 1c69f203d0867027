package kills

import (
	"errors"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/failpoint"
)

// purser is the program under test, which ends itself at places (see failpoint.KillAt).
type purser struct{ *process.Purser }

// spawn starts the program, which ends itself at a place, if one is given.
func (p *purser) spawn(t *testing.T, at string, more ...string) {
	t.Helper()
	p.Launch(t, append(more, failpoint.KillAt+"="+at)...)
}

// start runs the program until it answers. It reports false if the program died before that.
func (p *purser) start(t *testing.T, at string, more ...string) bool {
	t.Helper()
	p.spawn(t, at, more...)
	return p.answers(t)
}

// answers waits until the program answers, or has died.
func (p *purser) answers(t *testing.T) bool {
	t.Helper()
	err := p.Await(p.URL("/"))
	if errors.Is(err, process.ErrEnded) {
		p.requireKilled(t)
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// dies waits for the program to end itself, and reports whether it has.
func (p *purser) dies(t *testing.T, patience time.Duration) bool {
	t.Helper()
	died := p.EndsWithin(patience)
	if died {
		p.requireKilled(t)
	}
	return died
}

// requireKilled fails the test if the program ended for another reason than SIGKILL.
func (p *purser) requireKilled(t *testing.T) {
	t.Helper()
	if !p.Killed() {
		t.Fatalf("purser ended by itself: %v", p.Cmd.ProcessState)
	}
}
