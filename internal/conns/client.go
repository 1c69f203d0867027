package conns

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Bounds of the time after which a client that is not heard of counts as gone.
const (
	keepAliveIdle = 15 * time.Second
	// userTimeout bounds how long the client's side may leave bytes unacknowledged, or its window shut.
	userTimeout = time.Minute
)

// Bounds of the wait for a client's acknowledgement of an answer.
const (
	firstLook = time.Millisecond
	lastLook  = 50 * time.Millisecond
	// ackQuiet bounds the time in which nothing more is acknowledged, ackWait all of it.
	ackQuiet = 5 * time.Second
	ackWait  = 30 * time.Second
	// closeWait bounds the wait for a client that has all of its answer to close the connection, endWait that
	// for one that closes it because of the server's end.
	closeWait = time.Second
	endWait   = closeWait / 2
)

type connKey struct{}

// client is the connection that requests come from, as far as it is known.
type client struct {
	words  rephrased       // nil: the connection is not read ahead
	socket syscall.RawConn // nil: the connection has none
	unix   bool            // a Unix socket
	tls    bool
}

// In keeps a connection in the context of its requests, for the functions of this package. It is for
// http.Server.ConnContext. The connection may be wrapped: see [below]. A client whose machine is gone is
// noticed within a minute from here on.
func In(ctx context.Context, c net.Conn) context.Context {
	if clientOf(ctx) != nil {
		return ctx
	}
	var is client
	for ; c != nil; c = below(c) {
		if own, ok := c.(rephrased); ok && is.words == nil {
			is.words = own
		}
		if _, ok := c.(*tls.Conn); ok {
			is.tls = true
		}
		if s, ok := c.(syscall.Conn); ok {
			is.socket, _ = s.SyscallConn()
			_, is.unix = c.(*net.UnixConn)
			tune(c)
			break
		}
	}
	if is.words == nil && is.socket == nil {
		return ctx
	}
	return context.WithValue(ctx, connKey{}, &is)
}

// InDoor is In for a door that pays: it does not pay for requests whose client could leave unseen, see
// [Blind].
func InDoor(ctx context.Context, c net.Conn) context.Context {
	in := In(ctx, c)
	if clientOf(in) == nil {
		return context.WithValue(ctx, connKey{}, new(client))
	}
	return in
}

func clientOf(ctx context.Context) *client {
	c, _ := ctx.Value(connKey{}).(*client)
	return c
}

// below returns the connection that another one is made of, nil if that is not known. TLS and the PROXY
// protocol tell it. Others embed it, by the name that Go gives to it.
func below(c net.Conn) net.Conn {
	switch c := c.(type) {
	case interface{ NetConn() net.Conn }:
		return c.NetConn()
	case interface{ Raw() net.Conn }:
		return c.Raw()
	}
	v := reflect.Indirect(reflect.ValueOf(c))
	if v.Kind() != reflect.Struct {
		return nil
	}
	field, has := v.Type().FieldByName("Conn")
	if !has || !field.IsExported() {
		return nil
	}
	v, err := v.FieldByIndexErr(field.Index)
	if err != nil {
		return nil
	}
	inner, _ := v.Interface().(net.Conn)
	return inner
}

// tune has the system find out that a client's machine is gone. Errors change nothing: the client is then
// noticed later.
func tune(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveIdle, Count: 3})
	bound(tcp, userTimeout)
}

// Unbound lets the client of a tunnel stop reading for as long as it likes.
func Unbound(c net.Conn) {
	for ; c != nil; c = below(c) {
		if tcp, ok := c.(*net.TCPConn); ok {
			bound(tcp, 0)
			return
		}
	}
}

// Gone reports whether the client of a request has ended its side of the connection, also while net/http
// does not read from that.
func Gone(ctx context.Context) bool {
	c := clientOf(ctx)
	if c == nil || c.socket == nil {
		return false
	}
	gone := false
	err := c.socket.Control(func(fd uintptr) { gone = ended(int(fd)) })
	return gone || err != nil
}

// Blind reports whether the client of a request at a door could leave without being noticed.
func Blind(ctx context.Context) bool {
	c := clientOf(ctx)
	return c != nil && c.words == nil && (c.socket == nil || !Looks)
}

// Closes reports whether the field Connection of a request says that the client closes the connection
// behind the answer.
func Closes(connection ...string) bool {
	for _, v := range connection {
		for token := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "close") {
				return true
			}
		}
	}
	return false
}

// Watch keeps the connection of a request open until it is known whether the client has got an answer. It
// is made while the request is served, and ended by one call of Acknowledged or Drop.
type Watch struct {
	of    *sent    // nil: the connection is closed already, or taken
	taken net.Conn // from a server that is not purser's; nil: none
}

// NewWatch makes a Watch; nil if what becomes of an answer cannot be known. written says that all of the answer
// has been written, and nothing belongs to it any more.
func NewWatch(ctx context.Context, written bool) *Watch { return newWatch(ctx, written, !written) }

// newWatch makes a Watch. body says that the body of the answer has been written, more that something will be.
func newWatch(ctx context.Context, body, more bool) *Watch {
	c := clientOf(ctx)
	if c == nil || c.socket == nil || !Looks {
		return nil
	}
	s, err := duplicate(c, body, more)
	if err != nil { // the connection is closed already, or there are too many
		return new(Watch)
	}
	return &Watch{of: s}
}

// Acknowledged waits, once an answer has been written, until the client's system has acknowledged all of it,
// and reports whether it has. It returns after half a minute at most.
//
// A relay acknowledges what it has got as well. So a client that has announced to close the connection must
// do so: see [Closes]. The server's own end of the connection is held back meanwhile, a second at most. A
// client that closes the connection only then was waiting for that end, as a relay does, and counts as one
// without an answer.
func (w *Watch) Acknowledged(closes bool) bool {
	defer w.Drop()
	switch {
	case w.taken != nil:
		return !closes || closedFirst(w.taken)
	case w.of == nil:
		return false
	}
	return w.of.await(closes)
}

// Mark notes that all has been written that the client needs of an answer. More may follow, such as the
// terminator of its body: that need not be acknowledged. The Watch was made before the last length bytes were written.
func (w *Watch) Mark(length int) {
	if w != nil && w.of != nil {
		w.of.mark(length)
	}
}

// Hold waits until what was written before Mark is acknowledged, for the given time at most. A client that closes its
// connection there has received nothing more by then, which would break the connection off.
func (w *Watch) Hold(most time.Duration) {
	if w == nil || w.of == nil {
		return
	}
	until := time.Now().Add(most)
	for pause := firstLook; time.Now().Before(until); pause = min(2*pause, lastLook) {
		if _, all, lost := w.of.look(); all || lost {
			return
		}
		time.Sleep(pause)
	}
}

// Drop ends the watch of an answer that was not written.
func (w *Watch) Drop() {
	switch {
	case w == nil:
	case w.taken != nil:
		_ = w.taken.Close()
	case w.of != nil:
		w.of.close()
	}
}

// Take makes a Watch for a request that has been answered in full. If the server's connections are not known
// here, it takes the connection over if the client has announced to close it. Else it returns nil.
//
// A client that has read its answer may close the connection. If more has come by then, the system breaks the
// connection off, and does not acknowledge the answer any more. So Take holds back the notice with which TLS ends
// a connection. See [Ending] for HTTP/2.
func Take(w http.ResponseWriter, r *http.Request) *Watch {
	// Over HTTP/2, the answer ends when the handler returns.
	if watch := newWatch(r.Context(), true, r.ProtoMajor == 2 && r.Method != http.MethodHead); watch != nil {
		if watch.of != nil && r.ProtoMajor == 1 && clientOf(r.Context()).tls {
			watch.of.cork()
		}
		return watch
	}
	if r.ProtoMajor != 1 || !Closes(r.Header.Values("Connection")...) || w.Header().Get("Content-Length") == "" {
		return nil
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil
	}
	return &Watch{taken: conn}
}

// closedFirst reports whether the client closes a connection before it sees its end, or neither.
func closedFirst(c net.Conn) bool {
	ends := func(within time.Duration) bool {
		_ = c.SetReadDeadline(time.Now().Add(within))
		_, err := io.Copy(io.Discard, c)
		return !errors.Is(err, os.ErrDeadlineExceeded)
	}
	return ends(closeWait) || CloseWrite(c) != nil || !ends(endWait)
}

// CheckWrappers refuses a server of Caddy's whose clients could leave unseen, by its listener wrappers: where
// the system does not tell, the wrapper purser has to read ahead.
func CheckWrappers(wrappers []json.RawMessage) error { return checkWrappers(wrappers, Looks) }

func checkWrappers(wrappers []json.RawMessage, looks bool) error {
	if !looks && !Wrapped(wrappers) {
		return errors.New("purser: on this system a client could leave without being noticed, and its repeat would be paid again: " +
			"put listener_wrappers { purser } into the servers option of the site (see xcaddy.Caddyfile)")
	}
	return nil
}

// Wrapped reports whether the wrapper purser is among those of a server of Caddy's.
func Wrapped(wrappers []json.RawMessage) bool {
	return slices.ContainsFunc(wrappers, func(raw json.RawMessage) bool {
		var w struct {
			Name string `json:"wrapper"`
		}
		return json.Unmarshal(raw, &w) == nil && w.Name == "purser"
	})
}
