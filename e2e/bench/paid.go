package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// levels lists the numbers of concurrent clients, each with one request under way.
var levels = []int{1, 8, 32}

const maxClients = 32

// Names of the measurements in the table.
const (
	purserProxy = "purser proxy"
	purserPaced = "purser proxy, with pauses"
	fetchV2     = "@x402/fetch"
	fetchV1     = "x402-fetch"
)

// runPaid lets agents without x402 buy through purser's proxy. After each load it runs the
// reference clients under the same load, so that both meet the same machine.
func runPaid(ctx context.Context, b *bench) error {
	p, err := b.startPurser(ctx, filepath.Join(b.dir, "paid"))
	if err != nil {
		return err
	}
	defer p.stop()
	keys, err := p.newKeys(ctx, maxClients)
	if err != nil {
		return err
	}
	clients, err := p.proxied(keys)
	if err != nil {
		return err
	}
	defer closeIdle(clients)
	// Without a pause, the next request would meet the last one's books still being written.
	m, err := b.drivePaid(ctx, p, clients, load{clients: 1, pause: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	b.report.add("paid", purserPaced, m)
	peers := peersUsable()
	if peers != nil {
		b.report.skip("paid, "+fetchV2+" and "+fetchV1, peers.Error())
	}
	for _, n := range levels {
		m, err := b.drivePaid(ctx, p, clients, load{clients: n})
		if err != nil {
			return err
		}
		b.report.add("paid", purserProxy, m)
		if peers == nil {
			b.runPeers(ctx, n)
		}
	}
	if b.profile != "" {
		return b.profilePaid(ctx, p, clients)
	}
	return nil
}

// drivePaid measures paid requests. The clients share the load's work.
func (b *bench) drivePaid(ctx context.Context, p *purser, clients []*http.Client, l load) (measurement, error) {
	b.seller.takeGaps()
	m, err := b.drive(ctx, l, p.pid(), func(ctx context.Context, i int, serial uint64, measured bool) error {
		header, _, err := ask(ctx, clients[i%len(clients)], http.MethodGet, b.paidURL("/paid", serial, measured), "", http.StatusOK)
		if err == nil && header.Get("Purser-Payment") == "" {
			err = errors.New("an answer came unpaid")
		}
		return err
	})
	if err != nil {
		return m, err
	}
	var gaps int
	if m.GapP50, m.GapP99, gaps = b.seller.takeGaps(); gaps == 0 {
		return m, errors.New("the seller saw no paid retry")
	}
	m.OwnMiB, m.MiB = memory(p.pid())
	return m, nil
}

// paidURL returns a different URL for every request, like an agent's work.
func (b *bench) paidURL(path string, serial uint64, measured bool) string {
	u := b.seller.url + path + "?n=" + strconv.FormatUint(serial, 10)
	if measured {
		u += "&m=1"
	}
	return u
}

// profilePaid writes a CPU profile of purser under eight clients, taken through the admin socket.
// The run is not reported, because profiling slows it down.
func (b *bench) profilePaid(ctx context.Context, p *purser, clients []*http.Client) error {
	socket := filepath.Join(p.dir, "admin.sock")
	admin := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	seconds := max(1, int(b.length.Seconds()+warmup.Seconds()))
	profile := make(chan error, 1)
	go func() {
		_, got, err := ask(ctx, admin, http.MethodGet, fmt.Sprintf("http://127.0.0.1/debug/pprof/profile?seconds=%d", seconds), "", http.StatusOK)
		if err == nil {
			err = os.WriteFile(b.profile, got, 0o600)
		}
		profile <- err
	}()
	_, err := b.drivePaid(ctx, p, clients, load{clients: 8})
	err = errors.Join(err, <-profile)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	b.say("profile: go tool pprof -top -cum %s", b.profile)
	return nil
}

// runFree requests a free route through purser's proxy, through plain Caddy, and directly. The
// three take turns, so that other load on the machine hits all alike.
func runFree(ctx context.Context, b *bench) error {
	p, err := b.startPurser(ctx, filepath.Join(b.dir, "free"))
	if err != nil {
		return err
	}
	defer p.stop()
	plain, err := b.startPlain(ctx)
	if err != nil {
		return err
	}
	defer plain.stop()
	keys, err := p.newKeys(ctx, 1)
	if err != nil {
		return err
	}
	through, err := p.proxied(keys)
	if err != nil {
		return err
	}
	direct := client(nil)
	defer closeIdle(append(through, direct))

	subjects := []struct {
		name   string
		client *http.Client
		url    string
		pid    int
	}{
		{purserProxy, through[0], b.seller.url + "/free", p.pid()},
		{plainCaddy, direct, plain.url + "/free", plain.pid()},
		{directly, direct, b.seller.url + "/free", 0},
	}
	const turns = 3
	short := *b
	short.length = max(b.length/2, 100*time.Millisecond)
	for _, n := range []int{1, 32} {
		seen := make([][]measurement, len(subjects))
		for range turns {
			for i, s := range subjects {
				m, err := short.drive(ctx, load{clients: n}, s.pid, func(ctx context.Context, _ int, _ uint64, _ bool) error {
					_, _, err := ask(ctx, s.client, http.MethodGet, s.url, "", http.StatusOK)
					return err
				})
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				seen[i] = append(seen[i], m)
			}
		}
		for i, s := range subjects {
			m := median(seen[i])
			m.OwnMiB, m.MiB = memory(s.pid)
			b.report.add("free", s.name, m)
		}
	}
	return nil
}

const (
	plainCaddy = "plain Caddy"
	directly   = "direct"
)

// startPlain starts the same binary without purser in its configuration.
func (b *bench) startPlain(ctx context.Context) (*child, error) {
	ports, err := freePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "plain")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "Caddyfile")
	text := fmt.Sprintf(`{
	admin off
	persist_config off
	storage file_system ./storage
	servers {
		protocols h1
	}
}
http://:%d {
	bind 127.0.0.1
	reverse_proxy %s
}
`, ports[0], b.seller.url)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	c, err := b.startServer(ctx, config, dir, ports[0])
	if err != nil {
		return nil, fmt.Errorf("start plain Caddy: %w", err)
	}
	return c, nil
}
