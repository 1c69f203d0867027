package caddymodule

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/purserpay/purser/internal/operatorkeys"
	"github.com/purserpay/purser/pay"
)

func TestExecKey(t *testing.T) {
	s := newSite(t)
	mustLoad(t, s.caddyfile())
	tenant := serving()
	var mu sync.Mutex
	var ids, secrets []string
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			k, secret, err := tenant.app.keys(tenant.books).Exec(t.Context())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids, secrets = append(ids, k.ID), append(secrets, secret)
		})
	}
	calls.Wait()
	if len(slices.Compact(ids)) != 1 || len(slices.Compact(secrets)) != 1 {
		t.Fatalf("several keys: %v", ids)
	}
	keys, err := tenant.books.Keys(t.Context(), "", 10)
	if err != nil || len(keys) != 1 || keys[0].Label != "exec" || !slices.Equal(keys[0].Policy.Doors, []pay.Door{pay.DoorProxy}) {
		t.Errorf("%+v, %v", keys, err)
	}
	path := filepath.Join(s.dir, operatorkeys.ExecFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	me := mustCall(t, 200, "GET", s.url()+"/wallets/me", secrets[0], "")
	if wallets, ok := me["wallets"].([]any); !ok || len(wallets) != 1 {
		t.Errorf("wallets %v", me)
	}
	// It pays at the proxy only.
	answer := mustCall(t, 402, "POST", s.url()+"/v1/pay", secrets[0], payBody(1, "https://api.example.com/"))
	if answer["rule"] != "doors" {
		t.Errorf("%v", answer)
	}

	// Another database with the same file has a key of the same secret.
	next := *s
	next.dir = t.TempDir() + "/next"
	if err := os.Mkdir(next.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(next.dir, operatorkeys.ExecFile), []byte(secrets[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	mustLoad(t, next.caddyfile())
	eventually(t, "the next configuration serves", func() bool {
		tenant = serving()
		return tenant != nil && tenant.app.settings.dataDir == next.dir
	})
	k, secret, err := tenant.app.keys(tenant.books).Exec(t.Context())
	if err != nil || secret != secrets[0] || k.ID == ids[0] || k.Policy == nil {
		t.Errorf("%+v, %v", k, err)
	}

	// What is no key is not replaced: there may be money behind it.
	bad := filepath.Join(next.dir, operatorkeys.ExecFile)
	if err := os.WriteFile(bad, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tenant.app.keys(tenant.books).Exec(t.Context()); err == nil || !strings.Contains(err.Error(), bad) || strings.Contains(err.Error(), "no key") {
		t.Errorf("error %v", err)
	}
	if text, err := os.ReadFile(bad); err != nil || string(text) != "no key" {
		t.Errorf("%s, %v", text, err)
	}
}
