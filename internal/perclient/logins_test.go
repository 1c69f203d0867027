package perclient

import (
	"crypto/sha256"
	"net/netip"
	"testing"
	"time"
)

func TestLogins(t *testing.T) {
	t.Parallel()
	l, now := NewLogins(20, 30), time.Now()
	peer, neighbour := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	guess, known := sha256.Sum256([]byte("guess")), sha256.Sum256([]byte("known"))
	l.Succeeded(known, now)
	for range 20 {
		if l.Blocked(peer, guess, now) != 0 {
			t.Fatal("blocked too early")
		}
		l.Failed(peer, now)
	}
	for addr, want := range map[netip.Addr]bool{
		peer: true, neighbour: true, netip.MustParseAddr("2001:db8:0:1::1"): false, netip.MustParseAddr("192.0.2.1"): false,
	} {
		if got := l.Blocked(addr, guess, now) > 0; got != want {
			t.Errorf("%s is blocked: %t", addr, got)
		}
	}
	if l.Blocked(peer, known, now) != 0 || l.Blocked(peer, known, now.Add(knownFor)) != 0 {
		t.Error("a right key is blocked")
	}
	if wait := l.Blocked(peer, guess, now); wait > 2*time.Second || l.Blocked(peer, guess, now.Add(wait+time.Millisecond)) != 0 {
		t.Errorf("blocked for %s", wait)
	}
}
