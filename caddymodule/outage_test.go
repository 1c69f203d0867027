package caddymodule

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// A start goes on without its store if it is told to. Doors say so, each in its own form and without a path, and other
// handlers of the site answer. Once the store opens, all is as after any start.
func TestServesOnceTheStoreOpens(t *testing.T) {
	s := newSite(t)
	s.app, s.route = "on_failure degrade", "respond /site plain\n\t\tmetrics /metrics\n\t\tpurser_proxy\n\t\tpurser_dashboard\n\t\tpurser_api"
	if err := os.Mkdir(s.dir, dataDirMode); err != nil {
		t.Fatal(err)
	}
	lock, err := bbolt.Open(filepath.Join(s.dir, databaseName), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	failing := *s
	failing.app = ""
	if err := load(t, failing.caddyfile()); err == nil || !strings.Contains(err.Error(), "the file is locked") {
		t.Errorf("the program purser: %v", err)
	}
	mustLoad(t, s.caddyfile())
	mute := &http.Client{Transport: persistent{http.DefaultTransport}}
	if status, _, text := get(t, mute, s.url()+"/site"); status != http.StatusOK || text != "plain" {
		t.Errorf("another handler: %d %s", status, text)
	}
	through := s.through(t, url.User("pk_x"))
	for _, c := range []struct {
		client    *http.Client
		url, want string
	}{
		{mute, s.url() + "/health", `{"ok":false,"service":"purser","version":"` + Version() + `","database":{"configured":true,"ok":false,"kind":""},"error":"Service unavailable","detail":"purser cannot open its database, `},
		{mute, s.url() + "/wallets/me", `{"error":"Service unavailable","detail":"purser cannot open its database, `},
		{mute, s.url() + "/dashboard/", "<p>purser cannot open its database, "},
		{through, "http://api.example.com/", `"reason":"store-unavailable"`},
	} {
		status, header, text := get(t, c.client, c.url)
		if status != http.StatusServiceUnavailable || header.Get("Retry-After") != "5" || !strings.Contains(text, c.want) || strings.Contains(text, s.dir) {
			t.Errorf("%s: %d %v %s", c.url, status, header, text)
		}
	}
	if _, err := through.Get("https://api.example.com/"); err == nil || !strings.Contains(err.Error(), "Service Unavailable") {
		t.Errorf("CONNECT: %v", err)
	}
	if o := adminOutage(); adminServes() != nil || o == nil || !strings.Contains(o.Error, filepath.Join(s.dir, databaseName)) {
		t.Errorf("the operator is told %v", o)
	}
	if up, known := scrape(t, s.url()+"/metrics", "purser_store_up"); !known || up != 0 {
		t.Errorf("purser_store_up is %v, %t", up, known)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the store is open", func() bool { return adminOutage() == nil })
	newKey(t, s.url())
	if home := pooledAt(t); len(home.active) != 1 || home.recovery == nil {
		t.Error("recovery has not begun")
	}
}

// A reload repairs a purser without a store. It cannot leave the store of one that has one.
func TestReloadEndsAnOutage(t *testing.T) {
	s := newSite(t)
	s.app = "on_failure degrade"
	bad := *s
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bad.dir = filepath.Join(file, "data")
	mustLoad(t, bad.caddyfile())
	mustCall(t, http.StatusServiceUnavailable, "GET", s.url()+"/health", "", "")
	bad.app += "\n\t\tstandin loopback"
	if err := load(t, bad.caddyfile()); err == nil {
		t.Error("a configuration with a fault was loaded")
	}
	if adminOutage() == nil {
		t.Error("the operator is told of no outage after a reload that failed")
	}
	mustCall(t, http.StatusServiceUnavailable, "GET", s.url()+"/health", "", "")
	mustLoad(t, s.caddyfile())
	newKey(t, s.url())
	if adminOutage() != nil {
		t.Error("the outage has not ended")
	}
	bad.app = s.app
	if err := load(t, bad.caddyfile()); err == nil || !strings.Contains(err.Error(), "with a restart only") {
		t.Errorf("the running purser was left: %v", err)
	}
}
