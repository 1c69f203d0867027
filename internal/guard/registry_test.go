package guard

import (
	"net/netip"
	"testing"
)

// block is an entry of an IANA registry and what the guard makes of it.
type block struct {
	name   string
	prefix string
	want   Verdict
	// before and after are the verdicts on the addresses next to the block; "" is Allowed.
	before, after Verdict
}

// The IANA IPv4 Special-Purpose Address Registry, all of it, multicast, and a cloud's metadata.
var registry4 = []block{
	{`"This network"`, "0.0.0.0/8", DenyUnspecified, DenyHost, ""}, // before it is nothing
	{`"This host on this network"`, "0.0.0.0/32", DenyUnspecified, DenyHost, DenyUnspecified},
	{"Private-Use", "10.0.0.0/8", DenyPrivate, "", ""},
	{"Shared Address Space", "100.64.0.0/10", DenyShared, "", ""},
	{"Loopback", "127.0.0.0/8", DenyLoopback, "", ""},
	{"Link Local", "169.254.0.0/16", DenyLinkLocal, "", ""},
	{"Private-Use", "172.16.0.0/12", DenyPrivate, "", ""},
	{"IETF Protocol Assignments", "192.0.0.0/24", DenyReserved, "", ""},
	{"IPv4 Service Continuity Prefix", "192.0.0.0/29", DenyReserved, "", DenyReserved},
	{"IPv4 dummy address", "192.0.0.8/32", DenyReserved, DenyReserved, DenyReserved},
	{"Port Control Protocol Anycast", "192.0.0.9/32", DenyReserved, DenyReserved, DenyReserved},
	{"Traversal Using Relays around NAT Anycast", "192.0.0.10/32", DenyReserved, DenyReserved, DenyReserved},
	{"NAT64/DNS64 Discovery", "192.0.0.170/32", DenyReserved, DenyReserved, DenyReserved},
	{"NAT64/DNS64 Discovery", "192.0.0.171/32", DenyReserved, DenyReserved, DenyReserved},
	{"Documentation (TEST-NET-1)", "192.0.2.0/24", DenyDocumentation, "", ""},
	{"AS112-v4", "192.31.196.0/24", DenyReserved, "", ""},
	{"AMT", "192.52.193.0/24", DenyReserved, "", ""},
	{"Deprecated (6to4 Relay Anycast)", "192.88.99.0/24", DenyEmbedded, "", ""},
	{"6a44-relay anycast address", "192.88.99.2/32", DenyEmbedded, DenyEmbedded, DenyEmbedded},
	{"Private-Use", "192.168.0.0/16", DenyPrivate, "", ""},
	{"Direct Delegation AS112 Service", "192.175.48.0/24", DenyReserved, "", ""},
	{"Benchmarking", "198.18.0.0/15", DenyBenchmarking, "", ""},
	{"Documentation (TEST-NET-2)", "198.51.100.0/24", DenyDocumentation, "", ""},
	{"Documentation (TEST-NET-3)", "203.0.113.0/24", DenyDocumentation, "", ""},
	{"Multicast", "224.0.0.0/4", DenyMulticast, "", DenyReserved},
	{"Reserved", "240.0.0.0/4", DenyReserved, DenyMulticast, DenyHost},
	{"Limited Broadcast", "255.255.255.255/32", DenyMulticast, DenyReserved, DenyHost},
	{"Azure's host, inside its machines", "168.63.129.16/32", DenyMetadata, "", ""},
}

// The IANA IPv6 Special-Purpose Address Registry, all of it, and what is like it.
var registry6 = []block{
	{"Loopback Address", "::1/128", DenyLoopback, DenyUnspecified, DenyEmbedded},
	{"Unspecified Address", "::/128", DenyUnspecified, DenyHost, DenyLoopback},
	// "IPv4-IPv6 Translat.", 64:ff9b::/96, is judged by the IPv4 address: TestJudgeBehindNAT64.
	{"IPv4-IPv6 Translat.", "64:ff9b:1::/48", DenyEmbedded, DenyReserved, DenyReserved},
	{"Discard-Only Address Block", "100::/64", DenyReserved, DenyReserved, DenyReserved},
	{"Dummy IPv6 Prefix", "100:0:0:1::/64", DenyReserved, DenyReserved, DenyReserved},
	{"IETF Protocol Assignments", "2001::/23", DenyReserved, "", ""},
	{"TEREDO", "2001::/32", DenyEmbedded, "", DenyReserved},
	{"Port Control Protocol Anycast", "2001:1::1/128", DenyReserved, DenyReserved, DenyReserved},
	{"Traversal Using Relays around NAT Anycast", "2001:1::2/128", DenyReserved, DenyReserved, DenyReserved},
	{"DNS-SD Service Registration Protocol Anycast", "2001:1::3/128", DenyReserved, DenyReserved, DenyReserved},
	{"Benchmarking", "2001:2::/48", DenyBenchmarking, DenyReserved, DenyReserved},
	{"AMT", "2001:3::/32", DenyReserved, DenyReserved, DenyReserved},
	{"AS112-v6", "2001:4:112::/48", DenyReserved, DenyReserved, DenyReserved},
	{"Deprecated (previously ORCHID)", "2001:10::/28", DenyReserved, DenyReserved, DenyReserved},
	{"ORCHIDv2", "2001:20::/28", DenyReserved, DenyReserved, DenyReserved},
	{"Drone Remote ID Protocol Entity Tags (DETs) Prefix", "2001:30::/28", DenyReserved, DenyReserved, DenyReserved},
	{"Documentation", "2001:db8::/32", DenyDocumentation, "", ""},
	{"6to4", "2002::/16", DenyEmbedded, "", ""},
	{"Direct Delegation AS112 Service", "2620:4f:8000::/48", DenyReserved, "", ""},
	{"Documentation", "3fff::/20", DenyDocumentation, DenyReserved, ""}, // before it are the last of 6bone
	{"Segment Routing (SRv6) SIDs", "5f00::/16", DenyReserved, DenyReserved, DenyReserved},
	{"Unique-Local", "fc00::/7", DenyPrivate, DenyReserved, DenyReserved},
	{"Link-Local Unicast", "fe80::/10", DenyLinkLocal, DenyReserved, DenyPrivate},

	// Not in the registry.
	{"IPv4-compatible", "::/96", DenyEmbedded, DenyHost, DenyReserved},
	{"IPv4-translated", "::ffff:0:0:0/96", DenyEmbedded, DenyReserved, DenyReserved},
	{"Site-Local", "fec0::/10", DenyPrivate, DenyLinkLocal, DenyMulticast},
	{"Multicast", "ff00::/8", DenyMulticast, DenyPrivate, DenyHost},
}

// Every special-purpose block is denied from its first address to its last, and nothing
// beside it is.
func TestJudgeRegistries(t *testing.T) {
	t.Parallel()
	for _, b := range append(registry4, registry6...) {
		prefix := netip.MustParsePrefix(b.prefix)
		first, last := prefix.Addr(), lastOf(prefix)
		if b.prefix == "2001::/23" || b.prefix == "::/96" { // a smaller block begins there
			first = last
		}
		if b.prefix == "240.0.0.0/4" { // another one ends there
			last = last.Prev()
		}
		for what, addr := range map[string]netip.Addr{"first": first, "inside": middleOf(prefix), "last": last} {
			if got := judge(addr); got != b.want {
				t.Errorf("%s %s, %s address %s: %s, want %s", b.name, b.prefix, what, addr, got, b.want)
			}
		}
		for addr, want := range map[netip.Addr]Verdict{prefix.Addr().Prev(): b.before, lastOf(prefix).Next(): b.after} {
			if want == "" {
				want = Allowed
			}
			if got := judge(addr); got != want {
				t.Errorf("%s %s, %s beside it: %s, want %s", b.name, b.prefix, addr, got, want)
			}
		}
	}
}

// "IPv4-mapped Address", ::ffff:0:0/96 of the IPv6 registry, is IPv4 in another notation:
// each address gets the verdict of what it stands for.
func TestJudgeMapped(t *testing.T) {
	t.Parallel()
	for _, b := range registry4 {
		prefix := netip.MustParsePrefix(b.prefix)
		for _, addr := range []netip.Addr{prefix.Addr(), middleOf(prefix), lastOf(prefix)} {
			mapped := netip.AddrFrom16(addr.As16())
			if !mapped.Is4In6() || judge(mapped) != judge(addr) {
				t.Errorf("%s: %s, want %s", mapped, judge(mapped), judge(addr))
			}
		}
	}
	if got := judge(netip.MustParseAddr("::ffff:8.8.8.8")); got != Allowed {
		t.Errorf("a public address, mapped: %s", got)
	}
}

// Behind NAT64 only public IPv4 addresses are allowed: "this machine" and private networks are the
// gateway's there. A list opens others if it opens the prefix and the address, and loopback stays closed
// to one that opens loopback alone.
func TestJudgeBehindNAT64(t *testing.T) {
	t.Parallel()
	prefix := netip.MustParsePrefix("64:ff9b::/96")
	inside := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("127.0.0.0/8")}
	for name, rules := range map[string]Rules{
		"closed": {AllowLoopback: true}, "address opened": {Allow: inside, AllowLoopback: true},
		"both opened": {Allow: append(inside, prefix), AllowLoopback: true},
	} {
		listed, loopback := DenyPrivate, DenyLoopback
		if name == "both opened" {
			listed, loopback = AllowListed, AllowListed
		}
		for addr, want := range map[string]Verdict{
			"64:ff9b::808:808": Allowed, "64:ff9b::a01:1": listed, "64:ff9b::a02:1": DenyPrivate, "64:ff9b::7f00:1": loopback,
			"64:ff9b::a9fe:a9fe": DenyLinkLocal, "64:ff9b::a83f:8110": DenyMetadata, "64:ff9b::6440:1": DenyShared,
			"64:ff9b::": DenyUnspecified, "64:ff9b::e000:1": DenyMulticast, "64:ff9b:1::808:808": DenyEmbedded,
			"64:ff9b:0:1::808:808": DenyReserved, "64:ff9b::1:808:808": DenyReserved,
		} {
			if got := Judge(netip.AddrPortFrom(netip.MustParseAddr(addr), 443), rules); got != want {
				t.Errorf("%s, %s: %s, want %s", name, addr, got, want)
			}
		}
	}
	own := Rules{Own: OwnListeners(netip.MustParseAddrPort("8.8.8.8:443"))}
	if got := Judge(netip.MustParseAddrPort("[64:ff9b::808:808]:443"), own); got != DenyOwn {
		t.Errorf("purser's own address behind NAT64: %s", got)
	}
	if got := Judge(netip.MustParseAddrPort("[64:ff9b::808:808]:22"), Rules{}); got != DenyPort {
		t.Errorf("a port that is closed: %s", got)
	}
}

// An interface identifier of ISATAP leads into a tunnel to the IPv4 address in it, below any prefix.
func TestJudgeISATAP(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]Verdict{
		"2606:4700::5efe:a00:1": DenyEmbedded, "2606:4700::200:5efe:808:808": DenyEmbedded, "2606:4700::5eff:a00:1": Allowed,
		"fe80::5efe:a00:1": DenyLinkLocal,
	} {
		if got := judge(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

func judge(addr netip.Addr) Verdict { return Judge(netip.AddrPortFrom(addr, 443), Rules{}) }

// lastOf is the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

// middleOf is an address of a prefix that is neither the first nor the last, if it has more
// than two.
func middleOf(p netip.Prefix) netip.Addr {
	b := lastOf(p).AsSlice()
	if bit := p.Bits(); bit < len(b)*8 { // the second half without its end
		b[len(b)-1] &^= 1
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}
