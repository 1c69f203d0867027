package ports

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// Occupied reports whether a program listens on an address already. It tries to listen there in a
// way that allows no other listener at the same time.
func Occupied(ctx context.Context, network, address string) bool {
	l, err := new(net.ListenConfig).Listen(ctx, network, address)
	if err != nil {
		return errors.Is(err, syscall.EADDRINUSE)
	}
	_ = l.Close()
	return false
}
