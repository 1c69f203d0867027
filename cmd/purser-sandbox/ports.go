package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/purserpay/purser/sandbox"
)

// maxPort leaves room for the ports after it.
const maxPort = 65535 - sandbox.LastOffset

// reservation holds the ports for Caddy. Caddy shares ports with other Caddy processes, so it would
// not notice a taken port.
type reservation struct {
	api, metrics net.Listener
}

// reserve takes the ports of purser and its metrics. Port 0 picks free ones.
func reserve(ctx context.Context, port int) (r reservation, err error) {
	metrics := 0
	if port != 0 {
		metrics = port + sandbox.MetricsOffset
	}
	if r.api, err = listen(ctx, "purser", port); err != nil {
		return r, err
	}
	if r.metrics, err = listen(ctx, "metrics", metrics); err != nil {
		r.release()
	}
	return r, err
}

func listen(ctx context.Context, what string, port int) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return l, nil
}

// release closes the ports, right before Caddy takes them.
func (r reservation) release() {
	for _, l := range []net.Listener{r.api, r.metrics} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// elsewhere adds advice to an error about a taken port.
func elsewhere(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w\nIs another sandbox running? -port 0 picks free ports, -port N uses N and the following ones", err)
	}
	return err
}
