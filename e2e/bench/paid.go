package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// levels lists the numbers of concurrent clients, each with one request under way.
var levels = []int{1, 8, 32}

const maxClients = 32

// Names of the measurements in the table.
const (
	purserProxy     = "purser proxy"
	purserProxyV1   = "purser proxy, v1"
	purserSidecar   = "purser sidecar"
	purserSidecarV1 = "purser sidecar, v1"
	purserPaced     = "purser proxy, with pauses"
	bareGo          = "bare Go client"
	fetchV2         = "@x402/fetch"
	fetchV1         = "x402-fetch"
)

// runPaid lets agents without x402 buy through purser's proxy and sidecar. After each load it runs
// the other clients under the same load, so that all meet the same machine.
func runPaid(ctx context.Context, b *bench) error {
	p, err := b.startWithSidecar(ctx, "paid")
	if err != nil {
		return err
	}
	defer p.stop()
	keys, err := p.newKeys(ctx, maxClients)
	if err != nil {
		return err
	}
	proxy, sidecar := b.through(p, keys), b.at(purserSidecar, p.sidecar, p.child)
	// Without a pause, the next request would meet the last one's books still being written.
	m, err := b.drivePaid(ctx, proxy, "/paid", load{clients: 1, pause: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	b.report.add("paid", purserPaced, m)
	peers := peersUsable()
	if peers != nil {
		b.report.skip("paid, "+fetchV2+" and "+fetchV1, peers.Error())
	}
	for _, n := range levels {
		for _, s := range []struct {
			name, path string
			route
		}{
			{purserProxy, "/paid", proxy},
			{purserProxyV1, "/paid-v1", proxy},
			{purserSidecar, "/paid", sidecar},
			{purserSidecarV1, "/paid-v1", sidecar},
		} {
			m, err := b.drivePaid(ctx, s.route, s.path, load{clients: n})
			if err != nil {
				return fmt.Errorf("%s, %s: %w", s.name, counted(n), err)
			}
			b.report.add("paid", s.name, m)
		}
		b.runPeers(ctx, n, peers == nil)
	}
	if b.profile != "" {
		return errors.Join(
			b.profilePurser(ctx, p, "paid-proxy", proxy, "/paid", true),
			b.profilePurser(ctx, p, "paid-sidecar", sidecar, "/paid", true),
			b.profilePurser(ctx, p, "free-proxy", proxy, "/free", false),
			b.profilePurser(ctx, p, "free-sidecar", sidecar, "/free", false),
		)
	}
	return nil
}

// startWithSidecar starts purser with a sidecar door to the seller. An operator's key pays there.
func (b *bench) startWithSidecar(ctx context.Context, name string) (*purser, error) {
	return b.startPurser(ctx, filepath.Join(b.dir, name), "PURSER_UPSTREAM="+b.seller.url, "PURSER_KEY=pk_bench_sidecar")
}

// drivePaid measures paid requests.
func (b *bench) drivePaid(ctx context.Context, r route, path string, l load) (measurement, error) {
	b.seller.takeGaps()
	m, err := b.driveAgents(ctx, r, path, true, l)
	if err != nil {
		return m, err
	}
	var gaps int
	if m.GapP50, m.GapP99, gaps = b.seller.takeGaps(); gaps == 0 {
		return m, errors.New("the seller saw no paid retry")
	}
	return m, nil
}

// profilePurser writes a CPU profile of purser while eight clients get a path, taken through the
// admin socket. The run is not reported, because profiling slows it down.
func (b *bench) profilePurser(ctx context.Context, p *purser, name string, r route, path string, paid bool) error {
	socket := filepath.Join(p.dir, "admin.sock")
	admin := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	file := filepath.Join(b.profile, name+".pprof")
	seconds := max(1, int(b.length.Seconds()+warmup.Seconds()))
	profile := make(chan error, 1)
	go func() {
		_, got, err := ask(ctx, admin, http.MethodGet, fmt.Sprintf("http://127.0.0.1/debug/pprof/profile?seconds=%d", seconds), "", http.StatusOK)
		if err == nil {
			err = os.WriteFile(file, got, 0o600)
		}
		profile <- err
	}()
	_, err := b.driveAgents(ctx, r, path, paid, load{clients: 8})
	if err = errors.Join(err, <-profile); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	b.say("profile: go tool pprof -top -cum %s", file)
	return nil
}
