package caddymodule

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// Two pursers on one port would share its connections, each with books of its own.
func TestPortOfAnotherProgram(t *testing.T) {
	s := newSite(t)
	address, err := caddy.ParseNetworkAddress(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := address.Listen(t.Context(), 0, net.ListenConfig{}) // as Caddy does: others can listen there too
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.(net.Listener).Close() })
	err = load(t, s.caddyfile())
	if err == nil || !strings.Contains(err.Error(), "another program listens on 127.0.0.1:") || !strings.Contains(err.Error(), "PURSER_PORT") {
		t.Fatalf("started: %v", err)
	}
	if err := validate(s.caddyfile()); err != nil {
		t.Errorf("not valid beside another: %v", err)
	}
	s.port = freePort(t)
	mustLoad(t, s.caddyfile())
	s.app = "daily_budget 7" // reloads share listeners with what they replace, on other addresses too
	mustLoad(t, s.caddyfile())
	s.bind, s.app = "0.0.0.0", "daily_budget 7"
	mustLoad(t, s.caddyfile())
}
