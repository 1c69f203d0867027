// Package tracing makes spans of payments and of requests, and passes traces on. Spans are made only
// below one in the context, as Caddy's directive `tracing`, or whatever else stands in front of purser,
// begins it. So where spans go, and how many of them, is set there.
package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/purserpay/purser/internal/logs"
	"github.com/purserpay/purser/pay"
)

// instrumentation names purser in spans.
const instrumentation = "github.com/purserpay/purser"

// traceContext passes a trace on: in the headers traceparent and tracestate (W3C Trace
// Context). Baggage is not: it may say more of a client than sellers need to know.
var traceContext propagation.TraceContext

// Tracer makes spans of this version of purser.
type Tracer struct{ Version string }

var _ pay.Tracer = Tracer{}

// Stage begins a span below that of ctx, if that is recorded.
func (t Tracer) Stage(ctx context.Context, stage, paymentID string) (context.Context, func(error)) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, func(error) {}
	}
	kind := trace.SpanKindInternal
	switch stage {
	case "verify", "settle", "send": // another service is asked
		kind = trace.SpanKindClient
	}
	ctx, span := above.TracerProvider().Tracer(instrumentation, trace.WithInstrumentationVersion(t.Version)).
		Start(ctx, "purser "+stage, trace.WithSpanKind(kind), trace.WithAttributes(paymentAttribute(paymentID)...))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, logs.Discreet(err.Error()))
		}
		span.End()
	}
}

func paymentAttribute(id string) []attribute.KeyValue {
	if id == "" {
		return nil
	}
	return []attribute.KeyValue{attribute.String("purser.payment", id)}
}

// Propagate passes the trace of ctx on, if there is one.
func Propagate(ctx context.Context, header http.Header) {
	traceContext.Inject(ctx, propagation.HeaderCarrier(header))
}

// Request returns a request whose context knows the trace that its client says it belongs to. Services
// that are called for the request get that trace. Where Caddy traces, the context knows it already.
func Request(r *http.Request) *http.Request {
	if trace.SpanContextFromContext(r.Context()).IsValid() || r.Header.Get("Traceparent") == "" {
		return r
	}
	return r.WithContext(traceContext.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
}

// Inside begins the span of a request on an intercepted connection, which Caddy does not
// see. It belongs to the trace that the client names in it, else to that of the CONNECT.
func (t Tracer) Inside(connect context.Context, r *http.Request) (*http.Request, func()) {
	if connect == nil {
		return Request(r), func() {}
	}
	above := trace.SpanFromContext(connect)
	if !above.SpanContext().IsSampled() || above.SpanContext().IsRemote() {
		return Request(r), func() {}
	}
	ctx := traceContext.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", r.Method), attribute.String("server.address", r.URL.Hostname())),
	}
	if trace.SpanContextFromContext(ctx).IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: above.SpanContext()}))
	} else {
		ctx = trace.ContextWithSpanContext(ctx, above.SpanContext())
	}
	ctx, span := above.TracerProvider().Tracer(instrumentation, trace.WithInstrumentationVersion(t.Version)).
		Start(ctx, "purser intercepted request", options...)
	out := r.WithContext(ctx)
	out.Header = r.Header.Clone()
	Propagate(ctx, out.Header)
	return out, func() { span.End() }
}
