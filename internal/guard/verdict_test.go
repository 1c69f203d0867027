package guard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	plain := Rules{}
	local := Rules{AllowLoopback: true}
	listed := Rules{Allow: []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"),
	}}
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
		{"[::ffff:8.8.8.8]:443", plain, Allowed},
		{"[2001:200::]:443", plain, Allowed},

		// The special-purpose registries are in registry_test.go.
		{"[2606:4700::1111%eth0]:80", plain, DenyHost},
		{"[fe80::1%eth0]:80", plain, DenyHost},
		{"[3ffe::1]:80", plain, DenyReserved}, // 6bone
		{"[4000::1]:80", plain, DenyReserved}, // not assigned
		{"[2000::]:80", plain, Allowed},
		{"[1fff:ffff::]:80", plain, DenyReserved},

		// Ports.
		{"1.1.1.1:22", plain, DenyPort},
		{"1.1.1.1:25", plain, DenyPort},
		{"1.1.1.1:1023", plain, DenyPort},
		{"1.1.1.1:0", plain, DenyPort},
		{"1.1.1.1:79", plain, DenyPort},
		{"1.1.1.1:81", plain, DenyPort},
		{"1.1.1.1:442", plain, DenyPort},
		{"1.1.1.1:444", plain, DenyPort},
		{"1.1.1.1:1024", plain, Allowed},
		{"1.1.1.1:65535", plain, Allowed},
		{"1.1.1.1:80", Rules{Ports: []PortRange{{443, 443}}}, DenyPort},
		{"1.1.1.1:443", Rules{Ports: []PortRange{{443, 443}}}, Allowed},

		// The rules open these.
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

func TestDialer(t *testing.T) {
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
		options Options
		address string
		want    Verdict // "" is a connection
	}{
		{"loopback", Options{Rules: Rules{AllowLoopback: true}}, ln.Addr().String(), ""},
		{"not opened", Options{}, ln.Addr().String(), DenyLoopback},
		{"listed", Options{Rules: Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}, ln.Addr().String(), ""},
		{"own", Options{Rules: Rules{AllowLoopback: true, Own: OwnListeners(bound)}}, ln.Addr().String(), DenyOwn},
		{"name after DNS", Options{}, "localhost:" + port, DenyLoopback},
		{"fixed name", Options{Rules: Rules{AllowLoopback: true}, Resolve: names}, "api.Purser.test:" + port, ""},
		{"fixed name, judged", Options{Resolve: names}, "api.purser.test:" + port, DenyLoopback},
		{"fixed private name", Options{Rules: Rules{AllowLoopback: true}, Resolve: names}, "far.purser.test:" + port, DenyPrivate},
		{"port", Options{Rules: Rules{AllowLoopback: true, Ports: []PortRange{{1, 1}}}}, ln.Addr().String(), DenyPort},
		{"unspecified", Options{Rules: Rules{AllowLoopback: true}}, "0.0.0.0:" + port, DenyUnspecified},
		{"zone", Options{Rules: Rules{AllowLoopback: true}}, "[::1%lo]:" + port, DenyHost},
		{"empty", Options{Rules: Rules{AllowLoopback: true}}, ":" + port, DenyHost},
	} {
		conn, err := NewDialer(c.options).DialContext(context.Background(), "tcp", c.address)
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
		// Each host has one form.
		"Example.COM": "example.com", "example.com.": "example.com", "EXAMPLE.com.": "example.com", "localhost": "localhost",
		"a_b.example": "a_b.example", "1.example": "1.example", "a-1.example": "a-1.example", "XN--BCHER-KVA.example": "xn--bcher-kva.example",
		"127.0.0.1": "127.0.0.1", "127.0.0.1.": "127.0.0.1", "::1": "::1", "0:0:0:0:0:0:0:1": "::1", "FE80::0001": "fe80::1",
		"::FFFF:1.2.3.4": "::ffff:1.2.3.4", "::ffff:102:304": "::ffff:1.2.3.4",
		strings.Repeat("a", 63) + ".example": strings.Repeat("a", 63) + ".example",

		// Empty, overlong.
		"": "", ".": "", "..": "", "a..b": "", ".a": "", "a..": "", strings.Repeat("a", 64) + ".example": "",
		strings.Repeat("a.", 127): strings.TrimSuffix(strings.Repeat("a.", 127), "."), strings.Repeat("a.", 128): "", strings.Repeat("abcdefg.", 32) + "example": "",
		// Not ASCII: names come as IDNA makes them.
		// The lower case of some letters is ASCII, which would be another name.
		"ap\u0130.example.com": "", "\u212a.example": "",
		"bücher.example": "", "１２７.0.0.1": "", "127。0。0。1": "", "ⓔxample.com": "", "exam\u00adple.com": "", "\xff.example": "",
		// Control bytes, blanks, and what separates hosts from other things.
		"a b": "", "a\x00b": "", "a\tb": "", "a\r\nb": "", "a\x7f": "", " a": "", "a ": "", "user@host": "", "u:p@host": "", "a/b": "",
		"a?b": "", "a#b": "", "a\\b": "", "a:80": "", "a%2e": "", "127%2e0.0.1": "", "*": "", "*.example": "", "[::1]": "",
		// Addresses with a zone.
		"fe80::1%eth0": "", "fe80::1%25eth0": "", "::1%lo": "", "::ffff:1.2.3.4%eth0": "", "1.2.3.4%eth0": "",
		// Texts that inet_aton and browsers take for an IPv4 address.
		"127.1": "", "127.0.1": "", "2130706433": "", "0": "", "0177.0.0.1": "", "0177.1": "", "127.0.0.01": "", "127.0.0.001": "", "017700000001": "",
		"0x7f.0.0.1": "", "0x7f.1": "", "0x7f000001": "", "0X7F000001": "", "0x": "", "127.0.0.0x1": "", "0x7f.0x0.0x0.0x1": "",
		"1.2.3.4.5": "", "256.0.0.1": "", "1.2.3": "", "4294967296": "", "127.0.0.1..": "", "example.1": "", "::1::": "", "::127.0.0.256": "",
	} {
		got, err := NormalHost(in)
		if got != want || (want == "") != (err != nil) {
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

// The addresses of this machine's interfaces are judged as loopback is.
func TestOwnInterfacesAreLocal(t *testing.T) {
	t.Parallel()
	here := netip.MustParseAddr("8.8.4.4") // as if it were
	local := func(a netip.Addr) bool { return a == here }
	for _, c := range []struct {
		rules Rules
		want  Verdict
	}{
		{Rules{Local: local}, DenyLoopback},
		{Rules{Local: local, AllowLoopback: true}, AllowLocal},
		{Rules{Local: local, Allow: []netip.Prefix{netip.PrefixFrom(here, 32)}}, AllowListed},
		{Rules{}, Allowed},
	} {
		if got := Judge(netip.AddrPortFrom(here, 443), c.rules); got != c.want {
			t.Errorf("%+v: %s", c.rules, got)
		}
	}
}
