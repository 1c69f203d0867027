package caddymodule

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/purserpay/purser/pay"
)

// storied is a log handler that adds, to what is logged under a context, the payment and the
// trace that it belongs to.
type storied struct{ slog.Handler }

// withStory makes a logger's lines tell the payment and the trace of their context.
func withStory(log *slog.Logger) *slog.Logger { return slog.New(storied{log.Handler()}) }

func (h storied) Handle(ctx context.Context, r slog.Record) error {
	if id := pay.PaymentOf(ctx); id != "" {
		r = r.Clone()
		r.AddAttrs(slog.String("payment", id))
	}
	if s := trace.SpanContextFromContext(ctx); s.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", s.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h storied) WithAttrs(attrs []slog.Attr) slog.Handler {
	return storied{h.Handler.WithAttrs(attrs)}
}

func (h storied) WithGroup(name string) slog.Handler { return storied{h.Handler.WithGroup(name)} }

var _ slog.Handler = storied{}
