package facilitator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/breaker"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/pay"
)

// When new payments stop, and for how long.
const (
	defaultMaxFailures = 5
	firstWait          = 5 * time.Second
	maxWait            = time.Minute
	// maxKeys bounds the keys whose failures are remembered. The one that was unused the longest
	// begins anew.
	maxKeys = 10_000
)

// breakers stop new payments for which the facilitator would be asked in vain. What is sent is up
// to clients, and to sellers that may be theirs: a requirement that makes the facilitator crash or
// hang is easily made. So such failures count for the key alone that brought them, and cannot stop
// the payments of others; those that nobody's payment can cause count for all.
//
// They are in memory only, and begin anew with every configuration: what they would forget is
// learned again in a few calls, and nobody who pays can have one loaded.
type breakers struct {
	most int

	// all counts calls that could not be sent, or were not let in with our own key.
	all *breaker.Breaker

	mu sync.Mutex
	of *lru.Cache[string, *breaker.Breaker] // by key; of keys whose last call has failed
	// doubted is one of these, of the last call that failed; nil once there was a verdict for anybody.
	doubted *breaker.Breaker
}

// newBreakers is nil for no bound.
func newBreakers(most int) *breakers {
	if most < 0 {
		return nil
	}
	if most == 0 {
		most = defaultMaxFailures
	}
	b := &breakers{most: most, of: perclient.NewCache[string, *breaker.Breaker](maxKeys)}
	b.all = b.fresh()
	return b
}

func (b *breakers) fresh() *breaker.Breaker {
	return breaker.New(breaker.Options{Failures: b.most, Wait: firstWait, MaxWait: maxWait})
}

// failing is the breaker of a key whose last call has failed; nil: it has not.
func (b *breakers) failing(key string) *breaker.Breaker {
	one, _ := b.of.Get(key)
	return one
}

// allow asks for a turn of a key.
func (b *breakers) allow(key string, now func() time.Time) (giveBack func(), err error) {
	giveBack = func() {}
	for _, one := range []*breaker.Breaker{b.all, b.failing(key)} {
		if one == nil {
			continue
		}
		taken, err := one.Allow(now())
		if err != nil {
			giveBack()
			return func() {}, err
		}
		if before := giveBack; taken {
			giveBack = func() { before(); one.Unused(now()) }
		}
	}
	return giveBack, nil
}

// succeeded takes a verdict down, and reports whether it ends a time without any.
func (b *breakers) succeeded(key string) bool {
	b.mu.Lock()
	one, _ := b.of.Peek(key)
	b.of.Remove(key)
	b.doubted = nil
	b.mu.Unlock()
	again := b.all.Succeeded()
	return one != nil && one.Succeeded() || again
}

// failed takes a failure down, and reports whether new payments of the key stop with it.
func (b *breakers) failed(key string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	one, known := b.of.Get(key)
	if !known {
		one = b.fresh()
		b.of.Add(key, one)
	}
	b.doubted = one
	return one.Failed(now)
}

// state is nil unless new payments of everybody stop, or those of the key whose call came last.
func (b *breakers) state(now time.Time) error {
	if err := b.all.State(now); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.doubted == nil {
		return nil
	}
	return b.doubted.State(now)
}

// Ready implements pay.Breaking. Calls themselves are never refused: what was begun has to be brought to its end.
func (c *Client) Ready(key string) (giveBack func(), err error) {
	if c.breakers == nil {
		return func() {}, nil
	}
	giveBack, err = c.breakers.allow(key, c.now)
	return giveBack, failing(err)
}

// Failing is nil while new payments may be begun, as far as is known. Otherwise it says since how many failures they may
// not.
func (c *Client) Failing() error {
	if c.breakers == nil {
		return nil
	}
	return failing(c.breakers.state(c.now()))
}

func failing(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the facilitator %w", err)
}

// noAnswer counts a call that brought none, unless its caller has ended it.
func (c *Client) noAnswer(caller context.Context, key string, err error) {
	if errors.Is(caller.Err(), context.Canceled) {
		return
	}
	c.count(key, !errors.Is(err, pay.ErrNotSent))
}

// answered counts an answer. A refusal is a verdict like any other. An answer without a verdict counts as a failure
// unless it blames the request.
func (c *Client) answered(key string, status int, verdict bool) {
	switch {
	case verdict:
		if c.breakers != nil && c.breakers.succeeded(key) {
			c.log.Info("facilitator answers again")
		}
	case status < 400, status >= 500, status == http.StatusUnauthorized, status == http.StatusRequestTimeout, status == http.StatusTooManyRequests:
		c.count(key, status != http.StatusUnauthorized)
	}
}

// count counts a failure. reached: the facilitator got the call, and let us in.
func (c *Client) count(key string, reached bool) {
	if c.breakers == nil {
		return
	}
	now := c.now()
	stopped := c.breakers.failed(key, now)
	if reached {
		c.breakers.all.Succeeded()
	} else if c.breakers.all.Failed(now) {
		c.log.Error("facilitator fails: new payments that need it are refused until it is asked again", "error", c.Failing())
		return
	}
	if stopped {
		c.log.Error("facilitator fails: new payments of a key that need it are refused until it is asked again", "key", key, "error", c.Failing())
	}
}
