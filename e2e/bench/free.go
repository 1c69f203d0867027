package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// freeLevels lists the numbers of clients that request the free route.
var freeLevels = []int{1, 8, 32}

// runFree requests a free route, and calls a free tool of MCP, through purser's proxy and sidecar, through plain Caddy,
// and directly. They take turns, so that other load on the machine hits all alike.
func runFree(ctx context.Context, b *bench) error {
	p, err := b.startWithSidecar(ctx, "free")
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
	routes := []route{
		b.through(p, keys),
		b.at(purserSidecar, p.sidecar, p.child),
		b.at(plainCaddy, plain.url, plain),
		b.at(directly, b.seller.url, nil),
	}
	if err := b.compareRoutes(ctx, "free", "/free", routes); err != nil {
		return err
	}
	for i := range routes {
		routes[i].body = toolCall
	}
	return b.compareRoutes(ctx, "tool", "/mcp", routes)
}

// compareRoutes has agents ask for a path by each route in turn.
func (b *bench) compareRoutes(ctx context.Context, name, path string, routes []route) error {
	const turns = 5
	short := load{length: max(b.length/2, 100*time.Millisecond)}
	for _, short.clients = range freeLevels {
		seen := make([][]measurement, len(routes))
		for range turns {
			for i, r := range routes {
				m, err := b.driveAgents(ctx, r, path, false, short)
				if err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
				seen[i] = append(seen[i], m)
			}
		}
		for i, r := range routes {
			var rounds []float64
			for _, m := range seen[i] {
				rounds = append(rounds, m.Rate)
			}
			m := median(seen[i])
			m.Rounds = rounds
			b.report.add(name, r.name, m)
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
