package caddymodule

import (
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// The first caller opens the database: a request may, before the app has started. From then on, the operator's calls are
// served, too.
func TestRequestBeforeStart(t *testing.T) {
	a := provisioned(t, newSite(t))
	if len(a.doors) != 1 || a.doors[0].listen() == nil {
		t.Fatalf("doors %+v", a.doors)
	}
	tenant, err := a.enter()
	if err != nil {
		t.Fatal(err)
	}
	tenant.leave()
	if serving() != tenant {
		t.Error("operators are not served before the start")
	}
	if err := a.Start(); err != nil {
		t.Error(err)
	}
	if err := a.Stop(); err != nil {
		t.Error(err)
	}
	if serving() != nil {
		t.Error("operators are served after the end")
	}
	if err := a.Cleanup(); err != nil {
		t.Error(err)
	}
	if _, err := a.enter(); err == nil {
		t.Error("a request was let in after the store was closed")
	}
}

// A request may come to a configuration that names another database before its start has been refused. It opens nothing.
func TestRequestBeforeStartOnAnotherStore(t *testing.T) {
	mustLoad(t, newSite(t).caddyfile())
	running := serving()
	a := provisioned(t, newSite(t))
	if _, err := a.enter(); err == nil || serving() != running || len(open()) != 1 {
		t.Errorf("%v, %v", err, open())
	}
	if err := a.Cleanup(); err != nil {
		t.Error(err)
	}
}

// provisioned returns the app of a configuration that is not started.
func provisioned(t *testing.T, s *site) *App {
	t.Helper()
	config, err := adapt(s.caddyfile())
	if err != nil {
		t.Fatal(err)
	}
	var c caddy.Config
	if err := caddy.StrictUnmarshalJSON(config, &c); err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(&c)
	if err != nil {
		t.Fatal(err)
	}
	app, err := ctx.AppIfConfigured("purser")
	if err != nil {
		t.Fatal(err)
	}
	return app.(*App)
}
