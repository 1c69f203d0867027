package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Two pursers on one port would share its connections, each with books of its own. Caddy starts the sites before purser, or
// after it.
func TestPortOfAnotherProgram(t *testing.T) {
	s := newSite(t)
	other := &workplace{dir: t.TempDir()}
	other.write(t, "Caddyfile", fmt.Sprintf("{\n\tadmin off\n\tpersist_config off\n}\nhttp://:%d {\n\tbind 127.0.0.1\n\trespond other\n}\n", s.port))
	c := other.caddy(t, nil, "run")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	eventually(t, "the other program listens", func() bool {
		resp, err := http.Get(s.url()) //nolint:noctx // of this test
		return err == nil && resp.Body.Close() == nil
	})
	for range 8 { // apps are started in any order
		err := load(t, s.caddyfile())
		if err == nil || !strings.Contains(err.Error(), "another program listens on 127.0.0.1:") || !strings.Contains(err.Error(), "PURSER_PORT") {
			t.Fatalf("started: %v", err)
		}
	}
	if err := validate(s.caddyfile()); err != nil {
		t.Errorf("not valid beside another: %v", err)
	}
	// Prometheus would read the figures of either.
	taken := s.port
	s.port = freePort(t)
	for site, starts := range map[string]bool{"metrics /metrics": false, "respond plain": true} {
		err := load(t, s.caddyfile()+fmt.Sprintf("http://:%d {\n\tbind 127.0.0.1\n\troute {\n\t\t%s\n\t}\n}\n", taken, site))
		if starts != (err == nil) || err != nil && !strings.Contains(err.Error(), "PURSER_METRICS_PORT") {
			t.Errorf("beside a site with %s: %v", site, err)
		}
	}
}

// Reloads share listeners with what they replace, on other addresses too, and with other sites of the same Caddy.
func TestPortOfTheSameCaddy(t *testing.T) {
	s := newSite(t)
	mustLoad(t, fmt.Sprintf("{\n\tadmin off\n\tpersist_config off\n\tstorage file_system %s\n}\nhttp://:%d {\n\tbind 127.0.0.1\n\trespond plain\n}\n", s.storage, s.port))
	if status, _, text := get(t, http.DefaultClient, s.url()); status != http.StatusOK || text != "plain" {
		t.Errorf("%d %s", status, text)
	}
	s.bind, s.app = "0.0.0.0", "daily_budget 7"
	if err := load(t, s.caddyfile()); err != nil {
		t.Fatal(err)
	}
	newKey(t, s.url())
	s.bind, s.app = "127.0.0.1", ""
	if err := load(t, s.caddyfile()); err != nil {
		t.Fatal(err)
	}
	mustCall(t, http.StatusOK, "GET", s.url()+"/health", "", "")
	s.app = "daily_budget 7"
	if err := load(t, s.caddyfile()); err != nil {
		t.Fatal(err)
	}
}
