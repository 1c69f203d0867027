package caddymodule

// No Caddy here: the observer of the doors feeds the collectors of internal/metrics and the traces.

import (
	"context"
	"net/http"
	"time"

	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/internal/tracing"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy"
)

// doorObserver tells metrics and traces what happens at a door that sends requests itself.
type doorObserver struct {
	door     policy.Door
	declined func(policy.Door, pay.Decline)
}

var _ proxy.Observer = doorObserver{}

func (o doorObserver) Answered(result string) {
	metrics.Process.Requests.WithLabelValues(string(o.door), result).Inc()
}

func (o doorObserver) Declined(d pay.Decline) {
	metrics.Process.DeclinedAt(d.Reason, time.Now())
	o.declined(o.door, d)
}

func (doorObserver) Refused(reason string) {
	metrics.Process.Refused.WithLabelValues(reason).Inc()
}

func (o doorObserver) TurnedAway(d pay.Decline) { o.declined(o.door, d) }

func (doorObserver) Tunnels(change int) { metrics.Process.Tunnels.Add(float64(change)) }

func (doorObserver) Spooled(memory, disk int64, files int) {
	metrics.Process.SpoolMemory.Add(float64(memory))
	metrics.Process.SpoolDisk.Add(float64(disk))
	metrics.Process.SpoolFiles.Add(float64(files))
}

func (doorObserver) Propagate(ctx context.Context, header http.Header) {
	tracing.Propagate(ctx, header)
}

func (doorObserver) Inside(connect context.Context, r *http.Request) (*http.Request, func()) {
	return tracing.Tracer{Version: Version()}.Inside(connect, r)
}
