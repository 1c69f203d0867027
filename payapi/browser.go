package payapi

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// browsers keeps pages of other sites away: a browser on the machine of an agent reaches
// a loopback listener, too (DESIGN §5).
type browsers struct {
	origins []string // whose pages may call the API
	hosts   []string // host names the API answers to beside loopback; lower case
	// checkHost: the listener is loopback only.
	checkHost bool
	crossSite *http.CrossOriginProtection
}

func newBrowsers(publicURL string, allowed []string, loopbackOnly bool) (browsers, error) {
	b := browsers{checkHost: loopbackOnly, crossSite: http.NewCrossOriginProtection()}
	for _, origin := range allowed {
		origin = strings.ToLower(origin)
		if !absoluteURL(origin) {
			return b, fmt.Errorf("PURSER_ALLOWED_ORIGINS: %q is not an origin such as https://app.example.com", origin)
		}
		if err := b.crossSite.AddTrustedOrigin(origin); err != nil {
			return b, fmt.Errorf("PURSER_ALLOWED_ORIGINS: %w", err)
		}
		b.origins = append(b.origins, origin)
		b.hosts = append(b.hosts, hostname(origin))
	}
	if publicURL != "" {
		b.hosts = append(b.hosts, hostname(publicURL))
		u, _ := url.Parse(publicURL) // checked before
		if err := b.crossSite.AddTrustedOrigin(u.Scheme + "://" + strings.ToLower(u.Host)); err != nil {
			return b, fmt.Errorf("PURSER_PUBLIC_URL: %w", err)
		}
	}
	return b, nil
}

// check refuses requests that a page of another site made, by their host name when the
// listener is loopback only, and by their origin when they change something.
func (b *browsers) check(r *http.Request) error {
	if b.checkHost && originForm(r) && !b.serves(r.Host) {
		return errMisdirect
	}
	if b.crossSite.Check(r) != nil {
		return errCrossSite
	}
	return nil
}

// originForm reports whether the request was made to us as a server, not as a proxy.
// Browsers make the other form only to a proxy that they were configured with.
func originForm(r *http.Request) bool {
	return !strings.HasPrefix(r.RequestURI, "http://") && !strings.HasPrefix(r.RequestURI, "https://")
}

func (b *browsers) serves(host string) bool {
	name := strings.ToLower((&url.URL{Host: host}).Hostname())
	if name == "localhost" || slices.Contains(b.hosts, name) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}

// share lets pages of allowed origins read the answer.
func (b *browsers) share(h http.Header, r *http.Request) {
	if len(b.origins) == 0 {
		return
	}
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !slices.Contains(b.origins, origin) {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Retry-After")
	if b.preflight(r) {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE")
		h.Set("Access-Control-Allow-Headers", "X-Api-Key, Content-Type")
		h.Set("Access-Control-Max-Age", "600")
	}
}

// preflight reports whether a browser asks in advance for a page of an allowed origin.
func (b *browsers) preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" &&
		slices.Contains(b.origins, r.Header.Get("Origin"))
}

// hostname is the host of a URL that was checked before, in lower case, without port.
func hostname(raw string) string {
	u, _ := url.Parse(raw)
	return strings.ToLower(u.Hostname())
}
