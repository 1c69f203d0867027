package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/conns"
)

// tunnel is one CONNECT among the counted tunnels. A blind one moves bytes in both
// directions until both ends are done, one of them breaks off, or nothing has moved for a while.
type tunnel struct {
	set   *tunnels
	keyID string
	peer  netip.Addr // network of the client

	life   context.Context // ends when the tunnel is broken off or released
	end    context.CancelFunc
	active atomic.Int64 // when bytes moved last, in nanoseconds of time.Since(began)
	began  time.Time
}

const established = "HTTP/1.1 200 Connection Established\r\n\r\n"

// run moves bytes until the tunnel is over. Both connections are closed on return.
func (t *tunnel) run(client, upstream net.Conn) {
	t.began = time.Now()
	conns.Unbound(client)
	defer upstream.Close()
	defer client.Close()
	stop := context.AfterFunc(t.life, func() {
		_ = client.Close()
		_ = upstream.Close()
	})
	defer stop()

	var up sync.WaitGroup
	up.Go(func() { t.move(upstream, client) })
	t.move(client, upstream)
	up.Wait()
}

// move copies one direction. At its end it closes the other side for writing only, so
// that what is still under way the other way arrives; anything else ends the tunnel.
func (t *tunnel) move(dst, src net.Conn) {
	buf := make([]byte, bufferSize)
	for {
		n, err := t.read(src, buf)
		if n > 0 {
			_ = dst.SetWriteDeadline(time.Now().Add(t.set.idle))
			if _, werr := dst.Write(buf[:n]); werr != nil {
				t.end()
				return
			}
			t.active.Store(int64(time.Since(t.began)))
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && conns.CloseWrite(dst) == nil:
			return
		default:
			t.end()
			return
		}
	}
}

// read waits for bytes as long as either direction is not idle.
func (t *tunnel) read(src net.Conn, buf []byte) (int, error) {
	for {
		quiet := time.Since(t.began) - time.Duration(t.active.Load())
		_ = src.SetReadDeadline(time.Now().Add(t.set.idle - quiet))
		n, err := src.Read(buf)
		if n > 0 {
			t.active.Store(int64(time.Since(t.began)))
			return n, err
		}
		quiet = time.Since(t.began) - time.Duration(t.active.Load())
		if !errors.Is(err, os.ErrDeadlineExceeded) || quiet >= t.set.idle {
			return n, err
		}
	}
}
