package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/x402"
)

// block matches the configuration of a page.
var block = regexp.MustCompile("(?s)```caddyfile\n(.*?)```")

// page returns the configuration of docs/caddy.md, at this server's folder and ports. Nothing else of it is changed.
func (s *server) page(t *testing.T, tls *process.Certificates, doors, https, http int, api string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(process.Root(), "docs", "caddy.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := block.FindAllStringSubmatch(string(text), -1)
	if len(found) != 1 {
		t.Fatalf("%d configurations", len(found))
	}
	return process.Replaced(t, found[0][1],
		"/run/caddy/admin.sock", s.dir+"/admin.sock", "/var/log/caddy/", s.dir+"/logs/", "/srv/shop", s.dir+"/shop", "/etc/caddy/shop.pem", tls.File, "/etc/caddy/shop.key", tls.KeyFile,
		"127.0.0.1:9000", api, "8402", fmt.Sprint(doors), "shop.example.com {", fmt.Sprintf("shop.example.com:%d {\n\tbind 127.0.0.1", https),
		"\tpurser {\n\t\tdaily", fmt.Sprintf("\thttp_port %d\n\tpurser {\n\t\tdaily", http),
	)
}

// The page's configuration works as it is written, beside a shop with files, an API, a certificate, an admin endpoint and
// logs of its own: an agent is paid for. Each protection that is left out is named.
func TestPage(t *testing.T) {
	t.Parallel()
	_, program := both(t)
	s := newServer(t, program)
	ports := process.Ports(t, 2)
	doors, https := ports[0], ports[1]
	redirects := s.site
	s.site = doors
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "the API has %s", r.URL.Path) }))
	t.Cleanup(api.Close)
	for _, folder := range []string{"shop", "logs"} {
		if err := os.Mkdir(filepath.Join(s.dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.write(t, "shop/index.html", "the shop")
	certificates, err := process.NewCertificates(t.TempDir(), "shop.example.com")
	if err != nil {
		t.Fatal(err)
	}
	chain, err := sandbox.Start(t.Context(), sandbox.Options{})
	process.CloseAtEnd(t, chain, err)
	environ := []string{"PURSER_RPC_URL=" + chain.RPCURL()}
	whole := s.page(t, certificates, doors, https, redirects, strings.TrimPrefix(api.URL, "http://"))
	s.write(t, "Caddyfile", whole)
	for _, c := range []string{"validate", "fmt --diff"} {
		if said := s.do(t, environ, strings.Fields(c)...); !strings.HasPrefix(said, "status 0\n") {
			t.Errorf("%s: %s", c, said)
		}
	}

	at := &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", doors)}
	s.run(t, environ)
	shop := process.Client(nil, certificates.Pool)
	shop.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", https))
	}
	for path, want := range map[string]string{"/": "the shop", "/api/x?token=of-a-customer": "the API has /api/x"} {
		if a, err := process.Ask(t.Context(), shop, http.MethodGet, fmt.Sprintf("https://shop.example.com:%d%s", https, path), ""); err != nil || a.Body != want {
			t.Errorf("%s: %v, %+v", path, err, a)
		}
	}
	var made adminapi.CreatedKey
	if _, said, why := s.verbatim(t, "", environ, "purser", "keys", "create", "--label", "agent", "--json"); json.Unmarshal([]byte(said), &made) != nil || made.Address == nil {
		t.Fatalf("%s%s", said, why)
	}
	wallet, err := x402.ParseAddress(*made.Address)
	if err != nil {
		t.Fatal(err)
	}
	const funds, price = 1_000_000, 10_000
	if err := chain.Fund(t.Context(), wallet, money.New(funds)); err != nil {
		t.Fatal(err)
	}
	at.User = url.User(made.Key)
	a, err := process.Ask(t.Context(), process.Client(at, nil), http.MethodGet, chain.SellerDirectURL()+"/weather?secret=of-an-agent", "")
	if err != nil || a.Status != http.StatusOK || a.Header.Get("Purser-Payment") == "" {
		t.Fatalf("%v, %+v\n%s", err, a, s.log.End())
	}
	if left, err := chain.Balance(t.Context(), wallet); err != nil || left != money.New(funds-price) {
		t.Errorf("%s are left, %v", left, err)
	}
	if said := s.do(t, environ, "purser", "doctor"); !strings.Contains(said, "ok    exposure") {
		t.Error(said)
	}
	if said := s.do(t, environ, "stop", "--config", "Caddyfile"); !strings.HasPrefix(said, "status 0\n") {
		t.Error(said)
	}
	<-s.running.Done
	logs, err := filepath.Glob(filepath.Join(s.dir, "logs", "*"))
	if err != nil || len(logs) != 3 {
		t.Errorf("logs: %v, %v", logs, err)
	}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), made.Key) || strings.Contains(string(text), "of-an-agent") {
			t.Errorf("%s: %s", path, text)
		}
		if name := filepath.Base(path); (name == "shop.log") != strings.Contains(string(text), "of-a-customer") || name == "agents.log" && !strings.Contains(string(text), "/weather") {
			t.Errorf("%s: %s", path, text)
		}
	}

	for what, c := range map[string]struct {
		with, without string
		start, doctor string // what start, and doctor say
	}{
		"admin":   {fmt.Sprintf("\tadmin unix/%s/admin.sock|0600\n", s.dir), "", "Caddy's admin endpoint is at localhost:", "FAIL  exposure     Caddy's admin endpoint"},
		"bind":    {fmt.Sprintf("http://:%d {\n\tbind 127.0.0.1\n", doors), fmt.Sprintf("http://:%d {\n", doors), "or bind the proxy's site to loopback", "FAIL  exposure     POST /api-keys"},
		"name":    {fmt.Sprintf("http://:%d {\n", doors), fmt.Sprintf("http://purser.example.com:%d {\n", doors), "write the site's address without a host name", "FAIL  exposure     the purser_proxy"},
		"wrapper": {"\t\tlistener_wrappers {\n\t\t\tpurser\n\t\t}\n", "", "write `listener_wrappers { purser }` into the global option `servers 127.0.0.1:", "warn  exposure     the connections to"},
		"filter":  {"agents.log\n\t\timport redacted\n", "agents.log\n", "", "warn  exposure     the log log"},
	} {
		s.write(t, "Caddyfile", process.Replaced(t, whole, c.with, c.without))
		ctx, cancel := context.WithTimeout(t.Context(), runTime)
		starting := s.prepare(ctx, environ, "run")
		log := new(process.Log)
		if s.running, err = process.Run(starting, log, nil); err != nil {
			t.Fatal(err)
		}
		s.running.Cleanup(t)
		err := s.running.Await(s.url())
		said := s.do(t, environ, "purser", "doctor")
		s.do(t, environ, "stop", "--config", "Caddyfile")
		cancel()
		<-s.running.Done
		told, readErr := os.ReadFile(filepath.Join(s.dir, "logs", "caddy.log"))
		if all := log.String() + string(told); readErr != nil || !strings.Contains(all, c.start) {
			t.Errorf("%s: the start (%v) says %s", what, err, all)
		}
		if !strings.Contains(said, c.doctor) {
			t.Errorf("%s: %s", what, said)
		}
		if err := os.Remove(filepath.Join(s.dir, "logs", "caddy.log")); err != nil {
			t.Fatal(err)
		}
	}
}
