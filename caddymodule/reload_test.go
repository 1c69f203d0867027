package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

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

// A request in flight ends well when its configuration is replaced, also by one with
// another database, and nothing stays open behind it.
func TestReloadWithRequestInFlight(t *testing.T) {
	for _, sameStore := range []bool{true, false} {
		t.Run(fmt.Sprintf("same store %t", sameStore), func(t *testing.T) {
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
			next := *s
			if !sameStore {
				next.dir = t.TempDir() + "/other"
			}
			reloaded := make(chan error, 1)
			go func() { reloaded <- load(t, next.caddyfile()) }()
			if sameStore {
				if err := <-reloaded; err != nil {
					t.Fatal(err)
				}
				if refs, _ := stores.References(first.place); pooledAt(t) != first || refs != 1 || first.recovering() != first.newestTenant() {
					t.Errorf("%d references, or opened again, or not the newest configuration recovers", refs)
				}
			} else {
				eventually(t, "both stores are open", func() bool {
					return len(open()) == 2 || len(open()) == 1 && strings.HasSuffix(open()[0], "other/purser.db")
				})
			}
			close(f.hold)
			if got := <-answered; got != "200 true <nil>" {
				t.Errorf("the request in flight: %s", got)
			}
			if !sameStore {
				if err := <-reloaded; err != nil {
					t.Fatal(err)
				}
				eventually(t, "the key is not known in the other store", func() bool {
					status, _, _ := call(t.Context(), "GET", s.url()+"/wallets/me", key, "")
					return status == http.StatusUnauthorized
				})
			}
			if places := open(); len(places) != 1 {
				t.Errorf("open: %v", places)
			}
			if err := caddy.Stop(); err != nil {
				t.Fatal(err)
			}
			if places := open(); len(places) != 0 {
				t.Errorf("open after the end: %v", places)
			}
		})
	}
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

func TestTenantIsForgottenOnceIdle(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		name string
		t    *tenant
		want bool
	}{
		{"serving", &tenant{}, false},
		{"just replaced", &tenant{left: now}, false},
		{"with a request", &tenant{left: now.Add(-time.Hour), requests: 1}, false},
		{"idle", &tenant{left: now.Add(-tenantKept)}, true},
	} {
		if got := c.t.forgettable(now); got != c.want || c.t.closed != c.want {
			t.Errorf("%s: %t, closed %t", c.name, got, c.t.closed)
		}
	}
}
