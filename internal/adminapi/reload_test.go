package adminapi_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
)

// Each load replaces the admin endpoint: a reload is answered when the old one takes no connection any more, or a
// client that connects next would be closed without an answer.
func TestReloadIsAnsweredByTheLast(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]error{"loaded": nil, "refused by the server": &adminapi.LoadError{Err: errors.New("no")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var server *httptest.Server
			var stopping sync.WaitGroup
			handler := &adminapi.Handler{
				Serving: func() *adminapi.Purser { return nil }, Host: func() string { return "" },
				Reload: func(adminapi.Reload) (adminapi.Reloaded, error) {
					stopping.Go(func() {
						time.Sleep(20 * time.Millisecond) // as long as the new endpoint takes
						if err := server.Config.Shutdown(t.Context()); err != nil {
							t.Error(err)
						}
					})
					return adminapi.Reloaded{}, refused
				},
			}
			server = httptest.NewServer(handler.Mux())
			t.Cleanup(server.Close)
			post := func() (*http.Response, error) {
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				return client.Post(server.URL+"/purser/reload", "application/json", strings.NewReader("{}"))
			}
			resp, err := post()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp, err = post(); err == nil {
				_ = resp.Body.Close()
				t.Error("the old endpoint takes a connection behind its answer")
			}
			stopping.Wait()
		})
	}
}

// A reload that does not reach the server is answered at once.
func TestReloadThatLoadsNothing(t *testing.T) {
	t.Parallel()
	handler := &adminapi.Handler{
		Serving: func() *adminapi.Purser { return nil }, Host: func() string { return "" },
		Reload: func(adminapi.Reload) (adminapi.Reloaded, error) { return adminapi.Reloaded{}, errors.New("no file") },
	}
	server := httptest.NewServer(handler.Mux())
	t.Cleanup(server.Close)
	begun := time.Now()
	resp, err := http.Post(server.URL+"/purser/reload", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if d := time.Since(begun); resp.StatusCode != http.StatusConflict || d > time.Second {
		t.Errorf("%d after %s", resp.StatusCode, d)
	}
}
