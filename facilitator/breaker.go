package facilitator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/purserpay/purser/internal/breaker"
)

// When new payments stop, and for how long.
const (
	defaultMaxFailures = 5
	firstWait          = 5 * time.Second
	maxWait            = time.Minute
)

// newBreaker is nil for no bound.
func newBreaker(most int) *breaker.Breaker {
	if most < 0 {
		return nil
	}
	if most == 0 {
		most = defaultMaxFailures
	}
	return breaker.New(breaker.Options{Failures: most, Wait: firstWait, MaxWait: maxWait})
}

// Ready implements pay.Breaking. Calls themselves are never refused: what was begun has to be brought to its end.
func (c *Client) Ready() (giveBack func(), err error) {
	if c.breaker == nil {
		return func() {}, nil
	}
	taken, err := c.breaker.Allow(c.now())
	if err != nil {
		return func() {}, c.failing(err)
	}
	return func() {
		if taken {
			c.breaker.Unused(c.now())
		}
	}, nil
}

// Failing is nil while new payments may be begun. Otherwise it says since how many failures they may not.
func (c *Client) Failing() error {
	if c.breaker == nil {
		return nil
	}
	return c.failing(c.breaker.State(c.now()))
}

func (c *Client) failing(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the facilitator %w", err)
}

// noAnswer counts a call that brought none, unless its caller has ended it.
func (c *Client) noAnswer(caller context.Context) {
	if !errors.Is(caller.Err(), context.Canceled) {
		c.failed()
	}
}

// answered counts an answer. A refusal is a verdict like any other. An answer without a verdict counts as a failure
// unless it blames the request: what is in that is up to clients, who must not be able to stop the payments of others.
func (c *Client) answered(status int, verdict bool) {
	switch {
	case verdict:
		if c.breaker != nil && c.breaker.Succeeded() {
			c.log.Info("facilitator answers again")
		}
	case status < 400, status >= 500, status == http.StatusUnauthorized, status == http.StatusRequestTimeout, status == http.StatusTooManyRequests:
		c.failed()
	}
}

func (c *Client) failed() {
	if c.breaker != nil && c.breaker.Failed(c.now()) {
		c.log.Error("facilitator fails: new payments that need it are refused until it is asked again", "error", c.Failing())
	}
}
