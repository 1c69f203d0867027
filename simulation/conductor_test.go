package simulation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// errDied is all that a purser hears of the world after its death.
var errDied = errors.New("this purser is dead")

// conductor decides in which order calls go on that wait at borders.
type conductor struct {
	luck  *rand.Rand
	began time.Time

	mu     sync.Mutex
	parked []*crossing
	parks  uint64
	log    strings.Builder
	lines  int
}

// crossing is one call that waits at a border.
type crossing struct {
	node   *node
	actor  string // for whom
	place  string
	number uint64
	stuck  time.Time // the call does not go on before
	// turn brings the luck with which the call goes on; it is closed if the call must fail because its purser
	// is dead.
	turn chan uint64
}

type actorKey struct{}

// acting names for whom the calls of a context are.
func acting(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

func actorOf(ctx context.Context) string {
	name, _ := ctx.Value(actorKey{}).(string)
	return cmp.Or(name, "purser")
}

// cross waits at a border until the conductor lets the call go on. The error is the context's, or errDied.
func (c *conductor) cross(ctx context.Context, n *node, place string) (*rand.Rand, error) {
	if n.isDead() {
		return nil, errDied
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	call := &crossing{node: n, actor: actorOf(ctx), place: place, turn: make(chan uint64, 1)}
	c.mu.Lock()
	c.parks++
	call.number = c.parks
	c.parked = append(c.parked, call)
	c.mu.Unlock()
	select {
	case luck, alive := <-call.turn:
		if !alive || n.isDead() {
			return nil, errDied
		}
		return rand.New(rand.NewPCG(luck, 1)), nil
	case <-ctx.Done():
		c.mu.Lock()
		c.parked = slices.DeleteFunc(c.parked, func(other *crossing) bool { return other == call })
		c.mu.Unlock()
		return nil, ctx.Err()
	}
}

// waiting lists the calls at borders in an order that does not depend on how goroutines ran.
func (c *conductor) waiting() []*crossing {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Clone(c.parked)
	slices.SortStableFunc(list, func(a, b *crossing) int {
		return cmp.Or(cmp.Compare(a.node.name, b.node.name), cmp.Compare(a.actor, b.actor), cmp.Compare(a.place, b.place), cmp.Compare(a.number, b.number))
	})
	return list
}

// ready lists the calls that may go on.
func (c *conductor) ready() []*crossing {
	return slices.DeleteFunc(c.waiting(), func(call *crossing) bool { return time.Now().Before(call.stuck) })
}

// stick holds a call up.
func (c *conductor) stick(call *crossing, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call.stuck = time.Now().Add(d)
}

// letGo lets a call go on.
func (c *conductor) letGo(call *crossing) {
	c.mu.Lock()
	c.parked = slices.DeleteFunc(c.parked, func(other *crossing) bool { return other == call })
	c.mu.Unlock()
	call.turn <- c.luck.Uint64()
}

// fail ends all calls of a dead purser.
func (c *conductor) fail(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parked = slices.DeleteFunc(c.parked, func(call *crossing) bool {
		if call.node == n {
			close(call.turn)
		}
		return call.node == n
	})
}

// say writes a line of the run's story.
func (c *conductor) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines++
	fmt.Fprintf(&c.log, "%10.3fs  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// story returns what was said, and its hash.
func (c *conductor) story() (string, [32]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := c.log.String()
	return text, sha256.Sum256([]byte(text))
}

// chance reports true once in n times.
func (c *conductor) chance(n int) bool { return c.luck.IntN(n) == 0 }
