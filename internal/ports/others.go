//go:build !linux

package ports

import (
	"errors"
	"net/netip"
)

// ListenedByOthers reports whether a socket of another process listens where this one is to listen. It fails where the
// system does not tell.
func ListenedByOthers(netip.AddrPort) (bool, error) { return false, errors.ErrUnsupported }
