package pay

import (
	"context"
	"time"
)

// Tracer records the stages of a payment in its request's trace. Calls must be quick.
type Tracer interface {
	// Stage begins a stage: "decide", "journal", "sign", "verify", "settle", "send". What the
	// stage calls gets the returned context. end is called once, with what went wrong or nil.
	// paymentID is "" while there is no payment.
	Stage(ctx context.Context, stage, paymentID string) (_ context.Context, end func(error))
}

// untraced is the tracer that does nothing.
type untraced struct{}

func (untraced) Stage(ctx context.Context, _, _ string) (context.Context, func(error)) {
	return ctx, func(error) {}
}

// stage begins a stage that is traced, and timed for the observer.
func (p *Payer) stage(ctx context.Context, name, paymentID string) (context.Context, func(error)) {
	started := time.Now()
	ctx, end := p.opts.Tracer.Stage(WithPayment(ctx, paymentID), name, paymentID)
	return ctx, func(err error) {
		p.opts.Observer.Took(name, time.Since(started))
		end(err)
	}
}

type paymentKey struct{}

// WithPayment gives a context the id of the payment that it is for; see [PaymentOf].
func WithPayment(ctx context.Context, id string) context.Context {
	if id == "" {
		return ctx
	}
	return context.WithValue(ctx, paymentKey{}, id)
}

// PaymentOf returns the id of the payment that a call of a port is made for, or "".
func PaymentOf(ctx context.Context) string {
	id, _ := ctx.Value(paymentKey{}).(string)
	return id
}

// Send begins one send at a door that sends the payload itself, under the returned context. end is
// called with the response headers, or with why there are none.
func (a *Attempt) Send(ctx context.Context) (_ context.Context, end func(error)) {
	ctx, over := a.payer.opts.Tracer.Stage(WithPayment(ctx, a.row.ID), "send", a.row.ID)
	return ctx, func(err error) {
		if err == nil {
			a.payer.opts.Observer.Took("total", time.Since(a.opened))
		}
		over(err)
	}
}
