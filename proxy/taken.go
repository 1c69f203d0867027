package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// Taken returns a body for an answer to a paid request that tells how it is taken, for a door that does not write
// answers itself. ctx ends when the client leaves. answered becomes true while the client has, or may have, all that
// was read of the answer. end is called, perhaps more than once, as soon as it is known how the exchange ended: before
// the client sees that its answer was cut, and before a connection that has switched protocols is read.
func Taken(ctx context.Context, req *http.Request, resp *http.Response, answered *atomic.Bool, end func(answered bool)) io.ReadCloser {
	if conn, ok := resp.Body.(io.ReadWriteCloser); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		return &upgraded{ReadWriteCloser: conn, ctx: ctx, end: end}
	}
	// Without a body, the client may have all of the answer before it is looked at.
	answered.Store(bodyless(req, resp) && ctx.Err() == nil)
	return &delivered{ReadCloser: resp.Body, ctx: ctx, left: resp.ContentLength, answered: answered, end: end}
}

func bodyless(req *http.Request, resp *http.Response) bool {
	return req.Method == http.MethodHead || resp.ContentLength == 0 ||
		resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified
}

// delivered is the body of an answer to a paid request.
type delivered struct {
	io.ReadCloser
	ctx      context.Context
	left     int64 // bytes that were not read yet; below 0: not known
	answered *atomic.Bool
	end      func(bool)
}

// Read gives the last byte alone, which goes out with the end of an HTTP/2 stream then: see [conns.Ending].
func (d *delivered) Read(p []byte) (int, error) {
	if d.left > 1 && int64(len(p)) >= d.left {
		p = p[:d.left-1]
	}
	n, err := d.ReadCloser.Read(p)
	d.left -= int64(n)
	switch {
	case err == nil:
	case !errors.Is(err, io.EOF):
		d.answered.Store(false)
		d.end(false)
	case d.ctx.Err() == nil:
		d.answered.Store(true)
	}
	return n, err
}

// upgraded is a connection that has switched protocols. The first read from the upstream comes after the
// client was told; how long the connection then lives has nothing to do with the payment.
type upgraded struct {
	io.ReadWriteCloser
	ctx context.Context
	end func(bool)
}

func (u *upgraded) Read(p []byte) (int, error) {
	u.end(u.ctx.Err() == nil)
	return u.ReadWriteCloser.Read(p)
}

var errNoHalfClose = errors.New("the connection cannot be closed for writing alone")

// CloseWrite passes on that the client has nothing more to say.
func (u *upgraded) CloseWrite() error {
	if c, ok := u.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errNoHalfClose
}

// WriteWait and WritePause bound how long a reverse proxy may go on writing after its client left. Writing to
// a connection that is gone fails sooner.
const (
	WriteWait  = 5 * time.Second
	WritePause = 50 * time.Millisecond // between looks, at most
)

// Await reports whether a reverse proxy ends to write soon. It does not tell when it has, if the client was gone
// before, so it is looked at, less and less often.
func Await(ended func() bool) bool {
	deadline := time.Now().Add(WriteWait)
	for pause := time.Millisecond; ; pause = min(2*pause, WritePause) {
		if ended() {
			return true
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		time.Sleep(min(pause, left))
	}
}

// Below returns a request whose path has the path of a base URL before its own, which stays as it is.
func Below(base *url.URL, r *http.Request) *http.Request {
	if base.Path == "" {
		return r
	}
	u := *r.URL
	if u.RawPath != "" || base.RawPath != "" {
		u.RawPath = base.EscapedPath() + r.URL.EscapedPath()
	}
	u.Path = base.Path + r.URL.Path
	out := r.WithContext(r.Context())
	out.URL = &u
	return out
}
