package metrics

import (
	"net/http"
	"strconv"
)

// CountAnswer serves a request of the API and counts the status of its answer.
func CountAnswer(h http.Handler, w http.ResponseWriter, r *http.Request) {
	c := &countedWriter{ResponseWriter: w, status: http.StatusOK}
	h.ServeHTTP(c, r)
	Process.Responses.WithLabelValues(strconv.Itoa(c.status)).Inc()
}

// countedWriter remembers the status of an answer.
type countedWriter struct {
	http.ResponseWriter
	status int
}

func (w *countedWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
