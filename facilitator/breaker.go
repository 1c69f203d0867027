package facilitator

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	// maxKeys bounds the keys whose failures are remembered, by their last use.
	maxKeys = 10_000
)

// breakers stop new payments for which the facilitator would be called in vain. Clients and sellers
// decide what is sent, and can make the facilitator crash or hang: such failures count only for the
// key that caused them. Failures that no payment can cause count for all keys. The counts are in
// memory, and begin anew with every configuration.
type breakers struct {
	most int

	// shared counts calls that could not be sent, and calls that were rejected because of our own
	// key.
	shared *breaker.Breaker

	mu    sync.Mutex
	byKey *lru.Cache[string, *breaker.Breaker] // by key; of keys whose last call failed
	// lastFailed is the breaker of the last failed call. It is nil after a verdict for any key.
	lastFailed *breaker.Breaker
}

// newBreakers makes breakers that open after this many failures in a row. Negative: never.
func newBreakers(most int) *breakers {
	switch {
	case most < 0:
		most = math.MaxInt
	case most == 0:
		most = defaultMaxFailures
	}
	b := &breakers{most: most, byKey: perclient.NewCache[string, *breaker.Breaker](maxKeys)}
	b.shared = b.fresh()
	return b
}

func (b *breakers) fresh() *breaker.Breaker {
	return breaker.New(breaker.Options{Failures: b.most, Wait: firstWait, MaxWait: maxWait})
}

// allow asks whether a key may begin a payment.
func (b *breakers) allow(key string, now func() time.Time) (giveBack func(), err error) {
	giveBack = func() {}
	keys, _ := b.byKey.Get(key) // nil unless the last call of the key failed
	for _, one := range []*breaker.Breaker{b.shared, keys} {
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

// succeeded records a verdict, and reports whether a time without verdicts ended with it.
func (b *breakers) succeeded(key string) bool {
	b.mu.Lock()
	one, _ := b.byKey.Peek(key)
	b.byKey.Remove(key)
	b.lastFailed = nil
	b.mu.Unlock()
	again := b.shared.Succeeded()
	return one != nil && one.Succeeded() || again
}

// failed records a failure, and reports whether new payments of the key stop with it.
func (b *breakers) failed(key string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	one, known := b.byKey.Get(key)
	if !known {
		one = b.fresh()
		b.byKey.Add(key, one)
	}
	b.lastFailed = one
	return one.Failed(now)
}

// state returns why new payments of all keys, or of the last call's key, stop; nil: none do.
func (b *breakers) state(now time.Time) error {
	if err := b.shared.State(now); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lastFailed == nil {
		return nil
	}
	return b.lastFailed.State(now)
}

// Ready implements pay.Breaking. Calls themselves are never refused, because a payment that was
// begun must be finished.
func (c *Client) Ready(key string) (giveBack func(), err error) {
	giveBack, err = c.breakers.allow(key, c.now)
	return giveBack, failing(err)
}

// Failing returns nil while new payments may be begun, else an error that counts the failures.
func (c *Client) Failing() error {
	return failing(c.breakers.state(c.now()))
}

func failing(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the facilitator %w", err)
}

// noAnswer counts a call without an answer, unless its caller ended it.
func (c *Client) noAnswer(caller context.Context, key string, err error) {
	if errors.Is(caller.Err(), context.Canceled) {
		return
	}
	c.count(key, !errors.Is(err, pay.ErrNotSent))
}

// answered counts an answer. Without a verdict it is a failure, unless it blames the request.
func (c *Client) answered(key string, status int, verdict bool) {
	switch {
	case verdict:
		if c.breakers.succeeded(key) {
			c.log.Info("facilitator answers again")
		}
	case status < 400, status >= 500, status == http.StatusUnauthorized, status == http.StatusRequestTimeout, status == http.StatusTooManyRequests:
		c.count(key, status != http.StatusUnauthorized)
	}
}

// count counts a failure. reached: the facilitator received the call and accepted our key.
func (c *Client) count(key string, reached bool) {
	now := c.now()
	stopped := c.breakers.failed(key, now)
	if reached {
		c.breakers.shared.Succeeded()
	} else if c.breakers.shared.Failed(now) {
		c.log.Error("facilitator fails: new payments that need it are refused until it is asked again", "error", c.Failing())
		return
	}
	if stopped {
		c.log.Error("facilitator fails: new payments of a key that need it are refused until it is asked again", "key", key, "error", c.Failing())
	}
}
