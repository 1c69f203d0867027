package tracing_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/purserpay/purser/internal/tracing"
)

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan   = "00f067aa0ba902b7"
	clientParent = "00-" + clientTrace + "-" + clientSpan + "-01"
)

func TestTracerMakesSpansBelowRecordedOnes(t *testing.T) {
	t.Parallel()
	made := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(made))
	ctx, above := provider.Tracer("test").Start(t.Context(), "request")
	in, end := tracing.Tracer{}.Stage(ctx, "settle", "p1")
	if trace.SpanContextFromContext(in).TraceID() != above.SpanContext().TraceID() {
		t.Error("another trace")
	}
	end(errors.New("no answer"))
	above.End()
	if in, end := (tracing.Tracer{}).Stage(t.Context(), "settle", "p1"); trace.SpanContextFromContext(in).IsValid() {
		t.Error("a span out of nothing")
	} else {
		end(nil)
	}
	spans := made.Ended()
	if len(spans) != 2 || spans[0].Name() != "purser settle" || spans[0].Parent().SpanID() != above.SpanContext().SpanID() ||
		spans[0].SpanKind() != trace.SpanKindClient || spans[0].Status().Code != codes.Error {
		t.Fatalf("%+v", spans)
	}
	if a := spans[0].Attributes(); len(a) != 1 || string(a[0].Key) != "purser.payment" || a[0].Value.AsString() != "p1" {
		t.Errorf("%+v", a)
	}
}

// A request inside an intercepted connection belongs to its client's trace, or to that of the CONNECT; and to none if
// the CONNECT was not traced.
func TestInterceptedRequestsAreTraced(t *testing.T) {
	t.Parallel()
	made := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(made))
	connect, above := provider.Tracer("test").Start(t.Context(), "CONNECT")
	ask := func(connect context.Context, parent string) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/", nil)
		if parent != "" {
			r.Header.Set("Traceparent", parent)
		}
		out, end := tracing.Tracer{}.Inside(connect, r)
		end()
		return out.Header.Get("Traceparent")
	}
	if got := ask(connect, clientParent); !strings.HasPrefix(got, "00-"+clientTrace) || got == clientParent {
		t.Errorf("%q is not of the client's trace, or not ours", got)
	}
	if got := ask(connect, ""); !strings.HasPrefix(got, "00-"+above.SpanContext().TraceID().String()) {
		t.Errorf("%q is not of the CONNECT's trace", got)
	}
	if got := ask(t.Context(), clientParent); got != clientParent {
		t.Errorf("untraced: %q", got)
	}
	if got := ask(nil, ""); got != "" { //nolint:staticcheck // a Forward in a test may have none
		t.Errorf("untraced: %q", got)
	}
	if n := len(made.Ended()); n != 2 {
		t.Errorf("%d spans", n)
	}
}

// Where this purser does not trace, a client's trace is known all the same, to be passed on.
func TestClientsTraceIsKnown(t *testing.T) {
	t.Parallel()
	for parent, want := range map[string]string{clientParent: clientTrace, "": "", "00-zz-1-01": ""} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/", nil)
		r.Header.Set("Traceparent", parent)
		inside, end := tracing.Tracer{}.Inside(t.Context(), r)
		end()
		for _, ctx := range []context.Context{tracing.Request(r).Context(), inside.Context()} {
			got := ""
			if s := trace.SpanContextFromContext(ctx); s.IsValid() {
				got = s.TraceID().String()
			}
			if got != want {
				t.Errorf("%q: %q", parent, got)
			}
		}
	}
}

// Where nothing is traced, a stage and a request that is sent allocate nothing. It does
// not run beside others, whose allocations would count.
func TestTracingCostsNothingWithoutATrace(t *testing.T) {
	ctx := t.Context()
	header := map[string][]string{}
	if n := testing.AllocsPerRun(1000, func() {
		_, end := tracing.Tracer{}.Stage(ctx, "settle", "p1")
		end(nil)
		tracing.Propagate(ctx, header)
	}); n > 0 {
		t.Errorf("%g allocations", n)
	}
	if len(header) != 0 {
		t.Errorf("%v", header)
	}
}
