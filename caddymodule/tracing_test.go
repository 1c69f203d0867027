package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/purserpay/purser/internal/logs"
	"github.com/purserpay/purser/pay"
)

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan   = "00f067aa0ba902b7"
	clientParent = "00-" + clientTrace + "-" + clientSpan + "-01"
)

// What the facilitator is asked belongs to the client's trace: below a span of ours while Caddy traces, as the client
// said otherwise.
func TestFacilitatorGetsTheTrace(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "none")
	asked := make(chan http.Header, 10)
	f := newStandIn(t)
	behind := f.Config.Handler
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			asked <- r.Header
		}
		behind.ServeHTTP(w, r)
	})
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	s := newSite(t)
	plain := s.route
	for _, tracing := range []bool{false, true} {
		s.route = plain
		if tracing {
			s.route = "tracing\n" + plain
		}
		mustLoad(t, s.caddyfile())
		key := newKey(t, s.url())
		for _, sent := range []string{clientParent, "", "no-traceparent\tat all"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url()+"/v1/pay",
				bytes.NewBufferString(payBody(2_500, "https://api.example.com/v2")))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Api-Key", key)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Baggage", "user=alice")
			if sent != "" {
				r.Header.Set("Traceparent", sent)
				r.Header.Set("Tracestate", "vendor=1")
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("status %d", resp.StatusCode)
			}
			seen := map[string]bool{}
			for range 2 { // verify and settle
				h := <-asked
				got := h.Get("Traceparent")
				if h.Get("Baggage") != "" {
					t.Error("baggage was passed on")
				}
				seen[got] = true
				switch {
				case sent == clientParent && !strings.HasPrefix(got, "00-"+clientTrace+"-"):
					t.Errorf("tracing %t: %q is another trace", tracing, got)
				case sent == clientParent && h.Get("Tracestate") != "vendor=1":
					t.Errorf("tracing %t: tracestate %q", tracing, h.Get("Tracestate"))
				case tracing && (got == "" || strings.Contains(got, clientSpan)):
					t.Errorf("%q is no span of ours", got)
				case !tracing && sent == clientParent && got != clientParent:
					t.Errorf("%q is not the client's", got)
				case !tracing && sent != clientParent && got != "":
					t.Errorf("a trace from nowhere: %q", got)
				}
			}
			if tracing && len(seen) != 2 {
				t.Error("verify and settle are one span")
			}
		}
	}
}

func TestTracerMakesSpansBelowRecordedOnes(t *testing.T) {
	t.Parallel()
	made := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(made))
	ctx, above := provider.Tracer("test").Start(t.Context(), "request")
	in, end := tracer{}.Stage(ctx, "settle", "p1")
	if trace.SpanContextFromContext(in).TraceID() != above.SpanContext().TraceID() {
		t.Error("another trace")
	}
	end(errors.New("no answer"))
	above.End()
	if in, end := (tracer{}).Stage(t.Context(), "settle", "p1"); trace.SpanContextFromContext(in).IsValid() {
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
		out, end := traceInside(connect, r)
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

// What others log while they work for a payment names it.
func TestLogTellsThePayment(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := logs.WithPayment(slog.New(slog.NewJSONHandler(&out, nil))).With("part", "x")
	ctx, span := sdktrace.NewTracerProvider().Tracer("test").Start(t.Context(), "request")
	span.End()
	log.WarnContext(pay.WithPayment(ctx, "p1"), "no answer")
	log.Warn("nothing is known")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var first, second map[string]any
	if err := errors.Join(json.Unmarshal([]byte(lines[0]), &first), json.Unmarshal([]byte(lines[1]), &second)); err != nil {
		t.Fatal(err)
	}
	if first["payment"] != "p1" || first["trace_id"] != span.SpanContext().TraceID().String() || first["part"] != "x" {
		t.Errorf("%v", first)
	}
	if second["payment"] != nil || second["trace_id"] != nil {
		t.Errorf("%v", second)
	}
}

// Where this purser does not trace, a client's trace is known all the same, to be passed on.
func TestClientsTraceIsKnown(t *testing.T) {
	t.Parallel()
	for parent, want := range map[string]string{clientParent: clientTrace, "": "", "00-zz-1-01": ""} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/", nil)
		r.Header.Set("Traceparent", parent)
		inside, end := traceInside(t.Context(), r)
		end()
		for _, ctx := range []context.Context{traced(r).Context(), inside.Context()} {
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
		_, end := tracer{}.Stage(ctx, "settle", "p1")
		end(nil)
		propagate(ctx, header)
	}); n > 0 {
		t.Errorf("%g allocations", n)
	}
	if len(header) != 0 {
		t.Errorf("%v", header)
	}
}
