package forward

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/proxy"
)

// connect serves CONNECT: intercepted where that is asked for, else with a blind tunnel.
func (f *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	host, port, err := guard.SplitAuthority(r.Host)
	var (
		who caller
		no  *refusal
	)
	switch {
	case r.ProtoMajor != 1:
		no = otherProtocol
	case err != nil || r.URL.Path != "":
		no = badRequest("CONNECT needs a host and a port")
	case looped(r.Header, f.pseudonym):
		no = inALoop
	default:
		who, no = f.authenticate(r)
	}
	if no != nil {
		f.refuse(w, r, who, no)
		return
	}
	t, ok := f.tunnels.acquire(who.key.ID, r.RemoteAddr)
	if !ok {
		f.refuse(w, r, who, busy(reasonTunnels, textTunnels, nil))
		return
	}
	if f.interception.opens(host) {
		f.intercept(w, r, f.newSession(t, who, host, port))
		return
	}
	defer t.release()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := context.AfterFunc(t.life, cancel) // the proxy may be closed meanwhile
	defer stop()
	upstream, err := f.dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		f.refuseDial(w, r, who, err)
		return
	}
	defer upstream.Close()
	client, err := f.takeOver(w, r)
	if err != nil {
		return
	}
	f.log.Debug("tunnel opened", "key", who.key.ID, "host", host, "port", port, "address", upstream.RemoteAddr().String())
	t.run(client, upstream)
}

// takeOver takes the connection of a CONNECT over and tells the client that its tunnel is
// open. An error has been answered, as far as it could be.
func (f *Proxy) takeOver(w http.ResponseWriter, r *http.Request) (*peekedConn, error) {
	conn, err := hijack(w)
	if err != nil {
		f.log.Error("CONNECT not taken over", "error", err)
		f.refuse(w, r, caller{}, &refusal{status: http.StatusInternalServerError, reason: proxy.DeclinedInternal, text: "Internal error"})
		return nil, err
	}
	f.observer.Answered(proxy.ResultTunnel)
	if _, err := io.WriteString(conn, established); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("answering CONNECT: %w", err)
	}
	return conn, nil
}

// hijack takes the connection over, with what the client has sent already.
func hijack(w http.ResponseWriter) (*peekedConn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("taking the connection over: %w", err)
	}
	_ = conn.SetDeadline(time.Time{}) // the server's deadlines are for requests
	client := &peekedConn{Conn: conn}
	client.early, _ = buffered.Peek(buffered.Reader.Buffered()) // from the buffer alone, which nothing else uses
	return client, nil
}
