package ports

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
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
	elsewhere := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), at.Port())
	all := []netip.AddrPort{at, elsewhere, everywhere}
	if taken, err := ListenedByOthers(all); err != nil || len(taken) != 0 {
		t.Errorf("%v, %v", taken, err)
	}
	if n := listens(t, at, elsewhere, everywhere); n != [3]int{1, 0, 1} {
		t.Errorf("%v", n)
	}
	client, err := net.Dial("tcp", l.Addr().String()) //nolint:noctx // of this test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if n := listens(t, at, elsewhere, everywhere); n != [3]int{1, 0, 1} {
		t.Errorf("beside a connection: %v", n)
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

// listens counts the sockets that listen at each of three addresses.
func listens(t *testing.T, all ...netip.AddrPort) (n [3]int) {
	t.Helper()
	found := map[string][]netip.AddrPort{}
	if err := listening("/proc/self/net/tcp", all, found); err != nil {
		t.Fatal(err)
	}
	for _, places := range found {
		for i, at := range all {
			n[i] += strings.Count(fmt.Sprint(places), at.String())
		}
	}
	return n
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
		if taken, err := ListenedByOthers([]netip.AddrPort{at}); len(taken) > 0 || err != nil {
			t.Errorf("taken %v, %v", taken, err)
			break
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
