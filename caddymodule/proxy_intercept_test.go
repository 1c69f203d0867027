package caddymodule

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tlsSeller is a seller over TLS for the name example.com, with the PEM file of the root
// to trust it.
func tlsSeller(t *testing.T) (s *httptest.Server, rootFile string) {
	t.Helper()
	s = httptest.NewUnstartedServer(newSeller(t).Config.Handler)
	s.StartTLS()
	t.Cleanup(s.Close)
	rootFile = filepath.Join(t.TempDir(), "seller.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(rootFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return s, rootFile
}

// httpsURL is a TLS seller by its name.
func httpsURL(s *httptest.Server) string {
	return strings.Replace(s.URL, "127.0.0.1", "example.com", 1) + "/x"
}

// trusting makes a client of the proxy trust nothing but some roots.
func trusting(t *testing.T, c *http.Client, roots ...[]byte) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	for _, r := range roots {
		if !pool.AppendCertsFromPEM(r) {
			t.Fatalf("no certificate: %s", r)
		}
	}
	transport := c.Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	transport.ForceAttemptHTTP2 = true
	return c
}

// intercepting is a site that knows a TLS seller.
func intercepting(t *testing.T, trust, more string) *site {
	t.Helper()
	f := newStandIn(t)
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	s := newSite(t)
	s.route = "purser_proxy {\n\t\t\tresolve example.com 127.0.0.1\n\t\t\ttrust " + trust + "\n\t\t\t" + more + "\n\t\t}\n\t\tpurser_api"
	return s
}

func TestInterception(t *testing.T) {
	seller, trust := tlsSeller(t)
	s := intercepting(t, trust, "")
	mustLoad(t, s.caddyfile())
	status, header, root := get(t, http.DefaultClient, s.url()+rootPath)
	if status != 200 || header.Get("Content-Type") != "application/x-pem-file" || !strings.HasPrefix(root, "-----BEGIN CERTIFICATE-----") {
		t.Fatalf("root: %d, %v, %s", status, header, root)
	}
	block, _ := pem.Decode([]byte(root))
	if c, err := x509.ParseCertificate(block.Bytes); err != nil || !c.IsCA || !strings.Contains(c.Subject.CommonName, "purser") {
		t.Errorf("root %v, %v", c.Subject, err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, s.url()+rootPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultClient.Do(r); err != nil || resp.Body.Close() != nil || resp.StatusCode != 200 {
		t.Errorf("HEAD: %v, %v", resp, err)
	}
	mustCall(t, 404, "POST", s.url()+rootPath, "", "")

	for path, mode := range map[string]os.FileMode{
		filepath.Join(s.dir, rootFile): 0o644, filepath.Join(s.storage, "pki", "authorities", "purser", "root.key"): 0o600,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if file, err := os.ReadFile(filepath.Join(s.dir, rootFile)); err != nil || string(file) != root {
		t.Errorf("%v: %s", err, file)
	}
	if _, err := os.Stat(filepath.Join(s.storage, "pki", "authorities", "local")); err == nil {
		t.Error("Caddy's local authority was made as well")
	}

	key := newKey(t, s.url())
	buy := func() {
		t.Helper()
		client := trusting(t, s.through(t, url.UserPassword(key, "t")), []byte(root))
		status, header, text := get(t, client, httpsURL(seller))
		if status != 200 || header.Get("Purser-Payment") == "" || !strings.HasPrefix(text, "paid, Host example.com") {
			t.Errorf("%d %v %s", status, header, text)
		}
	}
	buy()
	// The root outlives a reload.
	mustLoad(t, s.caddyfile())
	if _, _, again := get(t, http.DefaultClient, s.url()+rootPath); again != root {
		t.Errorf("another root after a reload: %s", again)
	}
	buy()

	// A program that has the proxy in its environment asks for the root through it.
	if status, _, text := get(t, s.through(t, url.UserPassword(key, "t")), s.url()+rootPath); status != 200 || text != root {
		t.Errorf("through the proxy: %d %s", status, text)
	}
	// The same path of another host belongs to that host.
	plain := newSeller(t)
	if _, _, text := get(t, s.through(t, url.UserPassword(key, "t")), plain.URL+rootPath); text == root {
		t.Error("another host's path was answered")
	}
}

// A connection that a client keeps open does not keep the configuration that it was opened
// under: a limit that a reload brings holds for its next request.
func TestReloadReachesKeptConnections(t *testing.T) {
	seller, trust := tlsSeller(t)
	s := intercepting(t, trust, "")
	mustLoad(t, s.caddyfile())
	_, _, root := get(t, http.DefaultClient, s.url()+rootPath)
	client := trusting(t, s.through(t, url.UserPassword(newKey(t, s.url()), "t")), []byte(root))
	client.Transport.(*http.Transport).DisableKeepAlives = false
	if status, header, text := get(t, client, httpsURL(seller)); status != 200 || header.Get("Purser-Payment") == "" {
		t.Fatalf("%d %v %s", status, header, text)
	}
	t.Setenv("PURSER_MAX_PAYMENT", "0.000001")
	mustLoad(t, s.caddyfile())
	if status, header, text := get(t, client, httpsURL(seller)); status != 402 || header.Get("Purser-Declined") != "per-payment" {
		t.Errorf("after the reload: %d %v %s", status, header, text)
	}
}

// Where nothing is intercepted, bytes pass as they are: the client sees the seller's own
// certificate and its 402.
func TestBlindTunnels(t *testing.T) {
	for _, c := range []struct {
		name, env, options string
		off                bool
	}{
		{name: "off", options: "intercept off", off: true},
		{name: "off by the environment", env: "off", off: true},
		{name: "another host", env: "a.example,*.example.com"},
		{name: "excepted", options: "intercept *\n\t\t\ttunnel example.com"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.env != "" {
				t.Setenv("PURSER_INTERCEPT", c.env)
			}
			seller, trust := tlsSeller(t)
			s := intercepting(t, trust, c.options)
			mustLoad(t, s.caddyfile())
			theirs, err := os.ReadFile(trust)
			if err != nil {
				t.Fatal(err)
			}
			client := trusting(t, s.through(t, url.UserPassword(newKey(t, s.url()), "t")), theirs)
			if status, header, text := get(t, client, httpsURL(seller)); status != 402 || header.Get("Purser-Payment") != "" {
				t.Errorf("%d %v %s", status, header, text)
			}
			status, _, text := get(t, http.DefaultClient, s.url()+rootPath)
			if status != 200 != c.off {
				t.Errorf("root: %d %s", status, text)
			}
			_, err = os.Stat(filepath.Join(s.storage, "pki"))
			if os.IsNotExist(err) != c.off {
				t.Errorf("authority in the storage: %v", err)
			}
		})
	}
}

// Without the seller's root, nothing is sent to it.
func TestInterceptionVerifiesUpstreams(t *testing.T) {
	seller, _ := tlsSeller(t)
	_, other := tlsSeller(t)
	otherRoot, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(otherRoot, seller.Certificate().Raw) {
		t.Fatal("both sellers have one certificate")
	}
	s := newSite(t)
	s.route = "purser_proxy {\n\t\t\tresolve example.com 127.0.0.1\n\t\t}\n\t\tpurser_api"
	mustLoad(t, s.caddyfile())
	_, _, root := get(t, http.DefaultClient, s.url()+rootPath)
	client := trusting(t, s.through(t, url.UserPassword(newKey(t, s.url()), "t")), []byte(root))
	if status, header, text := get(t, client, httpsURL(seller)); status < 500 || header.Get("Purser-Error") == "" {
		t.Errorf("%d %v %s", status, header, text)
	}
}

func TestValidateMakesNoAuthority(t *testing.T) {
	s := newSite(t)
	s.route = "purser_proxy\n\t\tpurser_api"
	if err := validate(s.caddyfile()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.storage, "pki")); !os.IsNotExist(err) {
		t.Errorf("an authority was made: %v", err)
	}
}

// A configured authority signs.
func TestConfiguredAuthority(t *testing.T) {
	s := newSite(t)
	s.route = "purser_proxy\n\t\tpurser_api"
	s.global = "skip_install_trust\n\tpki {\n\t\tca purser {\n\t\t\tname \"Ours\"\n\t\t}\n\t}"
	mustLoad(t, s.caddyfile())
	_, _, root := get(t, http.DefaultClient, s.url()+rootPath)
	block, _ := pem.Decode([]byte(root))
	if block == nil {
		t.Fatalf("%s", root)
	}
	if c, err := x509.ParseCertificate(block.Bytes); err != nil || !strings.HasPrefix(c.Subject.CommonName, "Ours - ") {
		t.Errorf("%v, %v", c.Subject, err)
	}
}
