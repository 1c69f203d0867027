package logs

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/purserpay/purser/pay"
)

// contextual adds the payment and the trace of the context to log records, and makes texts of
// others discreet. It keeps the context itself: Caddy's handler would look in it for fields of the request, and a
// goroutine that outlives the request would read them while handlers add some.
type contextual struct{ slog.Handler }

// WithPayment returns a logger whose lines tell the payment and the trace of their context.
func WithPayment(log *slog.Logger) *slog.Logger { return slog.New(contextual{log.Handler()}) }

func (h contextual) Handle(ctx context.Context, r slog.Record) error {
	named, loud := false, false
	r.Attrs(func(a slog.Attr) bool {
		named = named || a.Key == "payment"
		if !loud {
			_, loud = hushed(a)
		}
		return true
	})
	if loud {
		quiet := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
		r.Attrs(func(a slog.Attr) bool {
			a, _ = hushed(a)
			quiet.AddAttrs(a)
			return true
		})
		r = quiet
	}
	var more [2]slog.Attr
	adds := more[:0]
	if id := pay.PaymentOf(ctx); id != "" && !named {
		adds = append(adds, slog.String("payment", id))
	}
	if s := trace.SpanContextFromContext(ctx); s.IsValid() {
		adds = append(adds, slog.String("trace_id", s.TraceID().String()))
	}
	if len(adds) > 0 {
		r = r.Clone()
		r.AddAttrs(adds...)
	}
	return h.Handler.Handle(context.Background(), r)
}

func (h contextual) WithAttrs(attrs []slog.Attr) slog.Handler {
	return contextual{h.Handler.WithAttrs(attrs)}
}

func (h contextual) WithGroup(name string) slog.Handler { return contextual{h.Handler.WithGroup(name)} }

var _ slog.Handler = contextual{}

// hushed makes the text of an attribute discreet, and reports whether that changed it.
func hushed(a slog.Attr) (slog.Attr, bool) {
	var text string
	switch a.Value.Kind() {
	case slog.KindString:
		text = a.Value.String()
	case slog.KindAny:
		err, ok := a.Value.Any().(error)
		if !ok || err == nil {
			return a, false
		}
		text = err.Error()
	default:
		return a, false
	}
	quiet := Discreet(text)
	if quiet == text {
		return a, false
	}
	return slog.String(a.Key, quiet), true
}
