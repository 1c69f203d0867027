// Package browser tells what a program asks for from what a web page in the user's browser
// does: a browser on the same machine reaches every loopback listener, too (DESIGN §5, §6).
//
// It judges requests and answers none; what is refused, and how, is the listener's affair.
package browser

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Guard knows whose pages may use a listener, and by which names it is reached.
type Guard struct {
	origins   []string // of the allowed pages; lower case
	public    string   // origin of the public URL; lower case, may be empty
	hosts     []string // host names beside loopback; lower case
	crossSite *http.CrossOriginProtection
}

// New makes a Guard. publicURL, which may be empty, is the address that the outside knows
// the listener by; allowed are the origins of pages that may use it. Errors name the
// variable at fault.
func New(publicURL string, allowed []string) (*Guard, error) {
	g := &Guard{crossSite: http.NewCrossOriginProtection()}
	for _, origin := range allowed {
		origin = strings.ToLower(origin)
		u, err := url.Parse(origin)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
			return nil, fmt.Errorf("PURSER_ALLOWED_ORIGINS: %q is not an origin such as https://app.example.com", origin)
		}
		if err := g.crossSite.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("PURSER_ALLOWED_ORIGINS: %w", err)
		}
		g.origins = append(g.origins, origin)
		g.hosts = append(g.hosts, u.Hostname())
	}
	if publicURL == "" {
		return g, nil
	}
	u, err := url.Parse(strings.ToLower(publicURL))
	if err != nil {
		return nil, fmt.Errorf("PURSER_PUBLIC_URL: %w", err)
	}
	g.public = u.Scheme + "://" + u.Host
	if err := g.crossSite.AddTrustedOrigin(g.public); err != nil {
		return nil, fmt.Errorf("PURSER_PUBLIC_URL: %w", err)
	}
	g.hosts = append(g.hosts, u.Hostname())
	return g, nil
}

// Origins reports whether there are any allowed origins.
func (g *Guard) Origins() bool { return len(g.origins) > 0 }

// Allows reports whether pages of an origin, as in the header of that name, may use the
// listener.
func (g *Guard) Allows(origin string) bool { return slices.Contains(g.origins, origin) }

// Serves reports whether a Host header names a listener that is bound to loopback: by
// loopback itself, or as the configuration does. Any other name was made to lead here
// (DNS rebinding).
func (g *Guard) Serves(host string) bool {
	name := strings.ToLower((&url.URL{Host: host}).Hostname())
	if name == "localhost" || slices.Contains(g.hosts, name) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}

// CheckChange refuses a request that changes something and was made by a page of another
// site. Requests with safe methods pass.
func (g *Guard) CheckChange(r *http.Request) error { return g.crossSite.Check(r) }

// Foreign reports whether a page of another site made a request, whatever its method: a GET
// can cost money as well. host is the request's Host; site and origin are its headers
// Sec-Fetch-Site and Origin, empty where it has none.
func (g *Guard) Foreign(host, site, origin string) bool {
	if origin = strings.ToLower(origin); origin != "" && (g.Allows(origin) || origin == g.public) {
		return false
	}
	switch site {
	case "same-origin", "none":
		return false
	case "": // not a browser, or one that asks over plain http for more than loopback
		if origin == "" {
			return false
		}
		u, err := url.Parse(origin)
		return err != nil || u.Host == "" || !strings.EqualFold(u.Host, host)
	}
	return true
}
