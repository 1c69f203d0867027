package caddymodule

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// open are the places of the open stores.
func open() (places []string) {
	stores.Range(func(place, _ any) bool {
		places = append(places, place.(string))
		return true
	})
	return places
}

func pooledAt(t *testing.T) *pooled {
	t.Helper()
	var found *pooled
	stores.Range(func(_, v any) bool {
		found = v.(*pooled)
		return false
	})
	if found == nil {
		t.Fatal("no store is open")
	}
	return found
}

func (p *pooled) recovering() *tenant {
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.recovery == nil {
		return nil
	}
	return p.recovery.tenant
}

// A request in flight ends well when its configuration is replaced, also by one without
// purser, and nothing stays open behind it.
func TestReloadWithRequestInFlight(t *testing.T) {
	for _, stays := range []bool{true, false} {
		t.Run(fmt.Sprintf("purser stays %t", stays), func(t *testing.T) {
			f := newStandIn(t)
			f.hold = make(chan struct{})
			t.Setenv("PURSER_FACILITATOR_URL", f.URL)
			s := newSite(t)
			mustLoad(t, s.caddyfile())
			first, key := pooledAt(t), newKey(t, s.url())
			answered := make(chan string, 1)
			go func() {
				status, answer, err := call(t.Context(), "POST", s.url()+"/v1/pay", key, payBody(10_000, "https://api.example.com/v2"))
				answered <- fmt.Sprintf("%d %v %v", status, answer["settled"], err)
			}()
			<-f.asked
			next := s.caddyfile()
			if !stays {
				next = fmt.Sprintf("{\n\tadmin off\n\tpersist_config off\n\tstorage file_system %s\n}\nhttp://127.0.0.1:%d {\n\trespond plain\n}\n", s.storage, freePort(t))
			}
			reloaded := make(chan error, 1)
			go func() { reloaded <- load(t, next) }()
			if stays {
				if err := <-reloaded; err != nil {
					t.Fatal(err)
				}
				if refs, _ := stores.References(first.place); pooledAt(t) != first || refs != 1 || first.recovering() != first.newestTenant() {
					t.Errorf("%d references, or opened again, or not the newest configuration recovers", refs)
				}
			} else {
				eventually(t, "no purser serves", func() bool {
					first.mu.Lock()
					defer first.mu.Unlock()
					return len(first.active) == 0
				})
			}
			close(f.hold)
			if got := <-answered; got != "200 true <nil>" {
				t.Errorf("the request in flight: %s", got)
			}
			if !stays {
				if err := <-reloaded; err != nil {
					t.Fatal(err)
				}
			} else if err := caddy.Stop(); err != nil {
				t.Fatal(err)
			}
			if places := open(); len(places) != 0 {
				t.Errorf("open after the end: %v", places)
			}
		})
	}
}

// A reload that names another data directory would serve an empty purser. It is refused, makes no folder, and the purser
// that runs goes on. A link to the same folder is the same.
func TestReloadKeepsTheDataDirectory(t *testing.T) {
	s := newSite(t)
	mustLoad(t, s.caddyfile())
	home, key := pooledAt(t), newKey(t, s.url())
	other := *s
	other.dir = filepath.Join(t.TempDir(), "other")
	err := load(t, other.caddyfile())
	if err == nil || !strings.Contains(err.Error(), "data_dir (PURSER_DATA_DIR) changes from "+s.dir+" to "+other.dir+" with a restart only") {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(other.dir); err == nil {
		t.Error("the other folder was made")
	}
	elsewhere := *s
	elsewhere.app = "store bolt {\n\t\t\tpath " + filepath.Join(t.TempDir(), "other.db") + "\n\t\t}"
	if err := load(t, elsewhere.caddyfile()); err == nil || !strings.Contains(err.Error(), "the place of the database (data_dir, store) changes from ") {
		t.Errorf("%v", err)
	}
	mustCall(t, http.StatusOK, "GET", s.url()+"/wallets/me", key, "")
	link := *s
	link.dir = filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.dir, link.dir); err != nil {
		t.Fatal(err)
	}
	if err := load(t, link.caddyfile()); err != nil || pooledAt(t) != home {
		t.Errorf("a link to the same folder: %v", err)
	}
	mustCall(t, http.StatusOK, "GET", s.url()+"/wallets/me", key, "")
}

// A configuration that fails to start gives recovery back to the one that runs.
func TestFailedReloadChangesNothing(t *testing.T) {
	s := newSite(t)
	mustLoad(t, s.caddyfile())
	key := newKey(t, s.url())
	home := pooledAt(t)
	before := home.recovering()
	for range 4 { // apps start in random order
		err := load(t, s.caddyfile()+"http://:1 {\n\tbind 192.0.2.1\n\trespond ok\n}\n")
		if err == nil {
			t.Fatal("a configuration started that cannot listen")
		}
		if home.recovering() != before {
			t.Fatal("recovery is not where it was")
		}
	}
	mustCall(t, 200, "GET", s.url()+"/wallets/me", key, "")
	if refs, _ := stores.References(home.place); refs != 1 {
		t.Errorf("%d references", refs)
	}
}

func TestReloadWithOtherSettings(t *testing.T) {
	s := newSite(t)
	mustLoad(t, s.caddyfile())
	s.app = "store bolt {\n\t\t\tmin_free 1MiB\n\t\t}"
	if err := load(t, s.caddyfile()); err == nil || !strings.Contains(err.Error(), "restart") {
		t.Errorf("other options: %v", err)
	}
	s.app = ""
	t.Setenv("PURSER_MASTER_KEY", strings.Repeat("22", 32))
	if err := load(t, s.caddyfile()); err == nil || !strings.Contains(err.Error(), "restart") {
		t.Errorf("another master key: %v", err)
	}
	home := pooledAt(t)
	if refs, _ := stores.References(home.place); refs != 1 {
		t.Errorf("%d references", refs)
	}
}
