package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/proxy"
)

// Interception says whose HTTPS is opened on the way, and with what certificates. Plain
// HTTP in a tunnel to one of these hosts is looked into as well.
type Interception struct {
	// The HTTPS of Hosts is opened, unless they are in Except.
	Hosts, Except guard.Hosts
	// Leaf makes a certificate, with its chain, for a host in normal form; see [Minter].
	Leaf func(ctx context.Context, host string) (*tls.Certificate, error)
}

// opens reports whether the HTTPS of a host, in normal form, is opened.
func (i *Interception) opens(host string) bool {
	return i != nil && i.Hosts.Contains(host) && !i.Except.Contains(host)
}

const (
	// clientSilence bounds how long purser waits for the client's first bytes before it dials the
	// upstream as well, because in some protocols the server speaks first.
	clientSilence = 250 * time.Millisecond
	// helloTimeout bounds a TLS handshake with a client.
	helloTimeout = 10 * time.Second
)

// Reasons of interception.
const (
	reasonSNI         = "sni-mismatch"
	reasonHandshake   = "tls-handshake"
	reasonNoLeaf      = "no-leaf-certificate"
	reasonMisdirected = "misdirected"
)

var errClientGone = errors.New("the client has gone")

// intercept serves a CONNECT to a host whose HTTPS is opened. It releases the tunnel, and returns when
// nothing is under way for the client any more. The requests inside dial the upstream: a refusal to
// dial that cannot be foreseen here is told to them.
func (f *Proxy) intercept(w http.ResponseWriter, r *http.Request, s *session) {
	f.sessions.add(s)
	defer f.sessions.remove(s)
	defer s.wait()
	defer s.tunnel.release()
	if err := f.dialer.Foresee(s.host, s.port); err != nil {
		f.refuseDial(w, r, s.who, err)
		return
	}
	conn, err := f.takeOver(w, r)
	if err != nil {
		return
	}
	defer conn.Close()
	s.peekedConn, s.connect = conn, r.Context()
	target := net.JoinHostPort(s.host, strconv.Itoa(int(s.port)))
	upstream, err := f.detectProtocol(s.tunnel, conn, target)
	switch {
	case err == nil && upstream == nil && conn.protocol() == protocolHTTP:
		s.inside = s
		f.log.Debug("tunnel opened: plain HTTP", "key", s.who.key.ID, "host", s.host, "port", s.port)
		f.sessions.serve(s)
	case err == nil && upstream == nil:
		f.serveTLS(r, s)
	case err == nil:
		f.log.Debug("tunnel opened: blind", "key", s.who.key.ID, "host", s.host, "port", s.port)
		s.tunnel.run(conn, upstream)
	case errors.Is(err, errClientGone):
		f.log.Debug("client left before its tunnel was used", "host", s.host, "error", err)
	default:
		reason := errorResponse(r, err).Header.Get(proxy.HeaderError) //nolint:bodyclose // a body in memory
		f.observer.Refused(reason)
		f.tellDenied(r, s.who, reason, err)
		f.log.Info("tunnel failed", "host", s.host, "port", s.port, "reason", reason, "error", err)
	}
}

// detectProtocol finds out what a tunnel is for. Without an upstream, the client has begun to
// speak TLS or HTTP. Otherwise it speaks something else, or the server speaks first.
func (f *Proxy) detectProtocol(t *tunnel, client *peekedConn, target string) (*peekedConn, error) {
	err := client.sniff(time.Now().Add(clientSilence))
	defer func() { _ = client.SetReadDeadline(time.Time{}) }()
	switch {
	case err == nil && client.protocol().opened():
		return nil, nil
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("%w: %w", errClientGone, err)
	}
	conn, dialErr := f.dialer.DialContext(t.life, "tcp", target)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		if dialErr != nil {
			return nil, dialErr
		}
		return &peekedConn{Conn: conn}, nil
	}
	// A client that has been silent for so long is not waited for when the proxy closes.
	defer context.AfterFunc(t.set.closing, func() { _ = client.Close() })()
	if dialErr != nil {
		// A client that speaks HTTP, over TLS or not, can be told.
		if client.sniff(time.Now().Add(helloTimeout)) == nil && client.protocol().opened() {
			return nil, nil
		}
		return nil, dialErr
	}
	upstream := &peekedConn{Conn: conn}
	if awaitFirstBytes(t, client, upstream); client.protocol().opened() && len(upstream.early) == 0 {
		_ = upstream.Close()
		return nil, nil
	}
	return upstream, nil
}

// awaitFirstBytes waits until either side has said something, or has gone, or the tunnel ends.
func awaitFirstBytes(t *tunnel, client, upstream *peekedConn) {
	stop := context.AfterFunc(t.life, func() {
		_ = client.Close()
		_ = upstream.Close()
	})
	defer stop()
	until := time.Now().Add(t.set.idle)
	_ = client.SetReadDeadline(until)
	_ = upstream.SetReadDeadline(until)
	past := time.Unix(1, 0)
	var server sync.WaitGroup
	server.Go(func() {
		_ = upstream.more()
		_ = client.SetReadDeadline(past)
	})
	_ = client.sniff(time.Time{})
	_ = upstream.SetReadDeadline(past)
	server.Wait()
	_ = upstream.SetReadDeadline(time.Time{})
}

// serveTLS ends the client's TLS here and serves the requests inside.
func (f *Proxy) serveTLS(r *http.Request, s *session) {
	ctx, cancel := context.WithTimeout(s.tunnel.life, helloTimeout)
	defer cancel()
	var (
		offered string // a name that is not the CONNECT's
		noLeaf  error
	)
	conn := tls.Server(s, &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		// A resumed session would not be asked for its name again.
		SessionTicketsDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if !s.acceptsName(hello.ServerName) {
				offered = hello.ServerName
				return nil, nil // answered with the alert unrecognized_name
			}
			leaf, err := f.interception.Leaf(hello.Context(), s.host)
			noLeaf = err
			return leaf, err
		},
	})
	err := conn.HandshakeContext(ctx)
	switch {
	case offered != "":
		f.observer.Refused(reasonSNI)
		f.log.Info("TLS refused: the name is not the CONNECT's", "peer", r.RemoteAddr, "host", s.host, "name", shorten(offered), "reason", reasonSNI)
	case noLeaf != nil:
		f.observer.Refused(reasonNoLeaf)
		f.log.Error("no certificate for an intercepted host", "host", s.host, "reason", reasonNoLeaf, "error", noLeaf)
	case err != nil:
		// Most often a client that does not know our root.
		f.observer.Refused(reasonHandshake)
		f.log.Info("TLS with a client failed", "peer", r.RemoteAddr, "host", s.host, "reason", reasonHandshake, "error", err)
	default:
		s.tls, s.inside = conn, conn
		f.log.Debug("tunnel opened: intercepted", "key", s.who.key.ID, "host", s.host, "port", s.port,
			"protocol", conn.ConnectionState().NegotiatedProtocol)
		f.sessions.serve(s)
	}
}

// acceptsName reports whether a name in a ClientHello is the CONNECT's. None is as good.
func (s *session) acceptsName(name string) bool {
	if name == "" {
		return true
	}
	host, err := guard.NormalHost(name)
	return err == nil && host == s.host
}
