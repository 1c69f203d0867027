package caddymodule

import (
	"bytes"
	"crypto"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// A purser that ended while it was making its authority's certificates starts again, with the root that programs trust already.
func TestAuthorityThatWasCutShort(t *testing.T) {
	for name, c := range map[string]struct {
		harm  func(t *testing.T, folder string)
		root  bool // is kept
		error string
	}{
		"no intermediate key": {harm: remove("intermediate.key"), root: true},
		"no intermediate":     {harm: remove("intermediate.key", "intermediate.crt"), root: true},
		"the key before": {root: true, harm: func(t *testing.T, folder string) {
			t.Helper()
			text, err := os.ReadFile(filepath.Join(folder, "root.key"))
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, "intermediate.key"), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
		"no root key yet":         {harm: remove("root.key", "intermediate.crt", "intermediate.key")},
		"nothing":                 {harm: remove("root.crt", "root.key", "intermediate.crt", "intermediate.key")},
		"the root's key is taken": {harm: remove("root.key"), root: true, error: "root key"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.route = "purser_proxy {\n\t\t\tintercept *\n\t\t}\n\t\tpurser_api"
			mustLoad(t, s.caddyfile())
			if err := caddy.Stop(); err != nil {
				t.Fatal(err)
			}
			folder := filepath.Join(s.storage, "pki", "authorities", authorityID)
			before, err := os.ReadFile(filepath.Join(folder, "root.crt"))
			if err != nil {
				t.Fatal(err)
			}
			c.harm(t, folder)
			err = load(t, s.caddyfile())
			if c.error != "" {
				if err == nil || !strings.Contains(err.Error(), c.error) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(filepath.Join(folder, "root.crt"))
			if err != nil || bytes.Equal(before, after) != c.root {
				t.Errorf("the root is the same: %t, %v", bytes.Equal(before, after), err)
			}
			h := pooledAt(t).newestTenant().authority
			chain, key, err := h.issuer()
			if err != nil || len(chain) == 0 || !samePublicKey(chain[0].PublicKey, key.Public()) {
				t.Errorf("no pair to sign with: %v", err)
			}
		})
	}
}

func samePublicKey(a, b any) bool {
	k, ok := a.(interface{ Equal(x crypto.PublicKey) bool })
	return ok && k.Equal(b)
}

func remove(names ...string) func(*testing.T, string) {
	return func(t *testing.T, folder string) {
		t.Helper()
		for _, name := range names {
			if err := os.Remove(filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
