package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// route is a way to the seller, through a program under test or without one.
type route struct {
	name    string
	address string   // host and port that agents connect to
	base    string   // what request targets begin with: empty, or the seller's URL at a proxy
	host    string   // of the Host header
	keys    []string // API keys of the agents at a proxy, in turn
	body    string   // that its agents post; "": they get
	process *child   // the program under test; nil: none
}

// through returns the route through a proxy.
func (b *bench) through(p *purser, keys []string) route {
	return route{name: purserProxy, address: host(p.url), base: b.seller.url, host: host(b.seller.url), keys: keys, process: p.child}
}

// at returns the route to a server that leads to the seller.
func (b *bench) at(name, url string, process *child) route {
	return route{name: name, address: host(url), host: host(url), process: process}
}

func host(url string) string { return strings.TrimPrefix(url, "http://") }

// agent is an HTTP client over one connection. It costs a fraction of net/http's: load, seller and
// the program under test share the cores, so what the load costs falsifies the rates.
type agent struct {
	conn   net.Conn
	reader *bufio.Reader
	base   string
	rest   string // of the request, from the end of the target
	method string
	body   string // of each request
	out    []byte
}

// connect makes agents of a route. The caller must close them.
func (b *bench) connect(ctx context.Context, r route, n int) ([]*agent, error) {
	var agents []*agent
	for i := range n {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", r.address)
		if err != nil {
			hangUp(agents)
			return nil, err
		}
		a := &agent{conn: conn, base: r.base, rest: " HTTP/1.1\r\nHost: " + r.host + "\r\n", method: http.MethodGet, body: r.body}
		a.reader = bufio.NewReader(counting{conn, &b.received})
		if len(r.keys) > 0 {
			credentials := base64.StdEncoding.EncodeToString([]byte(r.keys[i%len(r.keys)] + ":"))
			a.rest += "Proxy-Authorization: Basic " + credentials + "\r\n"
		}
		if a.body != "" {
			a.method = http.MethodPost
			a.rest += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" +
				"Mcp-Protocol-Version: 2025-06-18\r\nContent-Length: " + strconv.Itoa(len(a.body)) + "\r\n"
		}
		a.rest += "\r\n" + a.body
		agents = append(agents, a)
	}
	return agents, nil
}

func hangUp(agents []*agent) {
	for _, a := range agents {
		_ = a.conn.Close()
	}
}

// answer holds the parts of an answer that the load checks.
type answer struct {
	status   int
	paid     bool // has Purser-Payment
	declined string
}

// ask sends a request and reads its answer to the end. It knows what the seller sends: bodies with
// a length.
func (a *agent) ask(target string) (answer, error) {
	if err := a.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return answer{}, err
	}
	a.out = append(append(append(append(append(a.out[:0], a.method...), ' '), a.base...), target...), a.rest...)
	if _, err := a.conn.Write(a.out); err != nil {
		return answer{}, err
	}
	line, err := a.reader.ReadSlice('\n')
	if err != nil {
		return answer{}, err
	}
	var got answer
	if len(line) < len("HTTP/1.1 200") {
		return got, fmt.Errorf("no answer: %q", line)
	}
	if got.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return got, fmt.Errorf("no answer: %q", line)
	}
	length := -1
	for {
		if line, err = a.reader.ReadSlice('\n'); err != nil {
			return got, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return got, err
			}
		case bytes.EqualFold(name, []byte("Purser-Payment")):
			got.paid = true
		case bytes.EqualFold(name, []byte("Purser-Declined")):
			got.declined = string(value)
		}
	}
	if length < 0 {
		return got, errors.New("an answer without a length")
	}
	_, err = a.reader.Discard(length)
	return got, err
}

// want asks for a target, and fails unless the answer is 200 and paid for as wanted.
func (a *agent) want(target string, paid bool) error {
	got, err := a.ask(target)
	switch {
	case err != nil:
		return err
	case got.status != 200:
		return fmt.Errorf("%s %s: status %d %s", a.method, target, got.status, got.declined)
	case got.paid != paid:
		return fmt.Errorf("%s %s: paid %t", a.method, target, got.paid)
	}
	return nil
}

// counting adds up the bytes that a connection receives.
type counting struct {
	net.Conn
	received *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

// countingListener accepts counting connections.
type countingListener struct {
	net.Listener
	received *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return counting{conn, l.received}, nil
}
