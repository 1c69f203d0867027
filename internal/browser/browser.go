// Package browser tells requests of programs from requests of web pages. A browser on the same
// machine reaches every loopback listener too, so any web page could spend money there
// (docs/security.md).
//
// It judges requests and answers none. The listener decides what to refuse, and how.
package browser

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Guard knows the pages that may use a listener, and the names of that listener.
type Guard struct {
	origins   []string // of the allowed pages, in lower case
	public    string   // origin of the public URL in lower case, or empty
	hosts     []string // host names beside loopback, in lower case
	crossSite *http.CrossOriginProtection
}

// New returns a Guard. publicURL is the listener's public address, or empty. allowed lists the
// origins of pages that may use the listener. Errors name the variable at fault.
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

// Origins reports whether any origins are allowed.
func (g *Guard) Origins() bool { return len(g.origins) > 0 }

// Allows reports whether the pages of an origin may use the listener. origin has the form of the
// Origin header.
func (g *Guard) Allows(origin string) bool { return slices.Contains(g.origins, origin) }

// Serves reports whether a Host header is a name of this loopback listener: loopback itself, or a
// configured host. Any other name was pointed here by an attacker's DNS (DNS rebinding).
func (g *Guard) Serves(host string) bool {
	name := strings.ToLower((&url.URL{Host: host}).Hostname())
	if name == "localhost" || slices.Contains(g.hosts, name) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}

// CheckChange refuses a request that changes something and came from a page of another site.
// Requests with safe methods pass.
func (g *Guard) CheckChange(r *http.Request) error { return g.crossSite.Check(r) }

// Unregistrable reports whether a Host header is an address, or a name that cannot be registered on
// the Internet. These names have one label, or end in a domain reserved for internal use (RFC 6761,
// RFC 6762, RFC 8375, .internal). An attacker cannot point such a name here.
func Unregistrable(host string) bool {
	name := strings.TrimSuffix(strings.ToLower((&url.URL{Host: host}).Hostname()), ".")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name != "" && !strings.Contains(name, ".") || slices.ContainsFunc(internalDomains, func(domain string) bool {
		return strings.HasSuffix(name, domain)
	})
}

var internalDomains = []string{".internal", ".local", ".localhost", ".home.arpa", ".test"}

// Foreign reports whether a page of another site made a request. It judges all methods, because a
// GET can cost money too. host is the request's Host. header returns a header's value, or "".
//
// Browsers name the asking site in Sec-Fetch-Site, except over plain http to a host other than
// loopback. In that case only Origin or Referer can show that the page is of the same host. A page
// can suppress its Referer, but not its browser's User-Agent.
func (g *Guard) Foreign(host string, header func(name string) string) bool {
	origin := strings.ToLower(header("Origin"))
	if g.trusts(origin) {
		return false
	}
	switch header("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "": // plain http, or not a browser
		page := cmp.Or(origin, header("Referer"))
		if page == "" {
			return callsItselfBrowser(header("User-Agent"))
		}
		u, err := url.Parse(strings.ToLower(page))
		return err != nil || u.Host == "" || !strings.EqualFold(u.Host, host) && !g.trusts(u.Scheme+"://"+u.Host)
	}
	return true
}

// trusts reports whether the pages of an origin, in lower case, may use the listener.
func (g *Guard) trusts(origin string) bool {
	return origin != "" && (g.Allows(origin) || origin == g.public)
}

// callsItselfBrowser recognizes the User-Agent of a browser. Programs that merely imitate one say
// "compatible".
func callsItselfBrowser(agent string) bool {
	return strings.HasPrefix(agent, "Mozilla/") && !strings.Contains(agent, "(compatible;")
}
