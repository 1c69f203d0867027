package observe

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// The collector of traces may be gone, or accept them and never answer. Payments do not wait for
// it, however many spans there are.
func TestPaymentsDoNotWaitForTheCollector(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	ended, asked := make(chan struct{}), make(chan struct{}, 1)
	end := sync.OnceFunc(func() { close(ended) })
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-ended
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(end)
	for name, collector := range map[string]string{"gone": gone, "silent": silent.URL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSandbox(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_TRACES_EXPORTER=otlp",
				// The queue is full, and a batch under way, after a few requests; an export gives up after longer
				// than all of them take, but in time for the end of the test.
				"OTEL_BSP_SCHEDULE_DELAY=10", "OTEL_BSP_MAX_QUEUE_SIZE=16", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=8",
				"OTEL_EXPORTER_OTLP_TIMEOUT=12000", "OTEL_BSP_EXPORT_TIMEOUT=12000")
			agent := s.proxied(s.Key, "")
			pay := func(n int) (took []time.Duration) {
				for i := range n {
					began := time.Now()
					if a := s.send(agent, http.MethodGet, fmt.Sprintf("%s/weather?%s-%d-%d", s.Seller, name, n, i), ""); a.Status != http.StatusOK {
						t.Fatalf("%d %s", a.Status, a.Body)
					}
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				return took
			}
			plain := pay(4)
			s.configure(http.MethodPut, "/apps/http/servers/purser/routes/0/handle/0", map[string]string{"handler": "tracing", "span": "purser"})
			traced := pay(8)
			if name == "silent" {
				defer end() // purser waits for it when it ends, which is not what is measured here
				select {
				case <-asked:
				case <-time.After(waitTime):
					t.Fatal("no span was exported, so this proves nothing")
				}
			}
			t.Logf("median %s, traced %s; longest %s, traced %s", plain[2], traced[4], plain[3], traced[7])
			if traced[4] > 8*time.Second { // a waiting payment would take 12 s
				t.Errorf("payments waited: median %s, before %s; longest %s", traced[4], plain[2], traced[7])
			}
		})
	}
}
