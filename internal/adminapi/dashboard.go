package adminapi

import (
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// DashboardLinks makes links that sign in to the dashboard as the operator, once each.
type DashboardLinks interface {
	// Make returns a link for the operator of this name, as a path below the dashboard's URL.
	Make(by string) (path string, until time.Time)
	Clear()
}

// DashboardLink answers POST /purser/dashboard. Its URL signs in as the operator, once.
type DashboardLink struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires_at"`
}

// linkDashboard makes a link.
func (p *Purser) linkDashboard(r *http.Request) (any, error) {
	base := p.DashboardURL()
	if base == "" {
		return nil, Errorf(http.StatusConflict,
			"no site of this purser has its dashboard at a TCP address: the configuration needs a site with purser_dashboard")
	}
	by := operatorOf(r)
	path, until := p.DashboardLinks.Make(by.ID)
	p.Log.Info("link to the dashboard made", "by", by.String())
	return DashboardLink{URL: base + path, Expires: until.UTC()}, nil
}

// DashboardSignOut answers DELETE /purser/dashboard.
type DashboardSignOut struct {
	SignedOut bool `json:"signed_out"`
}

// signOutDashboard ends all links and sessions of operators.
func (p *Purser) signOutDashboard(r *http.Request) (any, error) {
	p.DashboardLinks.Clear()
	err := p.Books.EndOperatorSessions(r.Context())
	return DashboardSignOut{err == nil}, err
}

// LocalURL returns a URL for programs on this machine, on loopback if one of the addresses is. The lowest of several
// counts: Caddy lists its sites in another order each time. It is empty if there is none. Over TLS, loopback is named
// localhost: certificates have names.
func LocalURL(listeners []netip.AddrPort, tls bool) string {
	var found netip.AddrPort
	for _, l := range listeners {
		switch {
		case l.Addr() == netip.IPv6Unspecified():
			l = netip.AddrPortFrom(netip.IPv6Loopback(), l.Port())
		case l.Addr().IsUnspecified():
			l = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), l.Port())
		}
		better := l.Compare(found) < 0
		if l.Addr().IsLoopback() != found.Addr().IsLoopback() {
			better = l.Addr().IsLoopback()
		}
		if !found.IsValid() || better {
			found = l
		}
	}
	if !found.IsValid() {
		return ""
	}
	switch {
	case tls && found.Addr().IsLoopback():
		return "https://localhost:" + strconv.Itoa(int(found.Port()))
	case tls:
		return "https://" + found.String()
	}
	return "http://" + found.String()
}
