// Package guard keeps purser from connecting where it must not: verdicts on addresses, a dialer
// that asks for one before it connects, and lists of hosts and ports.
package guard

import (
	"net/netip"
	"slices"
)

// Verdict is the judgement on an address, a stable word for clients and logs.
type Verdict string

// The verdicts. A verdict that refuses begins with "deny-".
const (
	Allowed     Verdict = "allowed"      // public
	AllowListed Verdict = "allow-listed" // by the operator's list
	AllowLocal  Verdict = "allow-loopback"

	DenyHost          Verdict = "deny-host"          // not a usable host name or address
	DenyReach         Verdict = "deny-reach"         // a host outside the operator's lists
	DenyPort          Verdict = "deny-port"          // not one of the ports
	DenyOwn           Verdict = "deny-own-listener"  // purser itself
	DenyUnspecified   Verdict = "deny-unspecified"   // "this host", which systems connect to loopback
	DenyLoopback      Verdict = "deny-loopback"      //
	DenyPrivate       Verdict = "deny-private"       // RFC 1918, unique local
	DenyLinkLocal     Verdict = "deny-link-local"    // most clouds' metadata lives here
	DenyMetadata      Verdict = "deny-metadata"      // a cloud's metadata at a public address
	DenyShared        Verdict = "deny-shared"        // carrier-grade NAT
	DenyMulticast     Verdict = "deny-multicast"     // with broadcast
	DenyDocumentation Verdict = "deny-documentation" //
	DenyBenchmarking  Verdict = "deny-benchmarking"  //
	DenyEmbedded      Verdict = "deny-embedded"      // IPv6 that leads to an IPv4 address: 6to4, Teredo, ISATAP
	DenyReserved      Verdict = "deny-reserved"      // anything else with a special purpose, or not assigned
)

// OK reports whether the address may be connected to.
func (v Verdict) OK() bool { return v == Allowed || v == AllowListed || v == AllowLocal }

// Rules hold what an address is judged by.
type Rules struct {
	// Allow are special addresses, such as private ones, that may be connected to all the same.
	Allow []netip.Prefix
	// AllowLoopback lets loopback addresses be connected to. It is for a purser that listens on
	// loopback only, because its clients could connect to loopback themselves.
	AllowLoopback bool
	// Own recognizes purser's own listeners, which are denied in any case; see [OwnListeners].
	// May be nil.
	Own func(netip.AddrPort) bool
	// Local recognizes the addresses of this machine's interfaces, which are judged as
	// loopback is. May be nil.
	Local func(netip.Addr) bool
	// Ports that may be connected to. Empty: 80, 443 and 1024–65535.
	Ports []PortRange
}

// special holds the blocks of the IANA special-purpose address registries (IPv4 and IPv6)
// and their like. The first block that contains an address counts.
var special = []struct {
	prefix  netip.Prefix
	verdict Verdict
}{
	{netip.MustParsePrefix("0.0.0.0/8"), DenyUnspecified},
	{netip.MustParsePrefix("10.0.0.0/8"), DenyPrivate},
	{netip.MustParsePrefix("100.64.0.0/10"), DenyShared},
	{netip.MustParsePrefix("127.0.0.0/8"), DenyLoopback},
	{netip.MustParsePrefix("168.63.129.16/32"), DenyMetadata}, // Azure's host, inside its machines
	{netip.MustParsePrefix("169.254.0.0/16"), DenyLinkLocal},
	{netip.MustParsePrefix("172.16.0.0/12"), DenyPrivate},
	{netip.MustParsePrefix("192.0.2.0/24"), DenyDocumentation},
	{netip.MustParsePrefix("192.0.0.0/24"), DenyReserved},
	{netip.MustParsePrefix("192.31.196.0/24"), DenyReserved}, // AS112
	{netip.MustParsePrefix("192.52.193.0/24"), DenyReserved}, // AMT
	{netip.MustParsePrefix("192.88.99.0/24"), DenyEmbedded},  // 6to4 relays
	{netip.MustParsePrefix("192.168.0.0/16"), DenyPrivate},
	{netip.MustParsePrefix("192.175.48.0/24"), DenyReserved}, // AS112
	{netip.MustParsePrefix("198.18.0.0/15"), DenyBenchmarking},
	{netip.MustParsePrefix("198.51.100.0/24"), DenyDocumentation},
	{netip.MustParsePrefix("203.0.113.0/24"), DenyDocumentation},
	{netip.MustParsePrefix("224.0.0.0/4"), DenyMulticast},
	{netip.MustParsePrefix("255.255.255.255/32"), DenyMulticast},
	{netip.MustParsePrefix("240.0.0.0/4"), DenyReserved},

	{netip.MustParsePrefix("::/128"), DenyUnspecified},
	{netip.MustParsePrefix("::1/128"), DenyLoopback},
	{netip.MustParsePrefix("::/96"), DenyEmbedded},           // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0:0/96"), DenyEmbedded}, // IPv4-translated
	{netip.MustParsePrefix("64:ff9b:1::/48"), DenyEmbedded},
	{netip.MustParsePrefix("2001::/32"), DenyEmbedded}, // Teredo
	{netip.MustParsePrefix("2001:2::/48"), DenyBenchmarking},
	{netip.MustParsePrefix("2001:db8::/32"), DenyDocumentation},
	{netip.MustParsePrefix("2001::/23"), DenyReserved},         // IETF protocols
	{netip.MustParsePrefix("2002::/16"), DenyEmbedded},         // 6to4
	{netip.MustParsePrefix("2620:4f:8000::/48"), DenyReserved}, // AS112
	{netip.MustParsePrefix("3ffe::/16"), DenyReserved},         // 6bone
	{netip.MustParsePrefix("3fff::/20"), DenyDocumentation},
	{netip.MustParsePrefix("fc00::/7"), DenyPrivate},
	{netip.MustParsePrefix("fe80::/10"), DenyLinkLocal},
	{netip.MustParsePrefix("fec0::/10"), DenyPrivate}, // site-local
	{netip.MustParsePrefix("ff00::/8"), DenyMulticast},
}

// unicast6 holds all IPv6 addresses that are assigned. The rest is reserved, the discard
// (100::/64) and segment routing (5f00::/16) blocks included.
var unicast6 = netip.MustParsePrefix("2000::/3")

// nat64 is the well-known prefix of NAT64 and DNS64 (RFC 6052): the last 32 bits are the IPv4 address
// that the connection ends at.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// Judge says whether purser may connect to an address. An IPv4 address in IPv6 form is judged as
// the IPv4 address, and so is one behind NAT64: only a public one is allowed there, unless a list opens
// both the prefix and the address.
func Judge(addr netip.AddrPort, r Rules) Verdict {
	ip := addr.Addr().Unmap()
	switch {
	case !ip.IsValid() || addr.Addr().Zone() != "":
		return DenyHost
	case r.Own != nil && r.Own(netip.AddrPortFrom(ip, addr.Port())):
		return DenyOwn
	case !portAllowed(r.Ports, addr.Port()):
		return DenyPort
	}
	opened := slices.ContainsFunc(r.Allow, func(p netip.Prefix) bool { return p.Contains(ip) })
	if nat64.Contains(ip) {
		r.AllowLoopback = false // the gateway's loopback is not this machine's
		if !opened {            // an address of a private network means another one behind the gateway
			r.Allow = nil
		}
		b := ip.As16()
		return Judge(netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:])), addr.Port()), r)
	}
	v := purposeOf(ip)
	if v == Allowed && r.Local != nil && r.Local(ip) {
		v = DenyLoopback // a listener there takes purser for a program of this machine
	}
	switch {
	case v == Allowed, v == DenyUnspecified, v == DenyMulticast: // no list opens these
		return v
	case opened:
		return AllowListed
	case v == DenyLoopback && r.AllowLoopback:
		return AllowLocal
	}
	return v
}

func purposeOf(ip netip.Addr) Verdict {
	for _, s := range special {
		if s.prefix.Contains(ip) {
			return s.verdict
		}
	}
	switch {
	case !ip.Is6():
		return Allowed
	case !unicast6.Contains(ip):
		return DenyReserved
	case isatap(ip):
		return DenyEmbedded
	}
	return Allowed
}

// isatap reports whether an address of any prefix names an IPv4 address by its interface identifier
// (RFC 5214), which a tunnel of this machine would lead to.
func isatap(ip netip.Addr) bool {
	b := ip.As16()
	return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}
