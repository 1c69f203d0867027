package guard

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"
)

// maxParentHeader bounds the header of a proxy's answer, in bytes.
const maxParentHeader = 64 << 10

// Parent is a proxy that leads to the outside. It looks names up itself, so that of a host behind it only
// the name is judged.
type Parent struct {
	url    *url.URL
	serves func(*url.URL) (*url.URL, error)
	tls    *tls.Config
}

// ParseParent reads the URL of a proxy, http, https or socks5, and the hosts that are reached without it, in
// the form of NO_PROXY. Loopback is always among them. roots verify an https proxy; nil: the system's. An error
// does not name the URL, which may have a password.
func ParseParent(proxyURL, noProxy string, roots *x509.CertPool) (*Parent, error) {
	u, err := url.Parse(proxyURL)
	switch {
	case err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "":
		return nil, errors.New("not a URL such as http://proxy.example.com:3128")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5":
		return nil, errors.New("its scheme is none of http, https and socks5")
	}
	to := httpproxy.Config{HTTPProxy: u.String(), HTTPSProxy: u.String(), NoProxy: noProxy}
	return &Parent{url: u, serves: to.ProxyFunc(), tls: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: u.Hostname()}}, nil
}

// leadsTo reports whether an address "host:port" is reached through the parent.
func (p *Parent) leadsTo(address string) bool {
	if p == nil {
		return false
	}
	through, err := p.serves(&url.URL{Scheme: "https", Host: address})
	return err == nil && through != nil
}

// address is that of the parent, with a port.
func (p *Parent) address() string {
	defaults := map[string]string{"http": "80", "https": "443", "socks5": "1080"}
	return net.JoinHostPort(p.url.Hostname(), cmp.Or(p.url.Port(), defaults[p.url.Scheme]))
}

// dial connects to an address "host:port" through the parent.
func (p *Parent) dial(ctx context.Context, d *net.Dialer, address string) (net.Conn, error) {
	conn, err := d.DialContext(ctx, "tcp", p.address())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	ask := p.tunnel
	if p.url.Scheme == "socks5" {
		ask = p.socks
	}
	through, err := ask(ctx, conn, address)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	through.remote = name(address)
	return through, nil
}

// tunnel asks the parent for a tunnel on a connection to it.
func (p *Parent) tunnel(ctx context.Context, conn net.Conn, address string) (*tunneled, error) {
	if p.url.Scheme == "https" {
		secure := tls.Client(conn, p.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS with the upstream proxy: %w", err)
		}
		conn = secure
	}
	question := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if login := p.url.User; login != nil {
		password, _ := login.Password()
		question.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(login.Username()+":"+password)))
	}
	if err := question.Write(conn); err != nil {
		return nil, fmt.Errorf("asking the upstream proxy: %w", err)
	}
	in := bufio.NewReader(&io.LimitedReader{R: conn, N: maxParentHeader})
	resp, err := http.ReadResponse(in, question) //nolint:bodyclose // the tunnel is the body
	if err != nil {
		return nil, fmt.Errorf("asking the upstream proxy: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the upstream proxy answered %d", resp.StatusCode)
	}
	early, _ := in.Peek(in.Buffered())
	return &tunneled{Conn: conn, early: early}, nil
}

// socks asks a SOCKS5 proxy (RFC 1928), which gets the name, for a connection.
func (p *Parent) socks(ctx context.Context, conn net.Conn, address string) (*tunneled, error) {
	var login *proxy.Auth
	if u := p.url.User; u != nil {
		password, _ := u.Password()
		login = &proxy.Auth{User: u.Username(), Password: password}
	}
	dialer, err := proxy.SOCKS5("tcp", p.address(), login, nil)
	if err != nil {
		return nil, err
	}
	over := dialer.(interface {
		DialWithConn(ctx context.Context, c net.Conn, network, address string) (net.Addr, error)
	})
	_, err = over.DialWithConn(ctx, conn, "tcp", address)
	return &tunneled{Conn: conn}, err
}

// tunneled is a connection through a proxy, with what came right behind the proxy's answer. It names the host that the
// proxy was asked for as its remote address: that of the proxy says nothing about who answers.
type tunneled struct {
	net.Conn
	early  []byte
	remote name
}

// name is the address "host:port" of a host behind a proxy.
type name string

func (n name) Network() string { return "tcp" }
func (n name) String() string  { return string(n) }

// RemoteAddr names the host behind the proxy.
func (c *tunneled) RemoteAddr() net.Addr { return c.remote }

func (c *tunneled) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite ends one direction, if the connection can do that.
func (c *tunneled) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}
