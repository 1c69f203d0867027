package caddymodule

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
)

// reload starts the site anew, as after a restart of the process.
func (s *site) reload(t *testing.T, socket, log string) {
	t.Helper()
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	s.port = freePort(t) // another program may have taken the one that was given back
	text := replaceOnce(t, s.caddyfile(), "admin off", "admin unix/"+socket+"|0600")
	mustLoad(t, replaceOnce(t, text, "level WARN", "level DEBUG\n\t\toutput file "+log))
}

// A start with another PURSER_KEY offers to revoke the one before, and does not do it.
func TestReplacedDeploymentKey(t *testing.T) {
	s := newSite(t)
	socket := filepath.Join(t.TempDir(), "admin.sock")
	start := func(key string) (log string) {
		t.Helper()
		t.Setenv("PURSER_KEY", key)
		log = filepath.Join(t.TempDir(), "log")
		s.reload(t, socket, log)
		return log
	}
	idOf := func(label string) (ids []string) {
		for _, k := range decode[adminapi.Keys](t, told(t, socket, "keys", "--json")).Keys {
			if k.Label == label {
				ids = append(ids, k.ID)
			}
		}
		return ids
	}
	offered := func(log string) bool {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "purser keys revoke ")
	}
	for range 2 {
		if offered(start("pk_deployment-1")) {
			t.Error("something is offered although nothing was replaced")
		}
	}
	first := idOf("deployment")[0]
	log := start("pk_deployment-2")
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), "purser keys revoke "+first) || strings.Contains(string(text), "pk_deployment") {
		t.Errorf("%v, %s", err, text)
	}
	if text := told(t, socket, "status"); !strings.Contains(text, "purser keys revoke "+first) || strings.Contains(text, "pk_") {
		t.Errorf("%s", text)
	}
	if got := decode[cli.Overview](t, told(t, socket, "status", "--json")).Replaced; len(got) != 1 || got[0].ID != first || got[0].Command != "purser keys revoke "+first {
		t.Errorf("%+v", got)
	}
	mustCall(t, 200, "GET", s.url()+"/wallets/me", "pk_deployment-1", "") // not revoked by itself
	// Back again: now the second one is the earlier one.
	start("pk_deployment-1")
	if got := decode[cli.Overview](t, told(t, socket, "status", "--json")).Replaced; len(got) != 1 || got[0].ID == first {
		t.Errorf("%+v", got)
	}
	start("pk_deployment-2")
	told(t, socket, "keys", "revoke", first, "--yes")
	if text := told(t, socket, "status"); strings.Contains(text, "revoke") {
		t.Errorf("%s", text)
	}
	if offered(start("pk_deployment-2")) {
		t.Error("a revoked key is offered")
	}
	mustCall(t, 401, "GET", s.url()+"/wallets/me", "pk_deployment-1", "")

	// With a revoked one purser starts, says so, and serves all other keys.
	log = start("pk_deployment-1")
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "is a key that was revoked") || strings.Contains(string(text), "pk_deployment") {
		t.Errorf("%v, %s", err, text)
	}
	mustCall(t, 401, "GET", s.url()+"/wallets/me", "pk_deployment-1", "")
	mustCall(t, 200, "GET", s.url()+"/wallets/me", "pk_deployment-2", "")

	// The audit has what a start makes, too.
	list := decode[adminapi.Audit](t, told(t, socket, "audit", "--key", first, "--json")).Audit
	if len(list) != 4 || list[0].Action != pay.ActionKeyRevoke || list[1].Action != pay.ActionDeployment || list[2].Action != pay.ActionWalletCreate ||
		list[3].Action != pay.ActionKeyCreate || list[3].Kind != pay.ActorConfiguration {
		t.Errorf("%+v", list)
	}
}

// The sidecar's clients have no key: what it does not pay for passes, with the reason.
func TestSidecarWithStoppedKey(t *testing.T) {
	v := newVendor(t)
	side := shippedSidecar(t)
	socket := filepath.Join(t.TempDir(), "admin.sock")
	t.Setenv("PURSER_ADMIN", "unix/"+socket+"|0600")
	t.Setenv("PURSER_UPSTREAM", v.URL)
	t.Setenv("PURSER_KEY", "pk_deployment")
	mustLoad(t, shipped(t))
	ask := func(path string) (int, string) {
		t.Helper()
		resp, _ := do(t, newRequest(t, "GET", side+path, nil))
		return resp.StatusCode, resp.Header.Get(proxy.HeaderDeclined)
	}
	if code, declined := ask("/1"); code != 200 {
		t.Fatalf("%d %s", code, declined)
	}
	id := decode[adminapi.Keys](t, told(t, socket, "keys", "--json")).Keys[0].ID
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"keys", "pause", id}, "402 paused"},
		{[]string{"keys", "resume", id}, "200 "},
		{[]string{"pause", "--reason", "x"}, "402 paused"},
		{[]string{"resume"}, "200 "},
		{[]string{"keys", "revoke", id, "--yes"}, "402 key-revoked"},
	} {
		told(t, socket, c.args...)
		code, declined := ask("/" + url.PathEscape(fmt.Sprint(c.args)))
		if got := fmt.Sprint(code, " ", declined); got != c.want {
			t.Errorf("after %v: %s, want %s", c.args, got, c.want)
		}
		if v := gauge(t, "purser_paused"); (v == 1) != (c.args[0] == "pause") {
			t.Errorf("after %v: purser_paused is %v", c.args, v)
		}
	}
}

// A sidecar pays with its secret, and not beyond it: an overlap lets it go on until its end.
func TestSidecarWithReissuedKey(t *testing.T) {
	v := newVendor(t)
	side := shippedSidecar(t)
	socket := filepath.Join(t.TempDir(), "admin.sock")
	t.Setenv("PURSER_ADMIN", "unix/"+socket+"|0600")
	t.Setenv("PURSER_UPSTREAM", v.URL)
	t.Setenv("PURSER_KEY", "pk_deployment")
	mustLoad(t, shipped(t))
	ask := func(path, want string) {
		t.Helper()
		resp, _ := do(t, newRequest(t, "GET", side+path, nil))
		if got := fmt.Sprint(resp.StatusCode, " ", resp.Header.Get(proxy.HeaderDeclined)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	ask("/1", "200 ")
	id := decode[adminapi.Keys](t, told(t, socket, "keys", "--json")).Keys[0].ID
	if text := told(t, socket, "keys", "reissue", id, "--yes", "--overlap", "24h"); !strings.Contains(text, "PURSER_KEY") || !strings.Contains(text, "after that") {
		t.Errorf("%s", text)
	}
	ask("/2", "200 ")
	mustLoad(t, shipped(t)) // with the earlier secret
	ask("/3", "200 ")
	told(t, socket, "keys", "end-overlap", id)
	ask("/4", "402 key-revoked")
	mustLoad(t, shipped(t))
	ask("/5", "402 key-revoked")
}
