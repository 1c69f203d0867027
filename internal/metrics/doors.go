package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/purserpay/purser/internal/tracing"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy"
)

// Door tells metrics and traces what happens at a door that sends requests itself.
type Door struct {
	Door policy.Door
	// Heard hears of each request that was not paid.
	Heard   func(policy.Door, pay.Decline)
	Version string // of this program, for traces
}

var _ proxy.Observer = Door{}

// Answered counts an answer.
func (o Door) Answered(result string) {
	Process.Requests.WithLabelValues(string(o.Door), result).Inc()
}

// Declined counts a payment that was asked for and not made.
func (o Door) Declined(d pay.Decline) {
	Process.DeclinedAt(d.Reason, time.Now())
	o.Heard(o.Door, d)
}

// Refused counts an answer of the door itself.
func (Door) Refused(reason string) {
	Process.Refused.WithLabelValues(reason).Inc()
}

// TurnedAway tells of a request that found no room.
func (o Door) TurnedAway(d pay.Decline) { o.Heard(o.Door, d) }

// Tunnels counts open tunnels.
func (Door) Tunnels(change int) { Process.Tunnels.Add(float64(change)) }

// Spooled counts bodies that are kept, in bytes and files.
func (Door) Spooled(memory, disk int64, files int) {
	Process.SpoolMemory.Add(float64(memory))
	Process.SpoolDisk.Add(float64(disk))
	Process.SpoolFiles.Add(float64(files))
}

// Propagate adds the trace to a request.
func (Door) Propagate(ctx context.Context, header http.Header) {
	tracing.Propagate(ctx, header)
}

// Inside begins the span of a request inside a tunnel.
func (o Door) Inside(connect context.Context, r *http.Request) (*http.Request, func()) {
	return tracing.Tracer{Version: o.Version}.Inside(connect, r)
}
