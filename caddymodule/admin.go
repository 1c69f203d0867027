package caddymodule

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/internal/metrics"
)

// adminAPI registers purser's part of Caddy's admin endpoint.
type adminAPI struct{}

// CaddyModule returns the Caddy module information.
func (*adminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.purser", New: func() caddy.Module { return new(adminAPI) }}
}

// Routes returns the paths that the admin endpoint serves. Caddy logs and answers errors.
func (*adminAPI) Routes() []caddy.AdminRoute {
	var routes []caddy.AdminRoute
	handler := adminHandler()
	for _, route := range handler.Routes() {
		routes = append(routes, caddy.AdminRoute{Pattern: route.Pattern, Handler: caddy.AdminHandlerFunc(
			func(w http.ResponseWriter, r *http.Request) error {
				err := handler.Admit(r)
				if err == nil {
					err = route.Serve(w, r)
				}
				if e, known := errors.AsType[*adminapi.Error](err); known {
					return caddy.APIError{HTTPStatus: e.Status, Err: e.Err}
				}
				return err
			},
		)})
	}
	return routes
}

func adminHandler() *adminapi.Handler {
	h := &adminapi.Handler{Version: Version(), Serving: adminServes, Outage: adminOutage, Host: adminHost, Reload: line.Reload}
	if guest != nil {
		h.Reload = nil // `caddy reload` reads the files again
	}
	return h
}

// adminHost returns the name that the operator has given the admin endpoint.
func adminHost() string {
	own, err := caddy.ParseNetworkAddress(os.Getenv(adminapi.AddressVariable))
	if err != nil {
		return ""
	}
	return own.Host
}

// adminServes returns the purser that serves now, nil before the start.
func adminServes() *adminapi.Purser {
	if adminOutage() != nil { // the pool may wait for the store
		return nil
	}
	t := serving()
	if t == nil {
		return nil
	}
	return t.admin()
}

// serving returns the tenant that serves now, nil before the start. It asks the open stores and
// not the configuration: Caddy does not guard its table of apps, which it may be changing at this
// moment.
func serving() (t *tenant) {
	stores.Range(func(_, v any) bool {
		t = cmp.Or(v.(*pooled).newestTenant(), t) // nil: the store is only draining
		return t == nil || !t.home.started.Load() // one that has started counts more
	})
	return t
}

// admin is the tenant as the operator's API sees it.
func (t *tenant) admin() *adminapi.Purser {
	return &adminapi.Purser{
		Payer: t.payer, Books: t.books, Store: t.home.store, Place: t.home.place, Since: t.home.since, Declined: metrics.Process.Recent.Counts, Chain: t.chain, Networks: t.app.settings.networks,
		Keys: t.app.keys(t.books), Log: t.log, MasterKeyPlace: t.app.settings.masterKeyPlace,
		ProxyURL: func() string { return urlOf[*Proxy](t.app) }, DashboardURL: t.app.dashboardURL, DashboardLinks: t.home.links, Root: t.root, Registration: t.app.registrationStatus, Quotas: t.quotaStatus,
		Notices: t.notices, Troubles: t.troubles, Outbox: t.home.store, Feed: t.home.feed, ConfiguredKeys: t.app.configuredKeys, Rotator: rotator{t}, Copy: t.copyStore, BackupTaken: metrics.BackupTaken, Enter: t.enter, Leave: t.leave, Variables: line.Variables, OverTCP: t.app.settings.adminOverTCP,
	}
}

// configuredKeys returns the secrets of keys that the configuration names.
func (a *App) configuredKeys() (list []adminapi.ConfiguredKey) {
	if a.settings.key != "" {
		list = append(list, adminapi.ConfiguredKey{Setting: keyOption.String(), Secret: a.settings.key})
	}
	for _, d := range a.doors {
		if s, own := d.(interface{ ownSecret() string }); own && s.ownSecret() != "" {
			list = append(list, adminapi.ConfiguredKey{Setting: "a sidecar's " + doorKeyOption.String(), Secret: s.ownSecret()})
		}
	}
	return list
}

// root returns the interception root in PEM, nil when nothing is intercepted.
func (t *tenant) root() []byte {
	if t.authority == nil {
		return nil
	}
	return t.authority.root()
}

// quotaStatus reads the quotas of organizations and keys; nil if there are none.
func (t *tenant) quotaStatus(ctx context.Context) (*adminapi.QuotaStatus, error) {
	q, err := t.readings.ReadQuota(ctx, time.Now())
	if err != nil || q.Counted == 0 {
		return nil, err
	}
	return &adminapi.QuotaStatus{
		Counted: q.Counted, Near: q.Near, Exhausted: q.Exhausted, Fullest: q.Fullest, Used: q.FullestUsed, Most: q.FullestMost,
	}, nil
}

// copyStore copies the database while it is in use.
func (t *tenant) copyStore(ctx context.Context, mark *adminapi.Mark) (adminapi.Copy, error) {
	store, ok := t.home.store.(interface {
		Copy(ctx context.Context, mark *boltstore.Mark) (*boltstore.Copy, error)
	})
	if !ok {
		return nil, adminapi.Errorf(http.StatusNotImplemented,
			"a %s store is not a file of purser's: use the tools of the database itself", t.home.store.Kind())
	}
	var m *boltstore.Mark
	if mark != nil {
		m = &boltstore.Mark{At: mark.At, Block: mark.Block}
	}
	c, err := store.Copy(ctx, m)
	switch {
	case errors.Is(err, boltstore.ErrCopying):
		return nil, adminapi.Errorf(http.StatusConflict, "%w", err)
	case errors.Is(err, boltstore.ErrNoRoom):
		return nil, adminapi.Errorf(http.StatusInsufficientStorage, "%w", err)
	case err != nil:
		return nil, err
	}
	return storeCopy{c, t.home.place}, nil
}

// storeCopy is a copy of the database at a place.
type storeCopy struct {
	*boltstore.Copy
	place string
}

func (c storeCopy) Check(ctx context.Context) (any, error) {
	r, err := c.Copy.Check(ctx)
	return cli.CheckAnswer{Path: c.place, Report: r}, err
}

var (
	_ caddy.AdminRouter = (*adminAPI)(nil)
	_ adminapi.Copy     = storeCopy{}
)

// dashboardURL returns the dashboard's URL for people, "" if no site has one.
func (a *App) dashboardURL() string {
	local := urlOf[*Dashboard](a)
	if local == "" {
		return ""
	}
	return strings.TrimSuffix(cmp.Or(a.settings.publicURL, local), "/") + "/dashboard"
}

// urlOf returns the URL of a kind of door for programs on this machine: see adminapi.LocalURL. A door at the named site
// comes before all others.
func urlOf[D door](a *App) string {
	return cmp.Or(urlAt[D](a, a.settings.site), urlAt[D](a, ""))
}

func urlAt[D door](a *App, site string) string {
	listeners := map[bool][]netip.AddrPort{}
	for _, d := range a.doors {
		if _, is := d.(D); is && d.isAt(site) {
			of, _ := addrPorts(d.listen()) // Caddy has read them before
			listeners[d.secure()] = append(listeners[d.secure()], of...)
		}
	}
	return cmp.Or(adminapi.LocalURL(listeners[false], false), adminapi.LocalURL(listeners[true], true))
}
