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
	// Reach says which hosts may be connected to. The zero value: all.
	Reach Reach
	// Parent is the proxy that leads to the outside; nil: none.
	Parent *Parent
}

// Dialer connects to allowed addresses. It judges each address of a name after DNS, so that a name
// whose answer changes between check and use gains nothing.
type Dialer struct {
	rules  Rules
	fixed  map[string]netip.Addr
	reach  Reach
	parent *Parent
	dialer net.Dialer
	free   net.Dialer // judges no address; for the parent
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
		rules: o.Rules, reach: o.Reach, parent: o.Parent,
		fixed: make(map[string]netip.Addr, len(o.Resolve)),
	}
	d.rules.Local = isLocal
	for name, addr := range o.Resolve {
		d.fixed[strings.TrimSuffix(strings.ToLower(name), ".")] = addr
	}
	d.free = net.Dialer{Timeout: cmp.Or(o.Timeout, 10*time.Second), KeepAlive: 30 * time.Second, Resolver: o.Resolver}
	d.dialer = d.free
	d.dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return d.control(address)
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
	if err := d.named(host, port); err != nil { // no need to ask DNS
		return nil, err
	}
	conn, err := d.connect(ctx, network, host, port)
	if err != nil {
		if denied, is := errors.AsType[*DeniedError](err); is {
			return nil, denied
		}
		return nil, fmt.Errorf("connecting to %s: %w", host, err)
	}
	return conn, nil
}

func (d *Dialer) connect(ctx context.Context, network, host string, port uint16) (net.Conn, error) {
	address := net.JoinHostPort(host, strconv.Itoa(int(port)))
	if fixed, ok := d.fixed[host]; ok {
		address = net.JoinHostPort(fixed.String(), strconv.Itoa(int(port)))
	} else if d.parent.leadsTo(address) {
		if err := d.Foresee(host, port); err != nil { // no socket here judges it
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, d.free.Timeout)
		defer cancel()
		return d.parent.dial(ctx, &d.free, address)
	}
	return d.dialer.DialContext(ctx, network, address)
}

// named judges what a client has asked for, without its addresses.
func (d *Dialer) named(host string, port uint16) error {
	var v Verdict
	switch {
	case d.reach.refuses(host):
		v = DenyReach
	case !portAllowed(d.rules.Ports, port):
		v = DenyPort
	default:
		return nil
	}
	return &DeniedError{Verdict: v, Address: net.JoinHostPort(host, strconv.Itoa(int(port)))}
}

// Foresee refuses an address as far as its verdict is known without asking DNS. The error is a
// *DeniedError.
func (d *Dialer) Foresee(host string, port uint16) error {
	if err := d.named(host, port); err != nil {
		return err
	}
	if fixed, ok := d.fixed[host]; ok {
		host = fixed.String()
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return d.control(net.JoinHostPort(host, strconv.Itoa(int(port))))
	}
	return nil
}
