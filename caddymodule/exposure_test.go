package caddymodule

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/cli/clitest"
)

// Over TCP each program of this machine could be the operator: purser takes no order there, and says
// what to write, unless an option allows it.
func TestAdminOverTCP(t *testing.T) {
	s := newSite(t)
	port := freePort(t)
	at := fmt.Sprintf("localhost:%d", port)
	text := replaceOnce(t, s.caddyfile(), "admin off", "admin "+at)
	mustLoad(t, text)
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+at+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(answer)
	}
	const advice = "admin unix//run/purser/admin.sock"
	for path, method := range map[string]string{
		"/purser/exec": "POST", "/purser/status": "GET", "/purser/keys": "GET", "/purser/keys/x/policy": "PATCH", "/purser/reload": "POST",
		"/purser/backup": "POST", "/purser/wallets/x/export": "POST", "/purser/dashboard": "POST", "/purser/pause": "POST",
	} {
		if code, text := ask(method, path, "{}"); code != http.StatusForbidden || !strings.Contains(text, advice) {
			t.Errorf("%s %s: %d %s", method, path, code, text)
		}
	}
	for _, command := range [][]string{{"status"}, {"keys"}, {"limits"}, {"exec", "--", "true"}, {"check"}, {"dashboard"}, {"pause", "--reason", "x"}} {
		o := clitest.Run(t, []string{"PURSER_ADMIN=" + at}, command...)
		if o.Status == 0 || !strings.Contains(o.Stderr, advice) {
			t.Errorf("%v: %d, %s%s", command, o.Status, o.Stdout, o.Stderr)
		}
	}
	mustLoad(t, replaceOnce(t, text, "data_dir", "admin_over_tcp on\n\t\tdata_dir"))
	if code, text := ask("GET", "/purser/keys", ""); code != http.StatusOK {
		t.Errorf("allowed: %d %s", code, text)
	}
	t.Setenv("PURSER_ADMIN_OVER_TCP", "perhaps")
	if err := validate(text); err == nil || !strings.Contains(err.Error(), "admin_over_tcp (PURSER_ADMIN_OVER_TCP)") {
		t.Errorf("another word: %v", err)
	}
}

// A proxy that Caddy gives requests for some hosts only does not start: any other CONNECT would be
// answered with an empty 200.
func TestProxyForSomeHostsOnly(t *testing.T) {
	s := newSite(t)
	s.route = "purser_proxy\n\t\tpurser_api"
	site := fmt.Sprintf("http://:%d {", s.port)
	named := fmt.Sprintf("http://purser.example:%d {", s.port)
	for what, text := range map[string]string{
		"a name":    replaceOnce(t, s.caddyfile(), site, named),
		"a matcher": replaceOnce(t, s.caddyfile(), "\t\tpurser_proxy\n", "\t\t@own host purser.example\n\t\thandle @own {\n\t\t\tpurser_proxy\n\t\t}\n"),
		"a path":    replaceOnce(t, s.caddyfile(), "\t\tpurser_proxy\n", "\t\tpurser_proxy /proxy/*\n"),
	} {
		if err := load(t, text); err == nil || !strings.Contains(err.Error(), "empty 200") || !strings.Contains(err.Error(), "bind") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, text := range map[string]string{
		"both":                replaceOnce(t, s.caddyfile(), site, named+"\n\tbind 127.0.0.1\n\troute {\n\t\tpurser_proxy\n\t}\n}\n"+site),
		"clients' addresses":  replaceOnce(t, s.caddyfile(), "\t\tpurser_proxy\n", "\t\t@near remote_ip 127.0.0.1\n\t\tpurser_proxy @near\n"),
		"an API under a name": replaceOnce(t, replaceOnce(t, s.caddyfile(), site, named), "purser_proxy\n\t\t", ""),
	} {
		if err := load(t, text); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What `purser run` and `purser reload` would refuse at the start, `purser validate` names.
func TestValidateNamesWhatIsOpen(t *testing.T) {
	s := newSite(t)
	s.route, s.global = "purser_proxy\n\t\tpurser_api", "servers {\n\t\tlistener_wrappers {\n\t\t\tpurser\n\t\t}\n\t}"
	closed := replaceOnce(t, s.caddyfile(), "admin off", "admin unix/"+t.TempDir()+"/admin.sock|0600")
	for _, c := range []struct {
		what, text string
		status     int
		want       string
	}{
		{"closed", closed, 0, ""},
		{"no admin line", replaceOnce(t, s.caddyfile(), "admin off", ""), 1, "localhost:2019"},
		{"an address for the admin endpoint", replaceOnce(t, s.caddyfile(), "admin off", "admin 127.0.0.1:3019"), 1, "admin_over_tcp on"},
		{"allowed", replaceOnce(t, replaceOnce(t, s.caddyfile(), "admin off", "admin 127.0.0.1:3019"), "data_dir", "admin_over_tcp on\n\t\tdata_dir"), 0, "keep agents away"},
		{"a name", replaceOnce(t, closed, "http://:", "http://purser.example:"), 1, "empty 200"},
		{"all addresses", replaceOnce(t, closed, "bind 127.0.0.1", "bind 0.0.0.0"), 1, "PURSER_REGISTRATION=off"},
		{"all addresses, by default", replaceOnce(t, closed, "bind 127.0.0.1", ""), 1, "PURSER_BIND=127.0.0.1"},
		{"all addresses, closed", replaceOnce(t, replaceOnce(t, closed, "bind 127.0.0.1", "bind 0.0.0.0"), "data_dir", "registration off\n\t\tdata_dir"), 0, ""},
		{"connections without a bound", replaceOnce(t, closed, "\t\tlistener_wrappers {\n\t\t\tpurser\n\t\t}\n", ""), 0, "listener_wrappers { purser }"},
		{"a bare log", replaceOnce(t, closed, "\troute {", "\tlog\n\troute {"), 0, "import redacted"},
	} {
		w := newWorkplace(t)
		w.write(t, "Caddyfile", c.text)
		o := w.do(t, "validate")
		if o.Status != c.status || !strings.Contains(o.Stderr, c.want) || c.want == "" && strings.Contains(o.Stderr, "warning") {
			t.Errorf("%s: validate: %d, %s%s", c.what, o.Status, o.Stdout, o.Stderr)
		}
		if c.status == 0 {
			continue
		}
		if o := w.do(t, "run"); o.Status != 1 || !strings.Contains(o.Stderr, c.want) {
			t.Errorf("%s: run: %d, %s%s", c.what, o.Status, o.Stdout, o.Stderr)
		}
		o = w.do(t, "doctor")
		if o.Status != 1 || !strings.Contains(strings.Join(strings.Fields(o.Stdout), " "), c.want) {
			t.Errorf("%s: doctor: %d, %s%s", c.what, o.Status, o.Stdout, o.Stderr)
		}
	}
}

// Strangers who can make keys find no proxy beside: such a configuration does not start. Where the API
// is for this machine only, its keys do not relay at a proxy that others reach.
func TestOpenRegistrationBesideAProxy(t *testing.T) {
	s := newSite(t)
	s.bind, s.route = "0.0.0.0", "purser_proxy {\n\t\t\tallow_addresses 127.0.0.1/32\n\t\t}\n\t\tpurser_api"
	err := load(t, s.caddyfile())
	if err == nil || !strings.Contains(err.Error(), "PURSER_REGISTRATION=off") || !strings.Contains(err.Error(), "PURSER_BIND=127.0.0.1") {
		t.Fatalf("started: %v", err)
	}
	s.app = "registration off"
	mustLoad(t, s.caddyfile())
	s.app = ""
	proxyPort := freePort(t)
	text := replaceOnce(t, s.caddyfile(), "bind 0.0.0.0", "bind 127.0.0.1")
	text = replaceOnce(t, text, s.route, "purser_api")
	mustLoad(t, text+fmt.Sprintf("http://:%d {\n\tbind 0.0.0.0\n\troute {\n\t\tpurser_proxy {\n\t\t\tallow_addresses 127.0.0.1/32\n\t\t}\n\t}\n}\n", proxyPort))
	seller := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = seller.Serve(l) }()
	t.Cleanup(func() { _ = seller.Close() })
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyURL(&url.URL{
		Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", proxyPort), User: url.User(newKey(t, s.url())),
	})}}
	resp, err := client.Get("http://" + l.Addr().String() + "/") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden || resp.Header.Get("Purser-Error") != "relay-not-allowed" {
		t.Errorf("a guest at a proxy that others reach: %d %v", resp.StatusCode, resp.Header)
	}
}
