package caddymodule

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/proxy"
)

// Variables of a request, for handle_errors and logs.
const (
	paymentVar = "purser.payment" // the id of its payment
	reasonVar  = "purser.reason"  // why there is no answer to it, or why none was made
)

// exchange is one incoming request and what the transport did for it, however often Caddy
// sends it upstream.
//
// A transport does not learn when the answer has been written. So the exchange ends with the request,
// and the answer counts as written if the upstream's body was taken to its end while the client was
// there, and the reverse proxy says that it wrote all of it. A door that holds the ResponseWriter ends
// its exchange itself.
type exchange struct {
	tenant   *tenant
	spender  spender
	refused  *proxy.Refusal // of a request that is not even relayed, or nil
	declined string         // why the request must not be paid for, or empty
	call     *proxy.Call    // nil if refused or declined
	own      bool           // the door ends the exchange itself

	attended bool        // the end of the request ends the exchange
	answered atomic.Bool // see above
	once     sync.Once
}

// String keeps the exchange out of what is made of a request's variables.
func (*exchange) String() string { return "" }

func (x *exchange) paid() bool { return x.call != nil && x.call.Payment() != nil }

// attend sees to it that the exchange ends with its request, whatever becomes of that.
func (x *exchange) attend(ctx context.Context) {
	if x.own || x.attended {
		return
	}
	x.attended = true
	counted := x.tenant.enter() == nil // false: it is closing, and waits for payments only
	repl, _ := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	forgetProxying(repl)
	context.AfterFunc(ctx, func() {
		if counted {
			defer x.tenant.leave()
		}
		x.end(x.answered.Load() && writtenOut(repl))
	})
}

// Placeholders that the reverse proxy sets when it is done with a request, in this order.
const (
	proxyWrote = "http.reverse_proxy.upstream.duration" // only if the answer was written without an error
	proxyEnded = "http.reverse_proxy.duration"          // in any case
)

// forgetProxying takes away what an earlier reverse proxy has set for the same request.
func forgetProxying(repl *caddy.Replacer) {
	if repl != nil {
		repl.Delete(proxyWrote)
		repl.Delete(proxyEnded)
	}
}

// writtenOut reports whether the reverse proxy wrote all of the answer that it has taken
// from its upstream, perhaps into a buffer.
func writtenOut(repl *caddy.Replacer) bool {
	has := func(name string) func() bool {
		return func() bool { _, is := repl.Get(name); return is }
	}
	return repl != nil && proxy.Await(has(proxyEnded)) && has(proxyWrote)()
}

// end ends the call, once.
func (x *exchange) end(answered bool) {
	if x.call != nil {
		x.once.Do(func() { x.call.Finish(answered) })
	}
}

// failed tells Caddy's error handlers why there is no answer, and of a payment that has left.
func (x *exchange) failed(req *http.Request, err error) {
	if lost, ok := errors.AsType[*proxy.SendError](err); ok {
		caddyhttp.SetVar(req.Context(), paymentVar, lost.Payment.ID)
	}
	//nolint:bodyclose // a body in memory
	caddyhttp.SetVar(req.Context(), reasonVar, proxy.ErrorResponse(req, err).Header.Get(proxy.HeaderError))
}

// answer watches how an answer to a paid request is taken.
func (x *exchange) answer(req *http.Request, resp *http.Response) *http.Response {
	ctx := conns.Asked(req.Context())
	caddyhttp.SetVar(ctx, reasonVar, nil)
	if reason := resp.Header.Get(proxy.HeaderDeclined); reason != "" {
		caddyhttp.SetVar(ctx, reasonVar, reason)
	}
	payment := x.call.Payment()
	if payment == nil {
		return resp
	}
	if !x.own {
		x.call.Watch()
	}
	caddyhttp.SetVar(ctx, paymentVar, payment.ID)
	resp.Body = proxy.Taken(ctx, req, resp, &x.answered, x.end)
	return resp
}
