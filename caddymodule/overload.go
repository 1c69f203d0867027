package caddymodule

import (
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/metrics"
)

// OverloadOptions bound what is worked on at once, at each door by itself. What finds no
// room waits, keys in turn, and is then answered with 503 and Retry-After; nothing was begun
// for it. What has been begun is never refused.
type OverloadOptions struct {
	// MaxConcurrent is the largest number of requests with a key that are worked on at once at the API, and the
	// payments that are decided on at the proxy and at each reverse proxy, or off; three quarters
	// may be one key's. Default: {env.PURSER_MAX_CONCURRENT}, else 2048.
	MaxConcurrent string `json:"max_concurrent,omitempty"`
	// MaxQueued is the largest number of those that wait for a place. Default: {env.PURSER_MAX_QUEUED}, else as
	// many as max_concurrent.
	MaxQueued string `json:"max_queued,omitempty"`
	// MaxWait is their longest wait, such as "10s". Default: {env.PURSER_MAX_WAIT},
	// else 10 s.
	MaxWait string `json:"max_wait,omitempty"`
}

var (
	maxConcurrentOption = option{name: "max_concurrent", variable: "PURSER_MAX_CONCURRENT"}
	maxQueuedOption     = option{name: "max_queued", variable: "PURSER_MAX_QUEUED"}
	maxWaitOption       = option{name: "max_wait", variable: "PURSER_MAX_WAIT"}
)

// unbounded removes a bound in the packages below; 0 is their default.
const unbounded = -1

// resolveOverload reads the bounds.
func (a *App) resolveOverload(s *settings) (err error) {
	if s.admission.Concurrent, err = maxConcurrentOption.most(a.MaxConcurrent); err != nil {
		return err
	}
	if s.admission.Queued, err = maxQueuedOption.most(a.MaxQueued); err != nil {
		return err
	}
	if s.admission.Queued == unbounded {
		return maxQueuedOption.errorf("a queue needs a bound; max_concurrent off has none")
	}
	s.admission.Wait, err = maxWaitOption.duration(a.MaxWait)
	return err
}

// bounds returns the bounds of one door.
func (s settings) bounds(door string) admission.Options {
	o := s.admission
	o.Refused = func() { metrics.Process.Overloaded.WithLabelValues(door).Inc() }
	return o
}

// most is an option that is a positive number, or off, which is unbounded; 0 if it is not set.
func (o option) most(given string) (int, error) {
	n, err := o.count(given)
	switch {
	case err != nil || n == nil:
		return 0, err
	case *n == 0:
		return unbounded, nil
	}
	return *n, nil
}

// duration is an option such as "90s"; 0 if it is not set.
func (o option) duration(given string) (time.Duration, error) {
	v, err := o.value(given)
	if err != nil || v == "" {
		return 0, err
	}
	d, err := caddy.ParseDuration(v)
	if err != nil || d <= 0 {
		return 0, o.errorf("%q is not a duration such as 90s", v)
	}
	return d, nil
}

func (o *OverloadOptions) single() map[string]*string {
	return map[string]*string{"max_concurrent": &o.MaxConcurrent, "max_queued": &o.MaxQueued, "max_wait": &o.MaxWait}
}
