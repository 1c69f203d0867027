package caddymodule

// No Caddy here: it resolves options of the app.

import (
	"cmp"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/internal/setting"
)

// OverloadOptions bound what is worked on at once, at each door by itself. A request that finds no
// room waits, keys in turn. If it gets none, it is answered with 503 and Retry-After, and nothing
// was begun for it. A request that was begun is never refused.
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

// resolveOverload reads the bounds.
func (a *App) resolveOverload(s *settings) error {
	queued := setting.New("max_queued", "PURSER_MAX_QUEUED", "")
	err := cmp.Or(
		setting.Set(&s.admission.Concurrent, setting.New("max_concurrent", "PURSER_MAX_CONCURRENT", "").Most, a.MaxConcurrent),
		setting.Set(&s.admission.Queued, queued.Most, a.MaxQueued),
		setting.Set(&s.admission.Wait, setting.New("max_wait", "PURSER_MAX_WAIT", "").Duration, a.MaxWait),
	)
	if err == nil && s.admission.Queued == setting.Unbounded {
		err = queued.Errorf("a queue needs a bound; max_concurrent off has none")
	}
	return err
}

// bounds returns the bounds of one door.
func (s settings) bounds(door string) admission.Options {
	o := s.admission
	o.Refused = func() { metrics.Process.Overloaded.WithLabelValues(door).Inc() }
	return o
}
