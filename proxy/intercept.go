package proxy

import (
	"context"
	"crypto/tls"
)

// Interception says whose HTTPS is opened on the way, and with what certificates.
type Interception struct {
	// Hosts are those whose HTTPS is opened; Except are tunnelled blind all the same.
	Hosts, Except HostList
	// Leaf is a certificate, with its chain, for a host: a name or an address in normal form.
	Leaf func(ctx context.Context, host string) (*tls.Certificate, error)
}
