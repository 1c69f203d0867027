package forward

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/internal/perclient"
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
	w, settle := conns.Settling(w)
	defer settle() // HTTP/2's server writes and reads behind its own end
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

const (
	leafLife     = 24 * time.Hour
	leafBackdate = time.Hour // for clients whose clocks are behind
	leafSpare    = 5 * time.Minute
	maxLeaves    = 1000
	maxName      = 64 // of a subject's common name (RFC 5280, appendix A)
)

// Minter makes certificates for intercepted hosts, and remembers the last ones. Its authority may
// renew the signing certificate at any time. It is safe for concurrent use.
type Minter struct {
	authority func() ([]*x509.Certificate, crypto.Signer, error)
	now       func() time.Time
	key       func() (*ecdsa.PrivateKey, error) // of all leaves

	leaves *lru.Cache[leafName, *tls.Certificate]
}

// leafName identifies a leaf that is kept. A renewed signer makes another one.
type leafName struct{ host, signer string }

// NewMinter makes a Minter. authority is asked for each certificate; it gives the signing
// certificate, followed by those that lead to the root, and the signing certificate's key.
func NewMinter(authority func() (chain []*x509.Certificate, key crypto.Signer, err error)) *Minter {
	return &Minter{
		authority: authority, now: time.Now,
		key: sync.OnceValues(func() (*ecdsa.PrivateKey, error) {
			return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		}),
		leaves: perclient.NewCache[leafName, *tls.Certificate](maxLeaves),
	}
}

// Leaf returns a certificate for a host, a name or an address in ASCII, with its chain. It is
// valid for a day at most, and not longer than its signer. It fits [Interception].Leaf.
func (m *Minter) Leaf(_ context.Context, host string) (*tls.Certificate, error) {
	chain, key, err := m.signer()
	if err != nil {
		return nil, err
	}
	name := leafName{host, string(chain[0].RawIssuer) + chain[0].SerialNumber.String()}
	cert, ok := m.leaves.Get(name)
	if ok && m.now().Add(leafSpare).Before(cert.Leaf.NotAfter) {
		return cert, nil
	}
	cert, err = m.mint(host, chain, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate for %s: %w", host, err)
	}
	m.leaves.Add(name, cert)
	return cert, nil
}

var errSigner = errors.New("the signing certificate and its key do not belong together")

// signer asks the authority. A renewal between the answers for certificate and key shows
// in a pair that does not match, and then is over.
func (m *Minter) signer() ([]*x509.Certificate, crypto.Signer, error) {
	for range 2 {
		chain, key, err := m.authority()
		if err != nil {
			return nil, nil, fmt.Errorf("asking the certificate authority: %w", err)
		}
		if len(chain) == 0 || key == nil {
			return nil, nil, errors.New("the certificate authority has no signing certificate")
		}
		public, ok := chain[0].PublicKey.(interface{ Equal(crypto.PublicKey) bool })
		if ok && public.Equal(key.Public()) {
			return chain, key, nil
		}
	}
	return nil, nil, errSigner
}

func (m *Minter) mint(host string, chain []*x509.Certificate, signer crypto.Signer) (*tls.Certificate, error) {
	key, err := m.key()
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := m.now()
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: now.Add(-leafBackdate), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, c := range chain {
		if c.NotAfter.Before(template.NotAfter) {
			template.NotAfter = c.NotAfter
		}
	}
	if !template.NotAfter.After(now) {
		return nil, fmt.Errorf("the signing certificate expired on %s", template.NotAfter.UTC().Format(time.RFC3339))
	}
	if len(host) <= maxName {
		template.Subject = pkix.Name{CommonName: host}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, chain[0], key.Public(), signer)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	cert := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: parsed}
	for _, c := range chain {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	return cert, nil
}

// peekedConn is a connection of which something has been read already. That is read again
// before anything else.
type peekedConn struct {
	net.Conn
	early []byte
}

func (c *peekedConn) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite ends one direction, if the connection can do that.
func (c *peekedConn) CloseWrite() error { return conns.CloseWrite(c.Conn) }

// more reads what comes next, without taking it from later readers.
func (c *peekedConn) more() error {
	buf := make([]byte, 1<<10)
	n, err := c.Conn.Read(buf)
	c.early = append(c.early, buf[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

// sniff reads until it is clear what is spoken, or fails with the connection's error.
// Its reading ends at the deadline; the zero time leaves the one that is set.
func (c *peekedConn) sniff(deadline time.Time) error {
	if !deadline.IsZero() {
		_ = c.SetReadDeadline(deadline)
	}
	for c.protocol() == protocolUnclear {
		if err := c.more(); err != nil {
			return err
		}
	}
	return nil
}

// protocol names what a client speaks in its tunnel.
type protocol int

const (
	protocolUnclear protocol = iota // more bytes will tell
	protocolOther
	protocolTLS
	protocolHTTP // HTTP/1 without TLS: some clients ask for a tunnel for http URLs as well
)

// opened reports whether purser looks into the protocol.
func (p protocol) opened() bool { return p == protocolTLS || p == protocolHTTP }

// protocol names what the bytes that have come begin with.
func (c *peekedConn) protocol() protocol { return detect(c.early) }

// maxRequestLine bounds the first line of what may be HTTP; 8,000 bytes is what RFC 9112,
// section 3, asks for.
const maxRequestLine = 16 << 10

// detect recognizes a ClientHello: a handshake record (22) of version 3.x, whose first message is of
// type 1 (RFC 8446, sections 4 and 5.1). And it recognizes an HTTP/1 request line for a path, as
// clients write it: upper-case method, path, version.
func detect(b []byte) protocol {
	if len(b) == 0 {
		return protocolUnclear
	}
	if b[0] == 22 {
		switch {
		case len(b) > 1 && b[1] != 3, len(b) > 5 && b[5] != 1:
			return protocolOther
		case len(b) > 5:
			return protocolTLS
		}
		return protocolUnclear
	}
	line, _, ended := bytes.Cut(b, []byte("\n"))
	rest := bytes.TrimLeft(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	switch n := len(line) - len(rest); {
	case n > 20, len(rest) > 0 && (n < 3 || rest[0] != ' '), len(rest) > 1 && rest[1] != '/', !ended && len(b) > maxRequestLine:
		return protocolOther
	case !ended:
		return protocolUnclear
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	if bytes.HasSuffix(line, []byte(" HTTP/1.1")) || bytes.HasSuffix(line, []byte(" HTTP/1.0")) {
		return protocolHTTP
	}
	return protocolOther
}
