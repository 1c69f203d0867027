package caddymodule

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/purserpay/purser/internal/logs"
	"github.com/purserpay/purser/pay"
)

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan   = "00f067aa0ba902b7"
	clientParent = "00-" + clientTrace + "-" + clientSpan + "-01"
)

// A call to the facilitator belongs to the client's trace. It is below a span of ours while Caddy traces, else as the
// client said.
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

// Lines that others log while they work for a payment name it.
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
