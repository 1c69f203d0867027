package observe

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector is an OTLP collector that keeps the spans it gets.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracev1.Span
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracev1.TracesData // the request has the same form
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			t.Errorf("%s: %v", r.URL.Path, err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, resource := range data.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// of are the spans of a trace by name.
func (c *collector) of(trace string) map[string]*tracev1.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := map[string]*tracev1.Span{}
	for _, s := range c.spans {
		if hex.EncodeToString(s.TraceId) == trace {
			of[s.Name] = s
		}
	}
	return of
}

// A payment's stages are spans of its client's trace, through the API and the proxy, over http and https.
func TestTraces(t *testing.T) {
	t.Parallel()
	c := startCollector(t)
	s := startSandbox(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_TRACES_EXPORTER=otlp")
	s.configure(http.MethodPut, "/apps/http/servers/purser/routes/0/handle/0", map[string]string{"handler": "tracing", "span": "purser"})
	const parent = "00f067aa0ba902b7"
	agent := s.proxied(s.Key, "")
	for _, door := range []struct {
		name, trace string
		pay         func(header ...string) answer
		payment     func(answer) string
		below       string // the span that those of the payment are below
		stages      []string
	}{
		{
			"api", "4bf92f3577b34da6a3ce929d0e0e4701",
			func(h ...string) answer { return s.pay("/prepaid", h...) }, nil, "purser",
			[]string{"decide", "journal", "sign", "verify", "settle"},
		},
		{
			"http", "4bf92f3577b34da6a3ce929d0e0e4702",
			func(h ...string) answer { return s.send(agent, http.MethodGet, s.Seller+"/weather", "", h...) },
			func(a answer) string { return a.Header.Get("Purser-Payment") }, "purser",
			[]string{"decide", "journal", "sign", "send"},
		},
		{
			"https", "4bf92f3577b34da6a3ce929d0e0e4703",
			func(h ...string) answer { return s.send(agent, http.MethodGet, s.SellerTLS+"/weather", "", h...) },
			func(a answer) string { return a.Header.Get("Purser-Payment") }, "purser intercepted request",
			[]string{"decide", "journal", "sign", "send"},
		},
	} {
		a := door.pay("Traceparent", "00-"+door.trace+"-"+parent+"-01")
		if a.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", door.name, a.Status, a.Body)
		}
		var spans map[string]*tracev1.Span
		eventually(t, "the spans of "+door.name+" arrive", func() bool {
			spans = c.of(door.trace)
			return len(spans) == 1+len(door.stages)
		})
		above := spans[door.below]
		if above == nil || hex.EncodeToString(above.ParentSpanId) != parent {
			t.Fatalf("%s: %s is not below the client's span: %v", door.name, door.below, above)
		}
		for _, stage := range door.stages {
			span := spans["purser "+stage]
			if span == nil || string(span.ParentSpanId) != string(above.SpanId) {
				t.Errorf("%s: %s is %v", door.name, stage, span)
				continue
			}
			id := ""
			for _, attribute := range span.Attributes {
				if attribute.Key == "purser.payment" {
					id = attribute.Value.GetStringValue()
				}
			}
			if stage == "decide" {
				continue // there is no payment yet
			}
			if id == "" || door.payment != nil && id != door.payment(a) {
				t.Errorf("%s: %s is of payment %q", door.name, stage, id)
			}
		}
		c.mu.Lock()
		for _, span := range c.spans {
			if strings.Contains(span.String(), s.Key) {
				t.Errorf("a key is in a span: %s", span)
			}
		}
		c.mu.Unlock()
	}
}

// Every line of a payment's life has its id, and none has the key or the signature.
func TestLogTellsThePayment(t *testing.T) {
	t.Parallel()
	s := startSandbox(t)
	a := s.send(s.proxied(s.Key, ""), http.MethodGet, s.Seller+"/weather?key=hidden-query", "")
	id := a.Header.Get("Purser-Payment")
	if a.Status != http.StatusOK || id == "" {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	about := func(message string) bool {
		for line := range strings.Lines(s.Log.String()) {
			if strings.Contains(line, message) && strings.Contains(line, id) {
				return true
			}
		}
		return false
	}
	eventually(t, "the log tells the payment", func() bool { return about("payment settled") })
	for line := range strings.Lines(s.Log.String()) {
		if strings.Contains(line, s.Key) || strings.Contains(line, "hidden-query") {
			t.Errorf("a secret: %s", line)
		}
	}
}
