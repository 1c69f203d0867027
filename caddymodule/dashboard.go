package caddymodule

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/dashboard"
	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/internal/setting"
)

// SignInOptions say who vouches for people who open the dashboard: any OpenID Connect
// provider. Without an issuer, only the operator signs in, with `purser dashboard`.
type SignInOptions struct {
	// OIDCIssuer is the provider's issuer URL: https, or http on loopback. Default:
	// {env.PURSER_OIDC_ISSUER}.
	OIDCIssuer string `json:"oidc_issuer,omitempty"`
	// OIDCClientID names purser at the provider. Default: {env.PURSER_OIDC_CLIENT_ID}.
	OIDCClientID string `json:"oidc_client_id,omitempty"`
	// OIDCClientSecret is a reference to the secret that goes with it. Default:
	// {env.PURSER_OIDC_CLIENT_SECRET}; public clients have none.
	OIDCClientSecret string `json:"oidc_client_secret,omitempty"`
	// OIDCClientSecretFile is its file. Default: {env.PURSER_OIDC_CLIENT_SECRET_FILE}.
	OIDCClientSecretFile string `json:"oidc_client_secret_file,omitempty"`
	// OIDCAllow are the identities that may sign in, separated by commas: "@example.com" (a
	// domain, without its subdomains), "alice@example.org", "group:payments", or "*" for all.
	// Addresses count where the provider calls them verified. Default: {env.PURSER_OIDC_ALLOW},
	// else the people of the lists below, else all whom the provider signs in.
	OIDCAllow string `json:"oidc_allow,omitempty" form:"list"`
	// OIDCOperators lists people, as OIDCAllow does, who see and change everything. Default:
	// {env.PURSER_OIDC_OPERATORS}, else none.
	OIDCOperators string `json:"oidc_operators,omitempty" form:"list"`
	// OIDCApprovers lists people who see everything and approve payments. Default:
	// {env.PURSER_OIDC_APPROVERS}, else none.
	OIDCApprovers string `json:"oidc_approvers,omitempty" form:"list"`
	// OIDCViewers lists people who see everything. Default: {env.PURSER_OIDC_VIEWERS}, else none.
	OIDCViewers string `json:"oidc_viewers,omitempty" form:"list"`
	// OIDCOrganization says which organization the others have: own, domain (that of their verified
	// address), group, or group:PREFIX. Default: {env.PURSER_OIDC_ORGANIZATION}, else own.
	OIDCOrganization string `json:"oidc_organization,omitempty"`
	// OIDCOwners lists people who own the organization that they share; the others only see it.
	// Default: {env.PURSER_OIDC_OWNERS}, else none.
	OIDCOwners string `json:"oidc_owners,omitempty" form:"list"`
}

var oidcSecretOption = setting.New("oidc_client_secret", "PURSER_OIDC_CLIENT_SECRET", "")

// signIn holds the resolved SignInOptions.
type signIn struct {
	issuer, clientID, clientSecret string
	people                         session.PeopleOptions
}

// resolveSignIn reads them. Options that do not fit together fail the start, also where no site has a
// dashboard: the operator wanted one.
func (a *App) resolveSignIn(s *settings) (err error) {
	if s.signIn.clientSecret, err = oidcSecretOption.Secret(a.OIDCClientSecret, a.OIDCClientSecretFile); err != nil {
		return err
	}
	err = cmp.Or(
		setting.Set(&s.signIn.issuer, setting.New("oidc_issuer", "PURSER_OIDC_ISSUER", "").Value, a.OIDCIssuer),
		setting.Set(&s.signIn.clientID, setting.New("oidc_client_id", "PURSER_OIDC_CLIENT_ID", "").Value, a.OIDCClientID),
	)
	if err != nil {
		return err
	}
	p := &s.signIn.people
	for _, list := range []struct {
		setting.Option
		into  *string
		given string
	}{
		{setting.New("oidc_allow", "PURSER_OIDC_ALLOW", ""), &p.Allow, a.OIDCAllow},
		{setting.New("oidc_operators", "PURSER_OIDC_OPERATORS", ""), &p.Operators, a.OIDCOperators},
		{setting.New("oidc_approvers", "PURSER_OIDC_APPROVERS", ""), &p.Approvers, a.OIDCApprovers},
		{setting.New("oidc_viewers", "PURSER_OIDC_VIEWERS", ""), &p.Viewers, a.OIDCViewers},
		{setting.New("oidc_organization", "PURSER_OIDC_ORGANIZATION", ""), &p.Organization, a.OIDCOrganization},
		{setting.New("oidc_owners", "PURSER_OIDC_OWNERS", ""), &p.Owners, a.OIDCOwners},
	} {
		if err := setting.Set(list.into, list.Value, list.given); err != nil {
			return err
		}
	}
	if err := session.Check(s.sessionOptions()); err != nil {
		return fmt.Errorf("purser: %w", err)
	}
	return nil
}

func (s *settings) sessionOptions() session.Options {
	return session.Options{
		Issuer: s.signIn.issuer, ClientID: s.signIn.clientID, ClientSecret: s.signIn.clientSecret, PublicURL: s.publicURL,
		People: s.signIn.people,
	}
}

// Dashboard is the handler of purser's pages for people: /dashboard and everything below
// it. It leaves other paths to the next handler.
type Dashboard struct {
	doorway
	pages http.Handler
}

// CaddyModule returns the Caddy module information.
func (*Dashboard) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.purser_dashboard", New: func() caddy.Module { return new(Dashboard) }}
}

// Provision attaches the handler to the app.
func (h *Dashboard) Provision(ctx caddy.Context) error { return h.attach(ctx, h) }

func (h *Dashboard) open(t *tenant) error {
	s, log := h.app.settings, h.app.log.With("part", "dashboard")
	o := s.sessionOptions()
	o.Accounts, o.Logger, o.Peer, o.Links = t.books, log, clientOf, t.home.links
	o.LoopbackOnly = h.loopback()
	gate, err := session.New(o)
	if err != nil {
		return err
	}
	t.closeLater(gate)
	if s.signIn.issuer != "" && !s.signIn.people.Bounded() && h.app.World != boltstore.Sandbox {
		log.Warn("no list of people is set, such as PURSER_OIDC_ALLOW: everybody whom the identity provider signs in can use the dashboard and make keys")
	}
	look := dashboard.Options{
		Books: t.books, Payer: t.payer, Troubles: t.troubles.Now, Gate: gate, PublicURL: s.publicURL, UpgradeURL: s.upgradeURL, Version: Version(), Logger: log,
		OperatorKeys: h.app.keys(t.books), Issuer: s.signIn.issuer, LowBalance: s.told.low.Max(), ApprovalLinks: t.approvalLinks(),
	}
	if h.app.World == boltstore.Sandbox {
		look.PlayMoney = true
		look.Explorer = func(string, string) string { return "" } // none shows the sandbox's chain
		look.Example = h.app.Example
	}
	h.pages, err = dashboard.New(look)
	return err
}

// clientOf returns the network that a request came from. Caddy believes forwarding headers only of the
// proxies that its configuration trusts.
func clientOf(r *http.Request) netip.Addr {
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if addr, err := netip.ParseAddr(text); err == nil {
		return perclient.Network(addr)
	}
	return perclient.Peer(r.RemoteAddr)
}

// ServeHTTP answers what is the dashboard's.
func (h *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if path := r.URL.Path; path != "/dashboard" && !strings.HasPrefix(path, session.Home) {
		return next.ServeHTTP(w, r)
	}
	t, err := h.enter()
	if err != nil {
		w.Header().Set("Retry-After", retryAfter)
		dashboard.WriteUnavailable(w, unavailable(err))
		return nil
	}
	defer t.leave()
	h.pages.ServeHTTP(w, r)
	return nil
}

// UnmarshalCaddyfile reads `purser_dashboard`, which has no options.
func (h *Dashboard) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return parseModule(d, h, nil) }

var (
	_ caddy.Provisioner           = (*Dashboard)(nil)
	_ caddyhttp.MiddlewareHandler = (*Dashboard)(nil)
	_ caddyfile.Unmarshaler       = (*Dashboard)(nil)
	_ door                        = (*Dashboard)(nil)
)
