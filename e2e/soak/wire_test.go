package soak

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/x402"
)

// wire is a client with one connection, which it uses until it is told that an answer was the last. Unlike net/http's, it
// asks again only if it is told to: whatever goes wrong is seen.
type wire struct {
	name   string
	dial   func(ctx context.Context) (net.Conn, error)
	before []string // headers of every request
	// whole: requests name their whole URL, as a plain proxy's do.
	whole bool
	// repeats: a request that a closed connection cut off is sent again on a new one.
	repeats bool

	conn  net.Conn
	r     *bufio.Reader
	dials int
	cut   int // requests that were sent again
}

// ask makes a request on the connection, or on a new one if there is none, and leaves the body to the caller.
func (c *wire) open(ctx context.Context, method, target, body string, header ...string) (*http.Response, error) {
	if c.conn == nil {
		conn, err := c.dial(ctx)
		if err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
		c.conn, c.r = conn, bufio.NewReader(conn)
		c.dials++
	}
	r, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	header = append(append([]string{}, c.before...), header...)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	write := r.Write
	if c.whole {
		write = r.WriteProxy
	}
	if err := write(c.conn); err != nil {
		return nil, fmt.Errorf("write on connection %d: %w", c.dials, err)
	}
	res, err := http.ReadResponse(c.r, r)
	if err != nil {
		return nil, fmt.Errorf("read on connection %d: %w", c.dials, err)
	}
	return res, nil
}

// ask makes a request and reads the answer.
func (c *wire) ask(ctx context.Context, method, target, body string, header ...string) (got answer, err error) {
	for tries := 0; ; tries++ {
		got, err = c.askOnce(ctx, method, target, body, header...)
		if err == nil || !c.repeats || tries == 3 {
			return got, err
		}
		c.cut++
	}
}

func (c *wire) askOnce(ctx context.Context, method, target, body string, header ...string) (answer, error) {
	res, err := c.open(ctx, method, target, body, header...)
	if err != nil {
		return answer{}, errors.Join(err, c.close())
	}
	text, err := io.ReadAll(res.Body)
	if err != nil || res.Close {
		err = errors.Join(err, c.close())
	}
	return answer{Status: res.StatusCode, Header: res.Header, Body: string(text)}, err
}

func (c *wire) close() error {
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	return err
}

// direct is a wire to an address on loopback.
func direct(name, port string, before ...string) *wire {
	return &wire{name: name, before: before, dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+port)
	}}
}

// proxied is a wire to purser's proxy, for http.
func (l *load) proxiedWire(name string, k key) *wire {
	w := direct(name, strconv.Itoa(l.purser.Port), "Proxy-Authorization", basic(k))
	w.whole = true
	return w
}

// inside is a wire through a tunnel of the proxy, which is opened on the way or, for the seller of that name, not.
func (l *load) inside(name string, k key, seller string) *wire {
	return &wire{name: name, dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := l.tunnelTo(ctx, k, seller)
		if err != nil {
			return nil, err
		}
		secured := tls.Client(conn, &tls.Config{RootCAs: l.trust, ServerName: seller})
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return secured, nil
	}}
}

// tunnelTo opens a tunnel to a seller's HTTPS.
func (l *load) tunnelTo(ctx context.Context, k key, seller string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.purser.Host())
	if err != nil {
		return nil, err
	}
	target := net.JoinHostPort(seller, l.world.tls)
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{"Proxy-Authorization": {basic(k)}}}
	if err := r.Write(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("CONNECT: %s", res.Status)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func basic(k key) string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(k.secret, "")
	return r.Header.Get("Authorization")
}

// buy asks a wire for something that costs money.
func (c *wire) buy(ctx context.Context, target string) error {
	got, err := c.ask(ctx, http.MethodGet, target, "")
	return want(got, err, http.StatusOK, true)
}

// payREST pays on REST, and as its own sender of the payload if settlement is seller.
func (c *wire) payREST(ctx context.Context, l *load, n uint64, settlement string) error {
	body := fmt.Sprintf(`{"paymentRequiredHeader":%q,"requestUrl":"http://h%d.soak.test/paid?n=%d","settlement":%q}`, l.world.challenge, n%64, n, settlement)
	got, err := c.ask(ctx, http.MethodPost, l.purser.URL("/v1/pay"), body)
	if err := want(got, err, http.StatusOK, false); err != nil || settlement == "payer" {
		return err
	}
	var paid paidREST
	if err := json.Unmarshal([]byte(got.Body), &paid); err != nil {
		return err
	}
	delivered, err := ask(ctx, l.plain, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%s/paid?n=%d", l.world.http, n), "", x402.HeaderSignature, paid.PaymentSignature)
	if err := want(delivered, err, http.StatusOK, false); err != nil {
		return err
	}
	got, err = c.ask(ctx, http.MethodPost, l.purser.URL("/v1/payments/"+paid.Payment.ID+"/receipt"), fmt.Sprintf(`{"receipt":%q}`, delivered.Header.Get(x402.HeaderResponse)))
	return want(got, err, http.StatusOK, false)
}

// pause waits, but not for longer than ctx lives.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
