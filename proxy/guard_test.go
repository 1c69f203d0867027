package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	plain := Rules{}
	local := Rules{AllowLoopback: true}
	listed := Rules{Allow: []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"),
	}}
	own := Rules{AllowLoopback: true, Own: OwnListeners(netip.MustParseAddrPort("127.0.0.1:8402"), netip.MustParseAddrPort("[::]:8407"))}
	for _, c := range []struct {
		addr  string
		rules Rules
		want  Verdict
	}{
		// Public.
		{"1.1.1.1:443", plain, Allowed},
		{"8.8.8.8:80", plain, Allowed},
		{"[2606:4700::1111]:443", plain, Allowed},
		{"[2a00:1450::1]:8443", plain, Allowed},
		{"172.15.255.255:443", plain, Allowed},
		{"172.32.0.0:443", plain, Allowed},
		{"100.63.255.255:443", plain, Allowed},
		{"100.128.0.0:443", plain, Allowed},
		{"192.167.255.255:443", plain, Allowed},
		{"198.17.255.255:443", plain, Allowed},
		{"198.20.0.0:443", plain, Allowed},
		{"223.255.255.255:443", plain, Allowed},
		{"11.0.0.0:443", plain, Allowed},
		{"[::ffff:8.8.8.8]:443", plain, Allowed},
		{"[2001:200::]:443", plain, Allowed},

		// IANA IPv4 special-purpose registry.
		{"0.0.0.0:80", plain, DenyUnspecified},
		{"0.1.2.3:80", plain, DenyUnspecified},
		{"10.0.0.0:80", plain, DenyPrivate},
		{"10.255.255.255:80", plain, DenyPrivate},
		{"100.64.0.1:80", plain, DenyShared},
		{"100.127.255.255:80", plain, DenyShared},
		{"127.0.0.1:80", plain, DenyLoopback},
		{"127.255.255.254:80", plain, DenyLoopback},
		{"169.254.169.254:80", plain, DenyLinkLocal},
		{"172.16.0.1:80", plain, DenyPrivate},
		{"172.31.255.255:80", plain, DenyPrivate},
		{"192.0.0.1:80", plain, DenyReserved},
		{"192.0.0.8:80", plain, DenyReserved},
		{"192.0.0.9:80", plain, DenyReserved},
		{"192.0.0.10:80", plain, DenyReserved},
		{"192.0.0.170:80", plain, DenyReserved},
		{"192.0.0.171:80", plain, DenyReserved},
		{"192.0.2.1:80", plain, DenyDocumentation},
		{"192.31.196.1:80", plain, DenyReserved},
		{"192.52.193.1:80", plain, DenyReserved},
		{"192.88.99.1:80", plain, DenyEmbedded},
		{"192.168.1.1:80", plain, DenyPrivate},
		{"192.175.48.1:80", plain, DenyReserved},
		{"198.18.0.1:80", plain, DenyBenchmarking},
		{"198.19.255.255:80", plain, DenyBenchmarking},
		{"198.51.100.1:80", plain, DenyDocumentation},
		{"203.0.113.1:80", plain, DenyDocumentation},
		{"224.0.0.1:80", plain, DenyMulticast},
		{"239.255.255.255:80", plain, DenyMulticast},
		{"240.0.0.1:80", plain, DenyReserved},
		{"255.255.255.255:80", plain, DenyMulticast},

		// IANA IPv6 special-purpose registry.
		{"[::1]:80", plain, DenyLoopback},
		{"[::]:80", plain, DenyUnspecified},
		{"[::ffff:127.0.0.1]:80", plain, DenyLoopback},
		{"[::ffff:10.0.0.1]:80", plain, DenyPrivate},
		{"[::ffff:169.254.169.254]:80", plain, DenyLinkLocal},
		{"[::ffff:0:10.0.0.1]:80", plain, DenyEmbedded},
		{"[::10.0.0.1]:80", plain, DenyEmbedded},
		{"[64:ff9b::a00:1]:80", plain, DenyEmbedded},
		{"[64:ff9b:1::a00:1]:80", plain, DenyEmbedded},
		{"[100::1]:80", plain, DenyReserved},
		{"[100:0:0:1::1]:80", plain, DenyReserved},
		{"[2001::1]:80", plain, DenyEmbedded},
		{"[2001:1::1]:80", plain, DenyReserved},
		{"[2001:1::2]:80", plain, DenyReserved},
		{"[2001:1::3]:80", plain, DenyReserved},
		{"[2001:2::1]:80", plain, DenyBenchmarking},
		{"[2001:3::1]:80", plain, DenyReserved},
		{"[2001:4:112::1]:80", plain, DenyReserved},
		{"[2001:10::1]:80", plain, DenyReserved},
		{"[2001:20::1]:80", plain, DenyReserved},
		{"[2001:30::1]:80", plain, DenyReserved},
		{"[2001:db8::1]:80", plain, DenyDocumentation},
		{"[2002:a00:1::]:80", plain, DenyEmbedded},
		{"[2620:4f:8000::1]:80", plain, DenyReserved},
		{"[3fff::1]:80", plain, DenyDocumentation},
		{"[5f00::1]:80", plain, DenyReserved},
		{"[fc00::1]:80", plain, DenyPrivate},
		{"[fd12:3456::1]:80", plain, DenyPrivate},
		{"[fe80::1]:80", plain, DenyLinkLocal},
		{"[fec0::1]:80", plain, DenyPrivate},
		{"[ff02::1]:80", plain, DenyMulticast},
		{"[4000::1]:80", plain, DenyReserved},
		{"[3ffe::1]:80", plain, DenyReserved},
		{"[2606:4700::1%eth0]:80", plain, DenyHost},

		// Ports.
		{"1.1.1.1:22", plain, DenyPort},
		{"1.1.1.1:25", plain, DenyPort},
		{"1.1.1.1:1023", plain, DenyPort},
		{"1.1.1.1:0", plain, DenyPort},
		{"1.1.1.1:1024", plain, Allowed},
		{"1.1.1.1:65535", plain, Allowed},
		{"1.1.1.1:80", Rules{Ports: []PortRange{{443, 443}}}, DenyPort},
		{"1.1.1.1:443", Rules{Ports: []PortRange{{443, 443}}}, Allowed},

		// What is opened.
		{"127.0.0.1:9000", local, AllowLocal},
		{"[::1]:9000", local, AllowLocal},
		{"[::ffff:127.0.0.1]:9000", local, AllowLocal},
		{"0.0.0.0:9000", local, DenyUnspecified},
		{"10.1.2.3:80", local, DenyPrivate},
		{"127.0.0.1:22", local, DenyPort},
		{"10.1.2.3:80", listed, AllowListed},
		{"[fd00::1]:80", listed, AllowListed},
		{"127.0.0.1:80", listed, AllowListed},
		{"0.0.0.0:80", listed, DenyUnspecified},
		{"[::]:80", listed, DenyUnspecified},
		{"224.0.0.1:80", listed, DenyMulticast},
		{"1.1.1.1:80", listed, Allowed},
		{"10.1.2.3:25", listed, DenyPort},

		// Ourselves.
		{"127.0.0.1:8402", own, DenyOwn},
		{"[::ffff:127.0.0.1]:8402", own, DenyOwn},
		{"127.0.0.1:8403", own, AllowLocal},
		{"[::1]:8402", own, AllowLocal},
		{"0.0.0.0:8402", own, DenyOwn},
		{"127.0.0.1:8407", own, DenyOwn},
		{"[::1]:8407", own, DenyOwn},
		{"8.8.8.8:8407", own, Allowed},
	} {
		if got := Judge(netip.MustParseAddrPort(c.addr), c.rules); got != c.want {
			t.Errorf("%s: %s, want %s", c.addr, got, c.want)
		}
	}
	if got := Judge(netip.AddrPort{}, plain); got != DenyHost {
		t.Errorf("no address: %s", got)
	}
}

func TestVerdictOK(t *testing.T) {
	t.Parallel()
	for v, want := range map[Verdict]bool{Allowed: true, AllowListed: true, AllowLocal: true, DenyPort: false, DenyPrivate: false, "": false} {
		if v.OK() != want {
			t.Errorf("%q: %t", v, v.OK())
		}
	}
}

func TestGuardDials(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	bound := netip.MustParseAddrPort(ln.Addr().String())
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	loopback := netip.MustParseAddr("127.0.0.1")
	names := map[string]netip.Addr{"API.purser.test.": loopback, "far.purser.test": netip.MustParseAddr("10.0.0.1")}
	for _, c := range []struct {
		name    string
		options GuardOptions
		address string
		want    Verdict // "" is a connection
	}{
		{"loopback", GuardOptions{AllowLoopback: true}, ln.Addr().String(), ""},
		{"not opened", GuardOptions{}, ln.Addr().String(), DenyLoopback},
		{"listed", GuardOptions{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, ln.Addr().String(), ""},
		{"own", GuardOptions{AllowLoopback: true, Own: OwnListeners(bound)}, ln.Addr().String(), DenyOwn},
		{"name after DNS", GuardOptions{}, "localhost:" + port, DenyLoopback},
		{"fixed name", GuardOptions{AllowLoopback: true, Resolve: names}, "api.Purser.test:" + port, ""},
		{"fixed name, judged", GuardOptions{Resolve: names}, "api.purser.test:" + port, DenyLoopback},
		{"fixed private name", GuardOptions{AllowLoopback: true, Resolve: names}, "far.purser.test:" + port, DenyPrivate},
		{"port", GuardOptions{AllowLoopback: true, Ports: []PortRange{{1, 1}}}, ln.Addr().String(), DenyPort},
		{"unspecified", GuardOptions{AllowLoopback: true}, "0.0.0.0:" + port, DenyUnspecified},
		{"zone", GuardOptions{AllowLoopback: true}, "[::1%lo]:" + port, DenyHost},
		{"empty", GuardOptions{AllowLoopback: true}, ":" + port, DenyHost},
	} {
		conn, err := NewGuard(c.options).DialContext(context.Background(), "tcp", c.address)
		var denied *DeniedError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (!errors.As(err, &denied) || denied.Verdict != c.want):
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		if conn != nil {
			_ = conn.Close()
		}
	}
}

func TestNormalHost(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Example.COM.": "example.com", "a_b.example": "a_b.example", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"127.0.0.1": "127.0.0.1", "::1": "::1", "::FFFF:1.2.3.4": "::ffff:1.2.3.4", "1.example": "1.example", "localhost": "localhost",
		"": "", ".": "", "a..b": "", ".a": "", "bücher.example": "", "a b": "", "a\x00b": "", "user@host": "", "a/b": "",
		"0177.0.0.1": "", "127.1": "", "2130706433": "", "0x7f.1": "", "1.2.3.4.5": "", "0x7f000001": "", "fe80::1%eth0": "", "[::1]": "",
	} {
		got, err := normalHost(in)
		if got != want && err == nil || (want == "") != (err != nil) {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestParsePorts(t *testing.T) {
	t.Parallel()
	got, err := ParsePorts("80", "1024-65535")
	if err != nil || len(got) != 2 || got[0] != (PortRange{80, 80}) || got[1] != (PortRange{1024, 65535}) {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"", "0", "x", "2-1", "1-", "-1", "65536", "1-65536", "80,443"} {
		if _, err := ParsePorts(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
