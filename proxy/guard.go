package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
)

// GuardOptions configure a Guard.
type GuardOptions struct {
	// Allow are special addresses, such as private ones, that may be dialled all the same.
	Allow []netip.Prefix
	// AllowLoopback lets loopback addresses be dialled: right for a purser that listens on
	// loopback only, because its clients could do so anyway.
	AllowLoopback bool
	// Own recognizes purser's own listeners, which are never dialled; see [OwnListeners].
	Own func(netip.AddrPort) bool
	// Ports that may be dialled. Default: 80, 443 and 1024–65535.
	Ports []PortRange
	// Resolve gives names fixed addresses instead of those of DNS. They are judged as well.
	Resolve map[string]netip.Addr
	// Timeout of one dial, with all addresses of a name. Default: 10 s.
	Timeout time.Duration
	// Resolver looks names up. Default: net.DefaultResolver.
	Resolver *net.Resolver
}

// Guard dials only where it may. It judges the address that is really connected to, after
// DNS and for each address of a name, so that a name that changes its mind between check
// and use gains nothing.
type Guard struct {
	rules  Rules
	fixed  map[string]netip.Addr
	dialer net.Dialer
}

// DeniedError: the guard refused an address.
type DeniedError struct {
	Verdict Verdict
	// Address is what was judged, for the log only: clients are not told what a name
	// resolves to.
	Address string
}

func (e *DeniedError) Error() string { return fmt.Sprintf("%s: %s", e.Verdict, e.Address) }

// NewGuard makes a Guard.
func NewGuard(o GuardOptions) *Guard {
	g := &Guard{
		rules: Rules{Allow: o.Allow, AllowLoopback: o.AllowLoopback, Own: o.Own, Local: isLocal, Ports: o.Ports},
		fixed: make(map[string]netip.Addr, len(o.Resolve)),
	}
	for name, addr := range o.Resolve {
		g.fixed[strings.TrimSuffix(strings.ToLower(name), ".")] = addr
	}
	g.dialer = net.Dialer{
		Timeout: o.Timeout, KeepAlive: 30 * time.Second, Resolver: o.Resolver,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			return g.control(address)
		},
	}
	if g.dialer.Timeout <= 0 {
		g.dialer.Timeout = 10 * time.Second
	}
	return g
}

// control is called for every address, right before it is connected to.
func (g *Guard) control(address string) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return &DeniedError{Verdict: DenyHost, Address: address}
	}
	if v := Judge(addr, g.rules); !v.OK() && !failpoint.Off(failpoint.Guard) {
		return &DeniedError{Verdict: v, Address: address}
	}
	return nil
}

// DialContext connects to a host and port. A refusal is a *DeniedError.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := splitAuthority(address)
	if err != nil {
		return nil, &DeniedError{Verdict: DenyHost, Address: address}
	}
	if !portAllowed(g.rules.Ports, port) { // no need to ask DNS
		return nil, &DeniedError{Verdict: DenyPort, Address: address}
	}
	if addr, ok := g.fixed[host]; ok {
		host = addr.String()
	}
	conn, err := g.dialer.DialContext(ctx, network, net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		var denied *DeniedError
		if errors.As(err, &denied) {
			return nil, denied
		}
		return nil, fmt.Errorf("connecting to %s: %w", host, err)
	}
	return conn, nil
}
