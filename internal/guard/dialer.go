package guard

import (
	"cmp"
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

// Options configure a Dialer.
type Options struct {
	Rules // Local is the dialer's own
	// Resolve gives names fixed addresses instead of those of DNS. They are judged as well.
	Resolve map[string]netip.Addr
	// Timeout of one dial, with all addresses of a name. Default: 10 s.
	Timeout time.Duration
	// Resolver looks names up. Default: net.DefaultResolver.
	Resolver *net.Resolver
}

// Dialer connects to allowed addresses. It judges each address of a name after DNS, so that a name
// whose answer changes between check and use gains nothing.
type Dialer struct {
	rules  Rules
	fixed  map[string]netip.Addr
	dialer net.Dialer
}

// DeniedError reports that the dialer refused an address.
type DeniedError struct {
	Verdict Verdict
	// Address is for the log only: clients are not told which address a name has.
	Address string
}

func (e *DeniedError) Error() string { return fmt.Sprintf("%s: %s", e.Verdict, e.Address) }

// NewDialer makes a Dialer.
func NewDialer(o Options) *Dialer {
	d := &Dialer{
		rules: o.Rules,
		fixed: make(map[string]netip.Addr, len(o.Resolve)),
	}
	d.rules.Local = isLocal
	for name, addr := range o.Resolve {
		d.fixed[strings.TrimSuffix(strings.ToLower(name), ".")] = addr
	}
	d.dialer = net.Dialer{
		Timeout: cmp.Or(o.Timeout, 10*time.Second), KeepAlive: 30 * time.Second, Resolver: o.Resolver,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			return d.control(address)
		},
	}
	return d
}

// control judges every address right before the socket connects to it.
func (d *Dialer) control(address string) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return &DeniedError{Verdict: DenyHost, Address: address}
	}
	if v := Judge(addr, d.rules); !v.OK() && !failpoint.Off(failpoint.Guard) {
		return &DeniedError{Verdict: v, Address: address}
	}
	return nil
}

// DialContext connects to a host and port. A refusal is a *DeniedError.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := SplitAuthority(address)
	if err != nil {
		return nil, &DeniedError{Verdict: DenyHost, Address: address}
	}
	if !portAllowed(d.rules.Ports, port) { // no need to ask DNS
		return nil, &DeniedError{Verdict: DenyPort, Address: address}
	}
	if addr, ok := d.fixed[host]; ok {
		host = addr.String()
	}
	conn, err := d.dialer.DialContext(ctx, network, net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		if denied, is := errors.AsType[*DeniedError](err); is {
			return nil, denied
		}
		return nil, fmt.Errorf("connecting to %s: %w", host, err)
	}
	return conn, nil
}

// Foresee refuses an address as far as its verdict is known without asking DNS. The error is a
// *DeniedError.
func (d *Dialer) Foresee(host string, port uint16) error {
	if fixed, ok := d.fixed[host]; ok {
		host = fixed.String()
	}
	address := net.JoinHostPort(host, strconv.Itoa(int(port)))
	if _, err := netip.ParseAddr(host); err == nil {
		return d.control(address)
	}
	if !portAllowed(d.rules.Ports, port) {
		return &DeniedError{Verdict: DenyPort, Address: address}
	}
	return nil
}
