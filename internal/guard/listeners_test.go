package guard

import (
	"net"
	"net/netip"
	"testing"
)

// interfaceAddr is an address of this machine that is not loopback; the zero address if it
// has none.
func interfaceAddr(t *testing.T) netip.Addr {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok && !ip.Unmap().IsLoopback() && !ip.IsLinkLocalUnicast() {
				return ip.Unmap()
			}
		}
	}
	return netip.Addr{}
}

// Our own listeners are recognized in every form in which an address leads to them, and
// no list opens them.
func TestJudgeOwnListeners(t *testing.T) {
	t.Parallel()
	type judged struct {
		addr string
		want Verdict
	}
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	outside := interfaceAddr(t)
	for _, c := range []struct {
		listener string
		judged   []judged
	}{
		{"127.0.0.1:8402", []judged{
			{"127.0.0.1:8402", DenyOwn},
			{"[::ffff:127.0.0.1]:8402", DenyOwn},
			{"[::ffff:7f00:1]:8402", DenyOwn},
			{"0.0.0.0:8402", DenyOwn},
			{"[::]:8402", DenyOwn},
			{"[::ffff:0.0.0.0]:8402", DenyOwn}, // systems connect these to loopback
			{"127.0.0.1:8403", AllowListed},
			{"127.0.0.2:8402", AllowListed},
			{"[::1]:8402", AllowListed},
			{"8.8.8.8:8402", Allowed},
			{"10.0.0.1:8402", AllowListed},
		}},
		{"[::1]:8402", []judged{
			{"[::1]:8402", DenyOwn}, {"[::]:8402", DenyOwn}, {"0.0.0.0:8402", DenyOwn}, {"[::1]:8403", AllowListed}, {"127.0.0.1:8402", AllowListed},
		}},
		{"[::ffff:127.0.0.1]:8402", []judged{{"127.0.0.1:8402", DenyOwn}, {"[::ffff:127.0.0.1]:8402", DenyOwn}, {"0.0.0.0:8402", DenyOwn}}},
		{"0.0.0.0:8402", []judged{
			{"127.0.0.1:8402", DenyOwn},
			{"127.9.9.9:8402", DenyOwn},
			{"0.0.0.0:8402", DenyOwn},
			{"[::]:8402", DenyOwn},
			{"[::1]:8402", DenyOwn},
			{"[::ffff:127.0.0.1]:8402", DenyOwn},
			{"127.0.0.1:8403", AllowListed},
			{"8.8.8.8:8402", Allowed},
			{"192.0.2.1:8402", AllowListed},
		}},
		{"[::]:8402", []judged{
			{"127.0.0.1:8402", DenyOwn},
			{"127.9.9.9:8402", DenyOwn},
			{"0.0.0.0:8402", DenyOwn},
			{"[::]:8402", DenyOwn},
			{"[::1]:8402", DenyOwn},
			{"[::ffff:127.0.0.1]:8402", DenyOwn},
			{"[::1]:8403", AllowListed},
			{"[2606:4700::1111]:8402", Allowed},
		}},
		{"10.1.2.3:8402", []judged{
			{"10.1.2.3:8402", DenyOwn},
			{"[::ffff:10.1.2.3]:8402", DenyOwn},
			{"10.1.2.4:8402", AllowListed},
			{"10.1.2.3:80", AllowListed},
			{"0.0.0.0:8402", DenyUnspecified},
		}},
	} {
		rules := Rules{Allow: everything, AllowLoopback: true, Own: OwnListeners(netip.MustParseAddrPort(c.listener))}
		listener := netip.MustParseAddrPort(c.listener)
		if outside.IsValid() && listener.Addr().IsUnspecified() {
			c.judged = append(c.judged,
				judged{netip.AddrPortFrom(outside, listener.Port()).String(), DenyOwn},
				judged{netip.AddrPortFrom(netip.AddrFrom16(outside.As16()), listener.Port()).String(), DenyOwn})
		}
		for _, j := range c.judged {
			if got := Judge(netip.MustParseAddrPort(j.addr), rules); got != j.want {
				t.Errorf("listening on %s, %s: %s, want %s", c.listener, j.addr, got, j.want)
			}
		}
	}
	none := Rules{AllowLoopback: true, Own: OwnListeners()}
	if got := Judge(netip.MustParseAddrPort("127.0.0.1:8402"), none); got != AllowLocal {
		t.Errorf("without listeners: %s", got)
	}
}

// A listener of ours on port 22 is denied for being ours: the log has the word that matters more.
func TestJudgeOrder(t *testing.T) {
	t.Parallel()
	own := Rules{Own: OwnListeners(netip.MustParseAddrPort("127.0.0.1:22"))}
	for addr, want := range map[string]Verdict{"127.0.0.1:22": DenyOwn, "10.0.0.1:22": DenyPort, "10.0.0.1:80": DenyPrivate} {
		if got := Judge(netip.MustParseAddrPort(addr), own); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}
