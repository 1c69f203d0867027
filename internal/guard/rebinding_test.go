package guard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer is a DNS server whose answers change from question to question: for each name
// the addresses of the next answer, the last one staying.
type nameServer struct {
	t    *testing.T
	conn net.PacketConn

	mu      sync.Mutex
	answers map[string][][]netip.Addr // by name, with a trailing dot
	asked   map[string]int            // A questions
}

func newNameServer(t *testing.T, answers map[string][][]netip.Addr) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{t: t, conn: conn, answers: answers, asked: make(map[string]int)}
	var served sync.WaitGroup
	served.Go(s.serve)
	t.Cleanup(func() {
		_ = conn.Close()
		served.Wait()
	})
	return s
}

func (s *nameServer) serve() {
	buf := make([]byte, 1500)
	for {
		n, peer, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(buf[:n]); err != nil || len(m.Questions) != 1 {
			s.t.Errorf("a bad question: %v", err)
			continue
		}
		m.Header = dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}
		m.Additionals, m.Answers = nil, s.answer(m.Questions[0])
		packed, err := m.Pack()
		if err != nil {
			s.t.Errorf("packing an answer: %v", err)
			continue
		}
		_, _ = s.conn.WriteTo(packed, peer)
	}
}

func (s *nameServer) answer(q dnsmessage.Question) []dnsmessage.Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.answers[q.Name.String()]
	if len(left) == 0 {
		return nil
	}
	var all []dnsmessage.Resource
	for _, addr := range left[0] {
		head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
		switch {
		case q.Type == dnsmessage.TypeA && addr.Is4():
			all = append(all, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}})
		case q.Type == dnsmessage.TypeAAAA && addr.Is6():
			all = append(all, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	// Both kinds are asked for at once, and the addresses change with the second question.
	if s.asked[q.Name.String()]++; s.asked[q.Name.String()]%2 == 0 && len(left) > 1 {
		s.answers[q.Name.String()] = left[1:]
	}
	return all
}

// lookups counts the look-ups of a name.
func (s *nameServer) lookups(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name] / 2
}

func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

var errPublic = errors.New("a public address would be connected to")

// stopShort makes a guard connect to nothing outside this machine; it returns the
// addresses that it would have connected to.
func stopShort(g *Dialer) func() []string {
	var mu sync.Mutex
	var would []string
	control := g.dialer.ControlContext
	g.dialer.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
		if err := control(ctx, network, address, c); err != nil {
			return err
		}
		if addr, err := netip.ParseAddrPort(address); err == nil && !addr.Addr().IsLoopback() {
			mu.Lock()
			defer mu.Unlock()
			would = append(would, address)
			return errPublic
		}
		return nil
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(would)
	}
}

func addrs(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// A name that is public when it is looked up first, and inside afterwards, is judged by the
// address that is connected to. There is one look-up for each connection, so nothing can
// change between judgement and use.
func TestRebinding(t *testing.T) {
	t.Parallel()
	public := addrs("8.8.8.8")
	dns := newNameServer(t, map[string][][]netip.Addr{
		"loopback.test.": {public, addrs("127.0.0.1")}, "private.test.": {public, addrs("10.0.0.1")}, "metadata.test.": {public, addrs("169.254.169.254")},
		"mapped.test.": {public, addrs("::ffff:10.0.0.1")}, "nat64.test.": {public, addrs("64:ff9b::a00:1")}, "six.test.": {addrs("2606:4700::1111"), addrs("::1")},
		"zero.test.": {public, addrs("0.0.0.0")},
	})
	g := NewDialer(Options{Resolver: dns.resolver()})
	would := stopShort(g)
	for name, want := range map[string]Verdict{
		"loopback.test": DenyLoopback, "private.test": DenyPrivate, "metadata.test": DenyLinkLocal, "mapped.test": DenyPrivate,
		"nat64.test": DenyPrivate, "six.test": DenyLoopback, "zero.test": DenyUnspecified,
	} {
		if _, err := g.DialContext(t.Context(), "tcp", name+":443"); !errors.Is(err, errPublic) {
			t.Errorf("%s at first: %v", name, err)
		}
		for range 2 {
			_, err := g.DialContext(t.Context(), "tcp", name+":443")
			var denied *DeniedError
			if !errors.As(err, &denied) || denied.Verdict != want {
				t.Errorf("%s then: %v, want %s", name, err, want)
			}
		}
		if n := dns.lookups(name + "."); n != 3 {
			t.Errorf("%s was looked up %d times for three connections", name, n)
		}
	}
	for _, address := range would() {
		if address != "8.8.8.8:443" && address != "[2606:4700::1111]:443" {
			t.Errorf("%s would be connected to", address)
		}
	}
}

// If a name has several addresses, each is judged.
func TestEachAddressIsJudged(t *testing.T) {
	t.Parallel()
	dns := newNameServer(t, map[string][][]netip.Addr{
		"mixed.test.": {addrs("10.0.0.1", "8.8.8.8", "169.254.169.254", "fd00::1", "::1", "127.0.0.1")},
		"inner.test.": {addrs("10.0.0.1", "192.168.0.1", "fd00::1")},
	})
	g := NewDialer(Options{Resolver: dns.resolver()})
	would := stopShort(g)
	if _, err := g.DialContext(t.Context(), "tcp", "mixed.test:443"); err == nil {
		t.Error("connected")
	}
	if got := would(); !slices.Equal(got, []string{"8.8.8.8:443"}) {
		t.Errorf("would be connected to: %q", got)
	}
	var denied *DeniedError
	if _, err := g.DialContext(t.Context(), "tcp", "inner.test:443"); !errors.As(err, &denied) || denied.Verdict != DenyPrivate {
		t.Errorf("%v", err)
	}
}
