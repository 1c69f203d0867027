package forward

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/proxy"
)

var (
	errTunnels = errors.New("too many tunnels are open")
	errUnasked = errors.New("the upstream switched to a protocol that nobody asked for")
)

// upgraded makes a connection that switched protocols a tunnel among the others. Inside an
// intercepted connection it is part of that one.
func (f *Proxy) upgraded(resp *http.Response, call *proxy.Call) error {
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || !strings.EqualFold(resp.Header.Get("Upgrade"), resp.Request.Header.Get("Upgrade")) {
		return errUnasked
	}
	u := &upgrade{ReadWriteCloser: conn, call: call, idle: f.tunnels.idle, release: func() {}}
	var life context.Context
	if s, inside := resp.Request.Context().Value(sessionKey{}).(*session); inside {
		life = s.tunnel.life
	} else {
		t, ok := f.tunnels.acquire(call.Key.ID, resp.Request.RemoteAddr)
		if !ok {
			return errTunnels
		}
		life, u.release = t.life, t.release
	}
	u.quiet = time.AfterFunc(math.MaxInt64, func() { _ = u.Close() })
	u.quiet.Reset(u.idle)
	context.AfterFunc(life, func() { _ = u.Close() })
	resp.Body = u
	return nil
}

// upgrade is the upstream's side of such a connection.
type upgrade struct {
	io.ReadWriteCloser
	call  *proxy.Call
	idle  time.Duration
	quiet *time.Timer

	answered, closing sync.Once
	release           func()
}

// Read ends the call, the first time: the answer that switched protocols has been written then.
func (u *upgrade) Read(p []byte) (int, error) {
	u.answered.Do(func() { u.call.Finish(true) })
	n, err := u.ReadWriteCloser.Read(p)
	u.moved(err)
	return n, err
}

func (u *upgrade) Write(p []byte) (int, error) {
	n, err := u.ReadWriteCloser.Write(p)
	u.moved(err)
	return n, err
}

func (u *upgrade) moved(err error) {
	if err == nil {
		u.quiet.Reset(u.idle)
	}
}

// Close gives the tunnel's place back. The relay calls it when either side is done.
func (u *upgrade) Close() error {
	err := u.ReadWriteCloser.Close()
	u.closing.Do(func() {
		u.quiet.Stop()
		u.release()
	})
	return err
}
