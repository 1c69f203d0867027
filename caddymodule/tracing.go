package caddymodule

// No Caddy here: Caddy's tracing passes spans in the context, as OpenTelemetry has them.

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

// Spans are made only below one that Caddy's directive `tracing`, or whatever else stands in
// front of purser, has begun; so where they go, and how many of them, is set there.

// instrumentation names purser in spans.
const instrumentation = "github.com/purserpay/purser"

// traceContext passes a trace on: in the headers traceparent and tracestate (W3C Trace
// Context). Baggage is not: it may say more of a client than sellers need to know.
var traceContext propagation.TraceContext

// tracer makes a span of each stage of a payment.
type tracer struct{}

var _ pay.Tracer = tracer{}

// Stage begins a span below that of ctx, if that is recorded.
func (tracer) Stage(ctx context.Context, stage, paymentID string) (context.Context, func(error)) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, func(error) {}
	}
	kind := trace.SpanKindInternal
	switch stage {
	case "verify", "settle", "send": // another service is asked
		kind = trace.SpanKindClient
	}
	ctx, span := above.TracerProvider().Tracer(instrumentation, trace.WithInstrumentationVersion(Version())).
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

// propagate passes the trace of ctx on, if there is one.
func propagate(ctx context.Context, header http.Header) {
	traceContext.Inject(ctx, propagation.HeaderCarrier(header))
}

// traced is a request whose context knows the trace that its client says it belongs to, for
// who is called on its behalf. Where Caddy traces, the context knows already.
func traced(r *http.Request) *http.Request {
	if trace.SpanContextFromContext(r.Context()).IsValid() || r.Header.Get("Traceparent") == "" {
		return r
	}
	return r.WithContext(traceContext.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
}

// traceInside begins the span of a request on an intercepted connection, which Caddy does not
// see. It belongs to the trace that the client names in it, else to that of the CONNECT.
func traceInside(connect context.Context, r *http.Request) (*http.Request, func()) {
	if connect == nil {
		return traced(r), func() {}
	}
	above := trace.SpanFromContext(connect)
	if !above.SpanContext().IsSampled() || above.SpanContext().IsRemote() {
		return traced(r), func() {}
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
	ctx, span := above.TracerProvider().Tracer(instrumentation, trace.WithInstrumentationVersion(Version())).
		Start(ctx, "purser intercepted request", options...)
	out := r.WithContext(ctx)
	out.Header = r.Header.Clone()
	propagate(ctx, out.Header)
	return out, func() { span.End() }
}
