package session

import (
	"net/http"
	"net/url"
	"strings"
)

// harden sets the security headers of every answer. Pages have no inline script or style.
func (g *Gate) harden(h http.Header, asset bool) {
	// Browsers apply form-action to a form's redirects too, and signing in by POST ends at the
	// provider.
	forms := append([]string{"'self'"}, g.provider.origins()...)
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
		"font-src 'self'; connect-src 'self'; form-action "+strings.Join(forms, " ")+"; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Frame-Options", "DENY") // for browsers without frame-ancestors
	h.Set("X-Content-Type-Options", "nosniff")
	// Not no-referrer: with that, browsers send "Origin: null" with a POST.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	if !asset {
		h.Set("Cache-Control", "no-store")
		h.Add("Vary", "Cookie")
	}
}

// originOf returns a URL's origin, or "" when it has none that fits into a policy.
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || strings.ContainsAny(u.Host, " ;,'\"*") {
		return ""
	}
	return u.Scheme + "://" + strings.ToLower(u.Host)
}
