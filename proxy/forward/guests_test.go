package forward

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// A key of open registration neither relays nor tunnels where strangers reach the proxy, until an
// operator opens the proxy to it. All keys that the operator or an organization answers for do.
func TestGuestsDoNotRelay(t *testing.T) {
	t.Parallel()
	for _, opened := range []bool{false, true} {
		w := newWorld(t, func(s *setup) { s.forward.Guests = NoGuests })
		if opened { // the CONNECT is
			w = newSecure(t, func(s *setup) { s.forward.Guests = NoGuests }).world
		}
		s := proxytest.NewSeller(t)
		relayed := func(secret string) (int, string) {
			a := w.do(w.client(url.User(secret)), proxytest.Request(t, "GET", s.URL+"/free", nil))
			return a.StatusCode, a.Header.Get("Purser-Error")
		}
		tunnelled := func(secret string) (int, string) {
			a, conn, _ := w.raw("CONNECT "+s.Listener.Addr().String()+" HTTP/1.1\nHost: x\nProxy-Authorization: "+basic(secret, "")+"\n\n", "CONNECT")
			_ = conn.Close()
			return a.StatusCode, a.Header.Get("Purser-Error")
		}
		made := func(want books.KeyRequest) (pay.Key, string) {
			key, secret, err := w.Books.CreateKey(t.Context(), want)
			if err != nil {
				t.Fatal(err)
			}
			return key, secret
		}
		guest, secret := made(books.KeyRequest{})
		_, narrow := made(books.KeyRequest{Policy: &policy.Policy{Doors: []policy.Door{policy.DoorAPI}}})
		for what, ask := range map[string]func(string) (int, string){"relay": relayed, "tunnel": tunnelled} {
			for _, key := range []string{secret, narrow} {
				if code, reason := ask(key); code != http.StatusForbidden || reason != reasonRelay {
					t.Errorf("opened %t, a guest's %s: %d %s", opened, what, code, reason)
				}
			}
			for who, want := range map[string]books.KeyRequest{
				"the operator": {Operator: true}, "an organization": {OrganizationID: "acme"},
				"the holder of the internal secret": {Policy: &policy.Policy{Doors: []policy.Door{policy.DoorAPI, policy.DoorProxy, policy.DoorTransport}}},
			} {
				if want.OrganizationID != "" {
					want.OrganizationID += what // the plan bounds the keys of one
				}
				_, secret := made(want)
				if code, reason := ask(secret); code != http.StatusOK {
					t.Errorf("opened %t, a %s of a key that %s answers for: %d %s", opened, what, who, code, reason)
				}
			}
		}
		if _, err := w.Books.SetPolicy(t.Context(), guest.ID, &policy.Policy{Doors: []policy.Door{policy.DoorProxy, policy.DoorAPI}}); err != nil {
			t.Fatal(err)
		}
		for what, ask := range map[string]func(string) (int, string){"relay": relayed, "tunnel": tunnelled} {
			if code, reason := ask(secret); code != http.StatusOK {
				t.Errorf("opened %t, a %s that the operator lets a guest make: %d %s", opened, what, code, reason)
			}
		}
	}
}

// On loopback, programs of this machine are no strangers. A request that another proxy has forwarded is.
func TestGuestsOfThisMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.forward.Guests = GuestsHere })
	for _, c := range []struct {
		peer, header string
		ok           bool
	}{
		{"127.0.0.1:1", "", true},
		{"[::ffff:127.0.0.1]:1", "", true},
		{"@", "", true}, // a socket
		{"203.0.113.1:1", "", false},
		{"127.0.0.1:1", "X-Forwarded-For", false},
		{"127.0.0.1:1", "Forwarded", false},
		{"127.0.0.1:1", "Via", false},
		{"127.0.0.1:1", "X-Real-Ip", false},
		{"@", "X-Forwarded-Proto", false},
	} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://seller.example/", nil)
		r.RemoteAddr = c.peer
		r.Header.Set("Proxy-Authorization", basic(w.Secret, ""))
		if c.header != "" {
			r.Header.Set(c.header, "203.0.113.1")
		}
		if _, no := w.forward.authenticate(r); (no == nil) != c.ok || !c.ok && no != notForThisKey {
			t.Errorf("%s %s: %v", c.peer, c.header, no)
		}
	}
}

// The door that an operator opened to a guest closes on open connections, too.
func TestGuestIsTurnedAwayInsideAConnection(t *testing.T) {
	t.Parallel()
	clock := time.Now()
	s := &session{who: caller{key: pay.Key{ID: "guest", Policy: &policy.Policy{Doors: []policy.Door{policy.DoorProxy}}}}, asked: clock}
	f := &Proxy{now: func() time.Time { return clock }}
	if _, no := s.caller(t.Context(), f); no != nil {
		t.Errorf("while it may: %v", no.text)
	}
	s.who.key.Policy = nil
	if _, no := s.caller(t.Context(), f); no != notForThisKey {
		t.Errorf("when it may not any more: %v", no)
	}
}
