package payapi

import (
	"net/http"
	"strings"

	"github.com/purserpay/purser/internal/browser"
	"github.com/purserpay/purser/internal/failpoint"
)

// browsers keeps pages of other sites away: a browser on the machine of an agent reaches
// a loopback listener, too (DESIGN §5).
type browsers struct {
	*browser.Guard
	// checkHost: the listener is loopback only.
	checkHost bool
}

func newBrowsers(publicURL string, allowed []string, loopbackOnly bool) (browsers, error) {
	g, err := browser.New(publicURL, allowed)
	return browsers{Guard: g, checkHost: loopbackOnly}, err
}

// check refuses requests that a page of another site made, by their host name when the
// listener is loopback only, and by their origin when they change something.
func (b *browsers) check(r *http.Request) error {
	if failpoint.Off(failpoint.Browsers) {
		return nil
	}
	if b.checkHost && originForm(r) && !b.Serves(r.Host) {
		return errMisdirect
	}
	if b.CheckChange(r) != nil {
		return errCrossSite
	}
	return nil
}

// originForm reports whether the request was made to us as a server, not as a proxy.
// Browsers make the other form only to a proxy that they were configured with.
func originForm(r *http.Request) bool {
	return !strings.HasPrefix(r.RequestURI, "http://") && !strings.HasPrefix(r.RequestURI, "https://")
}

// share lets pages of allowed origins read the answer.
func (b *browsers) share(h http.Header, r *http.Request) {
	if !b.Origins() {
		return
	}
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !b.Allows(origin) {
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
		b.Allows(r.Header.Get("Origin"))
}
