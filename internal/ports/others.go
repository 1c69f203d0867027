//go:build !linux

package ports

import (
	"errors"
	"net/netip"
)

// ListenedByOthers returns those of some addresses at which a socket of another process listens. It fails where the
// system does not tell.
func ListenedByOthers([]netip.AddrPort) ([]netip.AddrPort, error) {
	return nil, errors.ErrUnsupported
}
