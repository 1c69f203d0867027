package proxy

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/purserpay/purser/internal/failpoint"
)

// guarded takes Purser-* headers and trailers out of a response, because only purser may write them, and
// Alt-Svc, which would lead the client past purser. It refuses a status that no server can write.
func guarded(resp *http.Response) (*http.Response, error) {
	if resp.StatusCode < 100 || resp.StatusCode > 999 {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("upstream answered with status %d", resp.StatusCode)
	}
	strip(resp.Header)
	strip(resp.Trailer) // as announced; what comes is looked at in the end
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == nil || resp.Body == http.NoBody {
		return resp, nil
	}
	resp.Body = &watched{ReadCloser: resp.Body, resp: resp}
	return resp, nil
}

// strip takes out what no answer may tell the client.
func strip(h http.Header) {
	StripOwn(h)
	h.Del("Alt-Svc")
}

// watched is a response body that tells how it ended.
type watched struct {
	io.ReadCloser
	resp    *http.Response
	onClose func()
	ended   func(error) // hears how the body ended; may be nil
	over    func(complete bool)
	once    sync.Once    // over was called
	piece   func([]byte) // sees what is read before the reader does; may be nil
	tail    *tail        // nil: the answer has no end but that of the body
	last    func()       // hears that the last of the body was read; may be nil
	left    int64        // bytes of a body whose length is known
	err     error        // which the body ended with, or is about to
	done    atomic.Bool  // err is set; a timer may close a body that is being read
}

func (b *watched) Read(p []byte) (int, error) {
	if b.tail.written() && b.ended != nil {
		b.ended(io.EOF)
		b.ended = nil
	}
	n, err := 0, b.err
	if err == nil {
		n, err = b.ReadCloser.Read(p)
		b.err = err
		b.done.Store(err != nil)
	}
	failpoint.Here(failpoint.ProxyPiece)
	if b.piece != nil {
		b.piece(p[:n])
	}
	if b.tail.read(p[:n]) { // the next Read says that they were written
		err = nil
	}
	if b.left -= int64(n); b.last != nil && (err == io.EOF || b.left == 0) {
		b.last()
		b.last = nil
	}
	if err == io.EOF { // bodies return it bare; trailers are there from now on
		strip(b.resp.Trailer)
	}
	if ended := b.ended; err != nil && ended != nil {
		b.ended = nil
		ended(err)
	}
	if err != nil {
		b.end(err == io.EOF)
	}
	return n, err
}

func (b *watched) end(complete bool) {
	if b.over != nil {
		b.once.Do(func() { b.over(complete) })
	}
}

func (b *watched) Close() error {
	if !b.done.Load() && b.tail.closing() {
		_, _ = io.CopyN(io.Discard, b.ReadCloser, maxReadOn)
	}
	err := b.ReadCloser.Close()
	b.end(false)
	if b.onClose != nil {
		b.onClose()
	}
	return err
}

// onClose calls f once the response's body is closed.
func onClose(resp *http.Response, f func()) {
	switch body := resp.Body.(type) {
	case *watched:
		body.onClose = f
	case io.ReadWriteCloser: // a connection that has switched protocols must stay one
		resp.Body = switched{&watched{ReadCloser: body, resp: resp, onClose: f}, body}
	default:
		resp.Body = &watched{ReadCloser: body, resp: resp, onClose: f}
	}
}

// onEnd calls f once the response's body was read to its end, or else closed. Without one it calls f at once.
func onEnd(resp *http.Response, f func(complete bool)) {
	if body, ok := resp.Body.(*watched); ok {
		body.over = f
		return
	}
	f(true)
}

// switched is a connection that speaks another protocol now.
type switched struct {
	*watched
	io.Writer
}
