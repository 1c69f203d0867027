package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

const (
	// maxUnprocessed bounds how often a request is sent again that its upstream did not process.
	maxUnprocessed = 4
	// unprocessedPause is the time before the first of them. It doubles with each.
	unprocessedPause = 50 * time.Millisecond
)

// unprocessed reports whether an upstream has said, over HTTP/2, that it did nothing with a request: by
// REFUSED_STREAM, or by GOAWAY with a lower last stream. purser may send that request again, whatever its method
// (RFC 9113, section 8.7). http.Transport does that by itself for requests without a body. It tells of the
// others only in words, which hold nothing of the upstream's. With GetBody it would send them again, but
// also after PROTOCOL_ERROR, which does not say that nothing was done.
func unprocessed(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		text := err.Error()
		if strings.HasPrefix(text, "http2: Transport received GOAWAY from server ErrCode:") { // on the connection's first stream
			return true
		}
		if why, is := strings.CutPrefix(text, "http2: Transport: cannot retry err ["); is {
			return strings.Contains(why, "; REFUSED_STREAM; received from peer]") ||
				strings.HasPrefix(why, "http2: Transport received Server's graceful shutdown GOAWAY]")
		}
	}
	return false
}

// waitToSend waits before a request is sent again for the n-th time, counted from 0. It reports whether it may be.
func waitToSend(ctx context.Context, err error, n int) bool {
	if n >= maxUnprocessed || !unprocessed(err) {
		return false
	}
	timer := time.NewTimer(unprocessedPause << n)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// sendThrough sends a request that is not paid for, again if its upstream did not process it and its body is kept.
func (t *Transport) sendThrough(req *http.Request) (*http.Response, error) {
	for n := 0; ; n++ {
		resp, err := t.next.RoundTrip(req)
		if err == nil || !waitToSend(req.Context(), err, n) {
			return resp, err
		}
		switch body := req.Body.(type) {
		case nil:
		case *reading:
			again, gone := body.r.open()
			if gone != nil {
				return nil, err
			}
			req = withBody(req, again)
		default:
			if req.Body != http.NoBody {
				return nil, err
			}
		}
	}
}
