package ports

import (
	"net"
	"net/netip"
	"testing"
)

// A listener of this process is not another's, and addresses are read as the kernel writes them.
func TestListenedByOthers(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of this test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	at := netip.MustParseAddrPort(l.Addr().String())
	everywhere := netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())
	for _, where := range []netip.AddrPort{at, everywhere} {
		if taken, err := ListenedByOthers(where); err != nil || taken {
			t.Errorf("%v: %t, %v", where, taken, err)
		}
		if found, err := listening("/proc/self/net/tcp", where); err != nil || len(found) != 1 {
			t.Errorf("%v: %q, %v", where, found, err)
		}
	}
	if found, err := listening("/proc/self/net/tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), at.Port())); err != nil || len(found) != 0 {
		t.Errorf("another address: %q, %v", found, err)
	}
	client, err := net.Dial("tcp", l.Addr().String()) //nolint:noctx // of this test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if found, err := listening("/proc/self/net/tcp", at); err != nil || len(found) != 1 {
		t.Errorf("beside a connection: %q, %v", found, err)
	}
	for text, want := range map[string]string{
		"0100007F:1F90": "127.0.0.1:8080", "00000000000000000000000000000000:0050": "[::]:80", "00000000000000000000000001000000:1F90": "[::1]:8080",
		"0000000000000000FFFF00000100007F:1F90": "127.0.0.1:8080", "7F:1F90": "", "0100007F:x": "", "": "",
	} {
		got, err := parseLocal(text)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// A listener that this process closes meanwhile is not taken for another program's.
func TestListenedByOthersWhileOneCloses(t *testing.T) {
	t.Parallel()
	var free Free
	port, err := free.Take(1)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port[0]))
	done, stop := make(chan error, 1), make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
			if err == nil {
				err = l.Close()
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	for range 60 {
		if taken, err := ListenedByOthers(at); taken || err != nil {
			t.Errorf("taken %t, %v", taken, err)
			break
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
