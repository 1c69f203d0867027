// Package endpointtest provides faulty services for tests of package endpoint and its users.
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

// HangsUp serves h, but closes each connection when a second request arrives on it. A server does
// so when its idle timeout ends just as the connection is used again. came counts all requests.
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
