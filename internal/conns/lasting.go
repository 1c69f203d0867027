package conns

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// halfClosing bounds the time from the end of a request to the end of its client's side. A client that ends it
	// later gives up, as programs do after 10 seconds and more.
	halfClosing = 5 * time.Second
	// lookAgain is the time between looks at a connection whose client has ended its side.
	lookAgain = 250 * time.Millisecond
)

type askedKey struct{}

// Lasting lets a request of HTTP/1 go on when its client has ended its sending side of the connection, as
// "nc -N" and some programs of HTTP/1.0 do while they wait for the answer (RFC 9112 §9.6). net/http takes that
// end for the client's leaving. The returned request ends when the connection is broken, or the client ends its
// side more than 5 seconds behind the request. A client that closes all of the connection looks the same until
// something is written, or until its system answers keepalive with a reset, a minute later. So a payment goes by
// [Asked]. The caller calls over when the request is answered.
func Lasting(r *http.Request) (lasting *http.Request, over func()) { return lastingFrom(r, time.Now()) }

func lastingFrom(r *http.Request, begun time.Time) (lasting *http.Request, over func()) {
	ctx := r.Context()
	c := clientOf(ctx)
	if c == nil || c.socket == nil || !Looks || r.ProtoMajor != 1 || ctx.Value(askedKey{}) != nil {
		return r, func() {}
	}
	out, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), askedKey{}, ctx))
	sent := new(atomic.Int64)
	sent.Store(begun.UnixNano())
	looked := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(looked)
		for late := time.Since(time.Unix(0, sent.Load())) > halfClosing; !late && !c.severed(); {
			again := time.NewTimer(lookAgain)
			select {
			case <-again.C:
			case <-out.Done():
				again.Stop()
				return
			}
		}
		cancel(context.Cause(ctx))
	})
	lasting = r.WithContext(out)
	if r.Body != nil && r.Body != http.NoBody {
		lasting.Body = timed{r.Body, sent}
	}
	return lasting, func() {
		cancel(nil)
		if !stop() {
			<-looked
		}
	}
}

// timed is a body that notes when it was read last.
type timed struct {
	io.ReadCloser
	at *atomic.Int64 // in nanoseconds since 1970
}

func (b timed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.at.Store(time.Now().UnixNano())
	return n, err
}

// Asked returns the context that ends when the client ends its side of the connection, with the values of ctx: ctx
// itself, if Lasting has not made it.
func Asked(ctx context.Context) context.Context {
	if client, ok := ctx.Value(askedKey{}).(context.Context); ok {
		return asked{client, ctx}
	}
	return ctx
}

// asked ends with one context, and has the values of another that was made of it later.
type asked struct {
	context.Context
	values context.Context
}

func (a asked) Value(key any) any { return a.values.Value(key) }

// AfterFunc keeps package context from waiting in a goroutine for each context that is made of this one.
func (a asked) AfterFunc(f func()) func() bool { return context.AfterFunc(a.Context, f) }

// severed reports whether nothing can be sent to the client any more.
func (c *client) severed() bool {
	is := false
	err := c.socket.Control(func(fd uintptr) { is = severed(int(fd)) })
	return is || err != nil
}
