package conns

import (
	"net/http"
	"strconv"
)

// Ending returns a writer for the answer to a request. watched says, once the answer begins, whether a Watch is
// to be made for it: if not, the answer is written as ever. Over HTTP/2, and if the length of a watched answer is
// known, the writer sends all but the last byte at once. The last byte goes out when the handler returns, in one
// frame with END_STREAM. So does all of an answer without a body.
//
// A client may count bytes instead of waiting for END_STREAM. It closes its connection at the last byte. If
// END_STREAM came alone, and later, that would break the connection off before the answer is acknowledged.
func Ending(w http.ResponseWriter, r *http.Request, watched func() bool) http.ResponseWriter {
	if r.ProtoMajor != 2 || r.Method == http.MethodHead {
		return w
	}
	return &ending{ResponseWriter: w, watched: watched}
}

type ending struct {
	http.ResponseWriter
	watched func() bool
	begun   bool
	left    int64 // bytes of the answer; 0: not known, not watched, or all were written
	held    bool  // what is left waits for the handler's return
}

func (e *ending) WriteHeader(status int) {
	if status >= http.StatusOK && !e.begun && e.watched() {
		length := e.Header().Get("Content-Length")
		if _, told := e.Header()["Content-Type"]; told { // else net/http looks for it in all of a short answer
			e.left, _ = strconv.ParseInt(length, 10, 64)
		}
		e.held = length == "0" || status == http.StatusNoContent || status == http.StatusNotModified
	}
	e.begun = e.begun || status >= http.StatusOK
	e.ResponseWriter.WriteHeader(status)
}

func (e *ending) Write(p []byte) (int, error) {
	if !e.begun {
		e.WriteHeader(http.StatusOK)
	}
	if e.left == 0 || int64(len(p)) != e.left {
		n, err := e.ResponseWriter.Write(p)
		e.left = max(0, e.left-int64(n))
		return n, err
	}
	last := len(p) - 1
	n, err := e.ResponseWriter.Write(p[:last])
	if err == nil {
		err = http.NewResponseController(e.ResponseWriter).Flush()
	}
	if err != nil {
		e.left -= int64(n)
		return n, err
	}
	e.left, e.held = 0, true
	_, err = e.ResponseWriter.Write(p[last:])
	return len(p), err
}

// FlushError sends what was written, but for what belongs to the end.
func (e *ending) FlushError() error {
	if e.held {
		return nil
	}
	return http.NewResponseController(e.ResponseWriter).Flush()
}

// Unwrap returns the writer below, for [http.ResponseController].
func (e *ending) Unwrap() http.ResponseWriter { return e.ResponseWriter }
