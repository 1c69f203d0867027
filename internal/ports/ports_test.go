package ports

import (
	"fmt"
	"net"
	"testing"
)

func TestPortsAreGivenOnce(t *testing.T) {
	t.Parallel()
	var f Free
	seen := map[int]bool{}
	note := func(port int) {
		t.Helper()
		if seen[port] || port < lowest || port >= handedOut {
			t.Errorf("port %d, given before %t", port, seen[port])
		}
		seen[port] = true
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Skipf("somebody else took port %d meanwhile: %v", port, err)
		}
		_ = l.Close()
	}
	for range 300 {
		several, err := f.Take(3)
		if err != nil || len(several) != 3 {
			t.Fatal(several, err)
		}
		first, err := f.Block(8)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			several = append(several, first+i)
		}
		for _, port := range several {
			note(port)
		}
	}
}

func TestPortsInUseAreNotGiven(t *testing.T) {
	t.Parallel()
	var f Free
	first, err := f.Block(8)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+5))
	if err != nil {
		t.Skipf("somebody else took port %d meanwhile: %v", first+5, err)
	}
	defer l.Close()
	if unused(first, 8) || unused(first+5, 1) || !unused(first, 5) {
		t.Error("a port in use is taken for free, or a free one for used")
	}
}
