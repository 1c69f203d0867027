package kills

import (
	"context"
	"sync"
	"testing"

	"github.com/purserpay/purser/sandbox/evm"
)

// worldsPerChain bounds how long a chain gets: events are found by looking through its blocks.
const worldsPerChain = 20

// pool lends chains to worlds.
type pool struct {
	mu   sync.Mutex
	last *lent
}

var chains pool

// lent is a chain, the worlds that are on it, and those that ever were.
type lent struct {
	*evm.Chain
	users, ever int
}

// lend gives a test a chain for as long as it runs.
func (p *pool) lend(t *testing.T) *evm.Chain {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil || p.last.ever == worldsPerChain {
		if err := p.retire(); err != nil {
			t.Error(err)
		}
		c, err := evm.Start(context.Background(), evm.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p.last = &lent{Chain: c}
	}
	l := p.last
	l.users++
	l.ever++
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if l.users--; l.users == 0 && l != p.last {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return l.Chain
}

// retire closes the last chain unless a world is on it, which then does.
func (p *pool) retire() error {
	l := p.last
	p.last = nil
	if l == nil || l.users > 0 {
		return nil
	}
	return l.Close()
}

func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.retire()
}
