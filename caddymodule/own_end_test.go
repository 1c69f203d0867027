package caddymodule

import (
	"bufio"
	"io"
	"net/http"
	"testing"

	"github.com/purserpay/purser/pay"
)

// A client leaves at the last event of a stream, and the seller's side goes on: the client has its answer. Behind
// reverse_proxy purser cannot tell when an event was written, so there the client's repeat gets the payment.
func TestClientLeavesAtTheOwnEnd(t *testing.T) {
	v := newVendor(t)
	for name, s := range sidecars(t, v) {
		t.Run(name, func(t *testing.T) {
			release, settled := make(chan struct{}), make(chan struct{})
			v.delivers(func(w http.ResponseWriter, r *http.Request, n int) {
				v.receipt(w, n)
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: {\"n\":1}\n\ndata: [DONE]\n\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-release:
					close(settled)
				case <-r.Context().Done():
				}
			})
			mustLoad(t, s.caddyfile())
			resp, err := newClient(t).Do(newRequest(t, "POST", s.url()+"/v1/chat", nil))
			if err != nil {
				t.Fatal(err)
			}
			in := bufio.NewScanner(resp.Body)
			for in.Scan() && in.Text() != "data: [DONE]" {
			}
			_ = resp.Body.Close()
			if p := closed(t); p.State != pay.Settled || p.Answered != (name == "upstream") {
				t.Errorf("%s, answered %t", p.State, p.Answered)
			}
			if close(release); name == "upstream" {
				<-settled
			}
		})
	}
}
