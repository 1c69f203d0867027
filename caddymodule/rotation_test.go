package caddymodule

import (
	"bytes"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/internal/adminapi"
)

// signedBy reports which of the roots in a bundle the authority signs under.
func signedBy(t *testing.T, bundle []byte) (signs []bool) {
	t.Helper()
	chain, _, err := pooledAt(t).newestTenant().authority.issuer()
	if err != nil {
		t.Fatal(err)
	}
	for part := range bytes.SplitAfterSeq(bundle, []byte("-----END CERTIFICATE-----\n")) {
		if len(part) == 0 {
			continue
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(part) {
			t.Fatalf("no certificate: %s", part)
		}
		_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		signs = append(signs, err == nil)
	}
	return signs
}

// roots reads the bundle in the data directory, and demands that purser serves the same.
func (s *site) roots(t *testing.T) []byte {
	t.Helper()
	kept, err := os.ReadFile(filepath.Join(s.dir, rootFile))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(s.url() + rootPath) //nolint:noctx // the test ends it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	served, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(served, kept) {
		t.Errorf("the served roots differ from the kept ones: %v", err)
	}
	return kept
}

func TestAuthorityIsRotated(t *testing.T) {
	s := newSite(t)
	s.route = "purser_proxy {\n\t\t\tintercept *\n\t\t}\n\t\tpurser_api"
	socket, _ := adminSite(t, s)
	rotate := func(body string, want int) {
		t.Helper()
		if code, text := adminSend(t, socket, "POST", "/purser/rotation/authority", "application/json", body); code != want {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
	former := s.roots(t)
	rotate(`{"finish":true}`, 409)
	rotate(`{}`, 200)
	rotate(`{}`, 200) // changes nothing
	both := s.roots(t)
	if signs := signedBy(t, both); len(signs) != 2 || !signs[0] || signs[1] || !bytes.HasPrefix(both, former) {
		t.Fatalf("signing roots: %v", signs)
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	socket, _ = adminSite(t, s)
	if again := s.roots(t); !bytes.Equal(again, both) {
		t.Error("a start has other roots")
	}
	rotate(`{"finish":true}`, 200)
	next := s.roots(t)
	if signs := signedBy(t, next); len(signs) != 1 || !signs[0] || !bytes.HasSuffix(both, next) {
		t.Errorf("signing roots: %v", signs)
	}
	if _, err := os.Stat(filepath.Join(s.storage, "pki", "authorities", authorityID)); !os.IsNotExist(err) {
		t.Errorf("the former authority is still there: %v", err)
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	socket, _ = adminSite(t, s)
	if again := s.roots(t); !bytes.Equal(again, next) || !signedBy(t, again)[0] {
		t.Error("a start has another root")
	}
	rotate(`{}`, 200)
	_, text := adminCall(t, socket, "GET", "/purser/rotation")
	if a := decode[adminapi.Rotation](t, text).Authority; a == nil || !strings.HasPrefix(a.Signing, "purser-2 ") || !strings.HasPrefix(a.Next, "purser-3 ") {
		t.Errorf("rotation: %s", text)
	}
}

func TestKeysAreRotated(t *testing.T) {
	t.Setenv("PURSER_INTERCEPT", "off")
	s := newSite(t)
	s.route = "purser_proxy\n\t\tpurser_api"
	socket, _ := adminSite(t, s)
	file := filepath.Join(s.dir, masterKeyName)
	former, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	secret, key := makeKey(t, s)
	rotate := func(what, body string, want int) (r adminapi.Rotation) {
		t.Helper()
		code, text := adminSend(t, socket, "POST", "/purser/rotation/"+what, "application/json", body)
		if code != want {
			t.Fatalf("%s %s: %d %s", what, body, code, text)
		}
		if code == 200 {
			r = decode[adminapi.Rotation](t, text)
		}
		return r
	}
	rotate("master-key", `{"new_key":"`+strings.Repeat("ab", 32)+`"}`, 400) // purser makes it itself
	if r := rotate("master-key", `{}`, 200); r.MasterKeyFollows || r.MasterKey != file {
		t.Errorf("%+v", r)
	}
	if now, err := os.ReadFile(file); err != nil || bytes.Equal(now, former) {
		t.Errorf("the file has the former key, %v", err)
	}
	rotate("data-key", `{}`, 200)
	rotate("authority", `{}`, 409) // nothing is intercepted
	eventually(t, "everything is sealed again", func() bool {
		_, text := adminCall(t, socket, "GET", "/purser/rotation")
		r := decode[adminapi.Rotation](t, text)
		return r.DataKey == 2 && r.OlderDataKeys == 0
	})
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	// From now on the master key is configured, so that only its owner can replace it.
	own, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PURSER_MASTER_KEY", strings.TrimSpace(string(own)))
	socket, _ = adminSite(t, s)
	rotate("master-key", `{}`, 400)
	rotate("master-key", `{"new_key":"short"}`, 400)
	rotate("master-key", `{"new_key":"`+strings.TrimSpace(string(own))+`"}`, 409)
	next := strings.Repeat("cd", 32)
	if r := rotate("master-key", `{"new_key":"`+next+`"}`, 200); !r.MasterKeyFollows || r.MasterKey != "PURSER_MASTER_KEY" {
		t.Errorf("%+v", r)
	}
	rotate("data-key", `{}`, 409)
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PURSER_MASTER_KEY", next)
	socket, _ = adminSite(t, s)
	_, text := adminCall(t, socket, "GET", "/purser/rotation")
	if r := decode[adminapi.Rotation](t, text); r.MasterKeyFollows || r.DataKey != 2 {
		t.Errorf("%s", text)
	}
	k, err := pooledAt(t).store.KeyBySecret(t.Context(), secret)
	if err != nil || k.ID != key {
		t.Errorf("key %s: %v", k.ID, err)
	}
	wallets, err := pooledAt(t).store.Wallets(t.Context(), key)
	if err != nil || len(wallets) != 1 {
		t.Fatalf("%d wallets, %v", len(wallets), err)
	}
	if secret, err := pooledAt(t).store.WalletSecret(t.Context(), wallets[0].ID); err != nil || len(secret) != 32 {
		t.Errorf("wallet: %v", err)
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PURSER_MASTER_KEY", strings.TrimSpace(string(own)))
	if err := load(t, s.caddyfile()); err == nil || !strings.Contains(err.Error(), "master key") {
		t.Errorf("a start with the former key: %v", err)
	}
}

// makeKey makes a key with a wallet, as an operator does.
func makeKey(t *testing.T, s *site) (secret, id string) {
	t.Helper()
	made := mustCall(t, 201, "POST", s.url()+"/api-keys", "", `{"label":"rotated"}`)
	secret, _ = made["key"].(string)
	mustCall(t, 201, "POST", s.url()+"/wallets", secret, `{"network":"base"}`)
	k, err := pooledAt(t).store.KeyBySecret(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	return secret, k.ID
}
