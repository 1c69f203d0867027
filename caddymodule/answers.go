package caddymodule

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// unreadTime bounds the wait for the rest of a body that is not read.
const unreadTime = 2 * time.Second

// writeError answers with a JSON error. Our handlers answer errors themselves: one that
// is returned to Caddy is logged together with the request's headers, secrets included.
func writeError(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	// The server waits for what is left of the request's body before it sends the answer.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTime))
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text})
}

// writeUnavailable answers while the store cannot be opened, or is closed already.
func writeUnavailable(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	writeError(w, http.StatusServiceUnavailable, "Service unavailable")
}

// answering turns Caddy's next handler into one that answers its errors itself.
func answering(next caddyhttp.Handler, failed func(error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := next.ServeHTTP(w, r)
		if err == nil {
			return
		}
		failed(err)
		status := caddyhttp.Error(http.StatusInternalServerError, err).StatusCode
		writeError(w, status, http.StatusText(status))
	})
}
