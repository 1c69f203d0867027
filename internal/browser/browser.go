// Package browser tells what a program asks for from what a web page in the user's browser
// does: a browser on the same machine reaches every loopback listener, too (DESIGN §5, §6).
//
// It judges requests and answers none; what is refused, and how, is the listener's affair.
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

// Unregistrable reports whether a Host header is an address, or a name that nobody can
// register on the Internet: of one label, or below a domain that is reserved for use inside
// (RFC 6761, RFC 6762, RFC 8375, .internal). A page cannot make such a one lead here.
func Unregistrable(host string) bool {
	name := strings.TrimSuffix(strings.ToLower((&url.URL{Host: host}).Hostname()), ".")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name != "" && !strings.Contains(name, ".") || slices.ContainsFunc(inside, func(domain string) bool {
		return strings.HasSuffix(name, domain)
	})
}

var inside = []string{".internal", ".local", ".localhost", ".home.arpa", ".test"}

// Foreign reports whether a page of another site made a request, whatever its method: a GET
// can cost money as well. host is the request's Host; header gives its headers, empty where
// it has none.
//
// Browsers say in Sec-Fetch-Site who asks, except over plain http for more than loopback.
// Then it is a page of the same host only if Origin or Referer says so: a page can keep the
// latter back, but not what its browser calls itself.
func (g *Guard) Foreign(host string, header func(name string) string) bool {
	origin := strings.ToLower(header("Origin"))
	if g.trusts(origin) {
		return false
	}
	switch header("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "": // see above, or not a browser
		page := cmp.Or(origin, header("Referer"))
		if page == "" {
			return callsItselfBrowser(header("User-Agent"))
		}
		u, err := url.Parse(strings.ToLower(page))
		return err != nil || u.Host == "" || !strings.EqualFold(u.Host, host) && !g.trusts(u.Scheme+"://"+u.Host)
	}
	return true
}

// trusts reports whether pages of an origin, in lower case, may use the listener.
func (g *Guard) trusts(origin string) bool {
	return origin != "" && (g.Allows(origin) || origin == g.public)
}

// callsItselfBrowser recognizes the User-Agent of a browser. Programs that are compatible
// with one say so.
func callsItselfBrowser(agent string) bool {
	return strings.HasPrefix(agent, "Mozilla/") && !strings.Contains(agent, "(compatible;")
}
