// Package endpointtest has services that behave badly towards whoever calls them through package endpoint.
package endpointtest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

type connectionUsed struct{}

// HangsUp serves h at an address of its own, but closes each connection instead of answering the second request on it, as a
// server does whose patience with an idle connection ends just as it is used again. came counts all requests.
func HangsUp(t *testing.T, h http.Handler) (url string, came *atomic.Int32) {
	t.Helper()
	came = new(atomic.Int32)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came.Add(1)
		if r.Context().Value(connectionUsed{}).(*atomic.Bool).Swap(true) {
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	}))
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, connectionUsed{}, new(atomic.Bool))
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, came
}
