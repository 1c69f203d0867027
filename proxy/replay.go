package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

var (
	errCut      = errors.New("request body taken back for the paid request")
	errTooLarge = errors.New("request body above the replay limit")
)

// replay is a request body that is kept, up to a limit, while it is being sent for the
// first time, so that the request can be sent again with a payment.
//
// The first reader may still be reading when the answer is there already, and may close
// the body while a Read waits for the client. So closing takes no lock, and closes the
// source only once nobody will want the rest of it.
type replay struct {
	src   io.ReadCloser
	limit int64

	cut    atomic.Bool // the first reader gets no more
	free   atomic.Bool // not to be sent again: nothing is kept any more
	closed atomic.Bool // the first reader has closed the body
	end    sync.Once   // closes src

	mu   sync.Mutex // held while reading
	kept []byte
	over bool  // more than limit was read
	err  error // of the source, io.EOF at its end
}

// newReplay wraps the body of req; nil if it has none.
func newReplay(req *http.Request, limit int64) *replay {
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	r := &replay{src: req.Body, limit: limit, over: req.ContentLength > limit}
	if !r.over && req.ContentLength > 0 {
		r.kept = make([]byte, 0, min(req.ContentLength, 64<<10))
	}
	return r
}

func (r *replay) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut.Load() {
		return 0, errCut
	}
	if r.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return r.read(p)
}

// read is called with r.mu held.
func (r *replay) read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.src.Read(p)
	r.err = err
	switch {
	case r.over || r.free.Load():
		r.kept = nil
	case int64(len(r.kept)+n) > r.limit:
		r.over, r.kept = true, nil
	default:
		r.kept = append(r.kept, p[:n]...)
	}
	return n, err
}

// Close is the first reader's. The source stays open until it is decided that the request
// is not sent again.
func (r *replay) Close() error {
	r.closed.Store(true)
	if r.free.Load() {
		r.closeSource()
	}
	return nil
}

func (r *replay) closeSource() { r.end.Do(func() { _ = r.src.Close() }) }

// release decides that the request is not sent again: the first reader goes on alone. It
// never waits, because the first reader may be waiting for the client.
func (r *replay) release() {
	if r == nil {
		return
	}
	r.free.Store(true)
	if r.closed.Load() || r.cut.Load() {
		r.closeSource()
	}
	if r.mu.TryLock() {
		r.kept = nil
		r.mu.Unlock()
	}
}

// whole takes the body back from the first reader and returns all of it, reading from the
// client what is missing. The errors are errTooLarge and the source's.
func (r *replay) whole() ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	r.cut.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	var chunk []byte
	for !r.over && r.err == nil {
		if chunk == nil {
			chunk = make([]byte, 16<<10)
		}
		_, _ = r.read(chunk) // the result is in r.err and r.over
	}
	switch {
	case r.over:
		return nil, errTooLarge
	case !errors.Is(r.err, io.EOF):
		return nil, r.err
	}
	r.closeSource()
	return r.kept, nil
}
