package forward

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// stream answers paid requests with events, and ends each answer when the test says so.
func stream(s *proxytest.Seller, events ...string) (goOn, ended chan struct{}) {
	goOn, ended = make(chan struct{}), make(chan struct{}, 64)
	s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		s.Receipt(rw, n)
		rw.Header().Set("Content-Type", "text/event-stream")
		for _, event := range events {
			_, _ = io.WriteString(rw, event)
			_ = http.NewResponseController(rw).Flush()
		}
		select {
		case <-goOn:
			_, _ = io.WriteString(rw, ": settled\n\n")
			ended <- struct{}{}
		case <-r.Context().Done():
		}
	}
	s.Reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "again") }
	return goOn, ended
}

// take reads an answer up to a text, and leaves. It returns the answer's payment.
func take(t *testing.T, w *secure, c *http.Client, until string) (paymentID string) {
	t.Helper()
	resp, err := c.Do(proxytest.Request(t, "POST", w.shop("/v1/chat"), strings.NewReader("{}")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got strings.Builder
	for piece := make([]byte, 100); !strings.Contains(got.String(), until); {
		n, err := resp.Body.Read(piece)
		if got.Write(piece[:n]); err != nil {
			t.Fatalf("%q %v", got.String(), err)
		}
	}
	return resp.Header.Get(proxy.HeaderPayment)
}

// A client leaves when a stream has said that it ends, long before the connection does. It has its answer, and its
// next call is a purchase. The seller is not cut off: it settles when its own side ends.
func TestClientLeavesAtTheOwnEnd(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"data: [DONE]\n\n", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"} {
		ways(t, func(t *testing.T, a way) {
			w := a.world(t)
			goOn, ended := stream(w.seller, "data: {\"n\":1}\n\n", last)
			c := w.buyer()
			ids := map[string]bool{}
			for range 3 {
				id := take(t, w, c, strings.TrimSpace(last))
				c.CloseIdleConnections()
				ids[id] = true
				if p := w.Closed(id); !p.Answered {
					t.Fatal("an answer that was read to its own end does not count")
				}
			}
			if len(ids) != 3 {
				t.Errorf("%d payments of 3 calls", len(ids))
			}
			for range ids { // all of them are still being read
				goOn <- struct{}{}
				<-ended
			}
		})
	}
}

// An answer that is left before its own end is given again.
func TestClientLeavesBeforeTheOwnEnd(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		w := a.world(t)
		stream(w.seller, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", "data: {\"type\":\"message_start\"}\n\n")
		c := w.buyer()
		id := take(t, w, c, "message_start")
		if p := w.Closed(id); p.Answered {
			t.Error("an answer that was left in the middle counts")
		}
		if got := w.do(c, proxytest.Request(t, "POST", w.shop("/v1/chat"), strings.NewReader("{}"))); got.Text != "again" || got.Paid(t) != id {
			t.Errorf("%q", got.Text)
		}
	})
}

// A stream goes on behind an own end. The next event has begun and has not ended when its client is cut off: that was
// no client which was content with the first one.
func TestClientLeavesInsideAnEventBehindTheOwnEnd(t *testing.T) {
	t.Parallel()
	for name, begins := range map[string]string{
		"in its data": "data: {\"type\":\"message_start\",\"text\":\"half",
		"by its name": "event: message_start\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ways(t, func(t *testing.T, a way) {
				w := a.world(t)
				stream(w.seller, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", begins)
				c := w.buyer()
				id := take(t, w, c, strings.TrimSpace(begins))
				if p := w.Closed(id); p.Answered {
					t.Error("an answer that was cut in the middle of an event counts")
				}
				if got := w.do(c, proxytest.Request(t, "POST", w.shop("/v1/chat"), strings.NewReader("{}"))); got.Text != "again" || got.Paid(t) != id {
					t.Errorf("%q", got.Text)
				}
			})
		})
	}
}
