package guest

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/sandbox/hostile"
)

const key = "pk_guestguestguestguestguest"

// A purser without its store takes no other site along. It serves and pays nothing until the store opens, and then pays,
// without a restart. A reload repairs it as well.
func TestOtherSitesAreServedWithoutAStore(t *testing.T) {
	t.Parallel()
	_, program := both(t)
	w, err := sandbox.Start(t.Context(), sandbox.Options{})
	process.CloseAtEnd(t, w, err)
	s := newServer(t, program)
	ports := process.Ports(t, 2)
	doors, sidecar := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	file := func(store string) {
		s.write(t, "Caddyfile", fmt.Sprintf(`{
	admin unix/%s/admin.sock
	purser {
		registration off
		%s
	}
}
http://127.0.0.1:%d {
	respond plain
}
http://:%d {
	bind 127.0.0.1
	route {
		purser_proxy
		purser_dashboard
		purser_api
	}
}
http://:%d {
	bind 127.0.0.1
	purser_upstream
}
`, s.dir, store, s.site, ports[0], ports[1]))
	}
	file("")
	data := filepath.Join(s.dir, ".local/share/caddy/purser")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := bbolt.Open(filepath.Join(data, "purser.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	environ := []string{
		"PURSER_KEY=" + key, "PURSER_UPSTREAM=" + w.SellerDirectURL(), "PURSER_FACILITATOR_URL=" + w.FacilitatorURL(), "PURSER_RPC_URL=" + w.RPCURL(),
	}
	s.run(t, environ)
	at, err := url.Parse(doors)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.User(key)
	degraded := func() {
		t.Helper()
		if said := s.says(t); said != "200 plain" {
			t.Errorf("the other site: %s", said)
		}
		for _, c := range []struct {
			client   *http.Client
			url, has string
		}{
			{http.DefaultClient, doors + "/health", `{"ok":false,"service":"purser",`},
			{http.DefaultClient, doors + "/wallets/me", `"detail":"purser cannot open its database`},
			{http.DefaultClient, doors + "/dashboard/", "<p>purser cannot open its database"},
			{http.DefaultClient, sidecar + "/weather", `"reason":"store-unavailable"`},
			{process.Client(at, nil), "http://seller.example.com/", `"reason":"store-unavailable"`},
		} {
			a, err := process.Ask(t.Context(), c.client, http.MethodGet, c.url, "", "X-Api-Key", key)
			if err != nil || a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || !strings.Contains(a.Body, c.has) || strings.Contains(a.Body, s.dir) {
				t.Errorf("%s: %v, %+v", c.url, err, a)
			}
		}
	}
	told := func(status int, parts ...string) {
		t.Helper()
		said := s.do(t, nil, "purser", "status")
		for _, part := range append(parts, fmt.Sprintf("status %d\n", status)) {
			if !strings.Contains(said, part) {
				t.Errorf("%s, want %q", said, part)
			}
		}
	}
	degraded()
	told(1, "purser serves and pays nothing since ", "open store DIR/.local/share/caddy/purser/purser.db: store is in use")

	file("store postgres {\n\t\t\turl {env.NOWHERE}\n\t\t}")
	if said := s.do(t, nil, "reload"); !strings.HasPrefix(said, "status 1\n") {
		t.Errorf("a configuration with a fault: %s", said)
	}
	degraded()
	file("")
	if said := s.do(t, nil, "reload", "--force"); !strings.HasPrefix(said, "status 0\n") {
		t.Error(said)
	}
	degraded()

	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	process.Eventually(t, runTime, func() string {
		if a, err := process.Ask(t.Context(), http.DefaultClient, http.MethodGet, doors+"/health", ""); err != nil || a.Status != http.StatusOK {
			return fmt.Sprintf("%v, %+v", err, a)
		}
		return ""
	})
	told(2, "DIR/.local/share/caddy/purser/purser.db", "A wallet is empty")
	c, err := hostile.Deployment(t.Context(), doors, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Fund(t.Context(), c.Wallet, money.New(1_000_000)); err != nil {
		t.Fatal(err)
	}
	a, err := process.Ask(t.Context(), http.DefaultClient, http.MethodGet, sidecar+"/weather", "")
	if err != nil || a.Status != http.StatusOK || a.Header.Get("Purser-Transaction") == "" {
		t.Errorf("not paid for: %v, %+v", err, a)
	}
	s.do(t, nil, "stop", "--config", "Caddyfile")
	<-s.running.Done
}

// A start does not wait for a PostgreSQL that is down, and a reload to another store ends the outage.
func TestStartsWithoutPostgres(t *testing.T) {
	t.Parallel()
	_, program := both(t)
	s := newServer(t, program)
	file := func(store string) {
		s.write(t, "Caddyfile", fmt.Sprintf("{\n\tadmin unix/%s/admin.sock\n\tpurser {\n\t\tregistration off\n\t\tstore %s\n\t}\n}\n"+
			"http://127.0.0.1:%d {\n\troute {\n\t\trespond / plain\n\t\tpurser_api\n\t}\n}\n", s.dir, store, s.site))
	}
	health := func() int {
		t.Helper()
		a, err := process.Ask(t.Context(), http.DefaultClient, http.MethodGet, s.url()+"health", "")
		if err != nil {
			t.Fatal(err)
		}
		return a.Status
	}
	file("postgres")
	s.run(t, []string{fmt.Sprintf("DATABASE_URL=postgres://purser:secret@127.0.0.1:%s/purser", process.Port(t))})
	if got := health(); got != http.StatusServiceUnavailable {
		t.Errorf("health: %d", got)
	}
	if said := s.do(t, nil, "purser", "status"); !strings.HasPrefix(said, "status 1\n") || !strings.Contains(said, "purser serves and pays nothing since ") || strings.Contains(said+s.log.String(), "secret") {
		t.Error(said)
	}
	file("bolt")
	if said := s.do(t, nil, "reload"); !strings.HasPrefix(said, "status 0\n") {
		t.Error(said)
	}
	if got := health(); got != http.StatusOK {
		t.Errorf("health after the reload: %d", got)
	}
	s.do(t, nil, "stop", "--config", "Caddyfile")
	<-s.running.Done
}
