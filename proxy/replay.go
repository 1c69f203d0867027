package proxy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"

	"github.com/purserpay/purser/pay"
)

var (
	errCut        = errors.New("request body taken back for a further attempt")
	errGone       = errors.New("request body was sent in part and is not kept, so it cannot be sent again")
	errIncomplete = errors.New("request body could not be read to its end")
)

// replay is a request body that is kept while it is being sent for the first time, so
// that the request can be sent again, with a payment or to another upstream.
//
// If a reader is still reading when the next one is opened, it gets no more, and what it was about
// to get is not lost. A reader may close the body while a Read waits for the client, so mu is never
// held while the source is read.
type replay struct {
	src io.ReadCloser
	end sync.Once // closes src

	rd sync.Mutex // held while src is read

	mu     sync.Mutex
	cur    *reading // all others are cut
	kept   kept
	sum    *bodySum
	err    error  // of src, io.EOF at its end
	lost   error  // why the copy stops short, nil while it does not
	ahead  []byte // read from src behind the end of such a copy, for the next reader
	passed bool   // a reader has gone beyond the copy: the body cannot be sent again
	free   bool   // it will not be sent again: the current reader goes on alone
}

// reading is a reader of a replay. Only the last one opened gets anything.
type reading struct {
	r      *replay
	pos    int64 // in the copy
	closed bool
}

// newReplay wraps the body of a key's request, which must have one.
func newReplay(req *http.Request, keyID string, s *spooler) *replay {
	r := &replay{src: req.Body, kept: s.keep(keyID, req.ContentLength), sum: newBodySum(req.Header)}
	if req.ContentLength > s.most {
		r.lost = errTooLarge
	}
	return r
}

// open starts a reader at the beginning, unless that is gone. It cuts off the others.
func (r *replay) open() (*reading, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.passed || r.free {
		return nil, errGone
	}
	r.cur = &reading{r: r}
	return r.cur, nil
}

// Read implements io.Reader.
func (b *reading) Read(p []byte) (int, error) {
	r := b.r
	r.rd.Lock()
	defer r.rd.Unlock()
	if n, err := r.stored(b, p); n > 0 || err != nil {
		return n, err
	}
	n, err := r.src.Read(p)
	return r.arrived(b, p[:n], err)
}

// Close implements io.Closer. The source stays open until it is decided that the body is
// not sent again.
func (b *reading) Close() error {
	r := b.r
	r.mu.Lock()
	b.closed = true
	last := r.free && r.cur == b
	if last {
		r.kept.drop()
	}
	r.mu.Unlock()
	if last {
		r.closeSource()
	}
	return nil
}

// stored reads from the copy. Without bytes and without an error the source is next.
func (r *replay) stored(b *reading, p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.cur != b:
		return 0, errCut
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case len(p) == 0:
		return 0, nil
	case b.pos < r.kept.size:
		n, err := r.kept.at(p, b.pos)
		b.pos += int64(n)
		return n, err
	case len(r.ahead) > 0:
		n := copy(p, r.ahead)
		r.ahead = r.ahead[n:]
		r.pass()
		return n, nil
	}
	return 0, r.err
}

// arrived takes bytes that came from the source. They are for the reader b, unless that was cut
// meanwhile. Without a reader b is nil.
func (r *replay) arrived(b *reading, p []byte, err error) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	mine := b != nil && r.cur == b
	n := 0
	if r.lost == nil && !r.free {
		_, _ = r.sum.Write(p)
		n, r.lost = r.kept.add(p)
	}
	switch {
	case !mine:
		r.ahead = append(r.ahead, p[n:]...)
		return 0, errCut
	case n < len(p):
		r.pass()
	default:
		b.pos += int64(n)
	}
	return len(p), err
}

// pass notes that bytes were handed out which no later reader can get. The caller holds mu.
func (r *replay) pass() {
	r.passed = true
	r.kept.drop()
}

// whole takes the body back from its reader and completes the copy from the client. After an error,
// one of errTooLarge, errQuota, errSpool, errGone and errIncomplete, it can still be sent once.
func (r *replay) whole() (content, error) {
	if r == nil {
		sum := pay.Hash(sha256.Sum256(nil))
		return content{sum: sum, plain: sum}, nil
	}
	r.mu.Lock()
	r.cur = nil
	r.mu.Unlock()
	r.rd.Lock()
	defer r.rd.Unlock()
	var chunk []byte
	for {
		r.mu.Lock()
		passed, lost, err := r.passed || r.free, r.lost, r.err
		if !passed && lost == nil && err == io.EOF { //nolint:errorlint // readers return it bare
			defer r.mu.Unlock()
			says, plain := r.sum.sums()
			return content{replay: r, size: r.kept.size, sum: says, plain: plain}, nil
		}
		r.mu.Unlock()
		switch {
		case lost != nil:
			return content{}, lost
		case passed:
			return content{}, errGone
		case err != nil:
			return content{}, fmt.Errorf("%w: %w", errIncomplete, err)
		}
		if chunk == nil {
			chunk = make([]byte, 16<<10)
		}
		n, err := r.src.Read(chunk)
		_, _ = r.arrived(nil, chunk[:n], err) // the loop looks at the result
	}
}

// release decides that the body is not sent again: its reader goes on alone. It never
// waits, because the reader may be waiting for the client.
func (r *replay) release() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.free = true
	idle := r.cur == nil || r.cur.closed
	if idle || r.cur.pos >= r.kept.size {
		r.kept.drop()
	}
	r.mu.Unlock()
	if idle {
		r.closeSource()
	}
}

func (r *replay) closeSource() { r.end.Do(func() { _ = r.src.Close() }) }

// content holds the whole body of a request that is paid for.
type content struct {
	replay *replay // nil: there is none
	size   int64
	sum    pay.Hash // by what it says: see bodySum
	plain  pay.Hash // as it came
}

// gone reports whether the body has been given up, so that it cannot be sent any more.
func (c content) gone() bool {
	if c.size == 0 {
		return false
	}
	c.replay.mu.Lock()
	defer c.replay.mu.Unlock()
	return c.replay.free
}

// reader starts a reader of the body, nil if there is nothing in it.
func (c content) reader() (io.ReadCloser, error) {
	if c.size == 0 {
		return nil, nil
	}
	return c.replay.open()
}

// sameBody reports whether two requests have the same body to read from. If that cannot
// be told, they have.
func sameBody(a, b io.ReadCloser) bool {
	if a == nil || b == nil {
		return a == b
	}
	return !reflect.ValueOf(a).Comparable() || !reflect.ValueOf(b).Comparable() || a == b
}
