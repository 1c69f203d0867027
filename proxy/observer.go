package proxy

import (
	"context"
	"net/http"

	"github.com/purserpay/purser/pay"
)

// Results of a request, for [Observer.Answered].
const (
	ResultPassed     = "passed"     // the upstream's answer, nothing was paid
	ResultPaid       = "paid"       // the upstream's answer to a payload
	ResultSignedIn   = "signed-in"  // the upstream's answer to a sign-in, nothing was paid
	ResultDeclined   = "declined"   // a 402 that was not paid, or not answered: see the Declined words
	ResultRefused    = "refused"    // an answer of purser's own, without a send
	ResultFailed     = "failed"     // nothing came back, and nothing was paid
	ResultUnanswered = "unanswered" // nothing came back, and a payload has left or may have
	ResultTunnel     = "tunnel"     // a CONNECT that was taken over
)

// Observer hears what happens at a door that sends requests itself, for metrics and traces.
// Calls are synchronous and must be quick; they carry no secrets.
type Observer interface {
	// Answered hears one of the Result words for every request, and for every attempt at one
	// where something in front of the door makes several.
	Answered(result string)
	// Declined hears of every 402 that was not paid.
	Declined(d pay.Decline)
	// Refused hears the reason of every proxy request that purser answered itself with a refusal.
	Refused(reason string)
	// TurnedAway hears of a request that a bound or a rule of purser's own refused before a seller could
	// ask for money. It hears of no upstream that fails, and of no client that still has to name its key.
	TurnedAway(d pay.Decline)
	// Tunnels hears how many tunnels are open more, or less, than before.
	Tunnels(change int)
	// Spooled hears how much more, or less, is kept of request bodies than before: bytes in
	// memory, bytes in files, and files.
	Spooled(memory, disk int64, files int)
	// Propagate puts what identifies the trace of ctx, if there is one, into the header of a
	// request that is sent under it.
	Propagate(ctx context.Context, header http.Header)
	// Inside makes a request of an intercepted connection part of a trace, if its CONNECT, whose
	// context is given, was. end is called after the request.
	Inside(connect context.Context, r *http.Request) (_ *http.Request, end func())
}

// Unobserved returns an Observer that ignores everything.
func Unobserved() Observer { return unobserved{} }

type unobserved struct{}

func (unobserved) Answered(string)                        {}
func (unobserved) Declined(pay.Decline)                   {}
func (unobserved) Refused(string)                         {}
func (unobserved) TurnedAway(pay.Decline)                 {}
func (unobserved) Tunnels(int)                            {}
func (unobserved) Spooled(int64, int64, int)              {}
func (unobserved) Propagate(context.Context, http.Header) {}
func (unobserved) Inside(_ context.Context, r *http.Request) (*http.Request, func()) {
	return r, func() {}
}
