package payapi

import (
	"net/http"
	"strings"

	"github.com/purserpay/purser/internal/browser"
	"github.com/purserpay/purser/internal/failpoint"
)

// browsers keeps away pages of other sites. A browser on an agent's machine reaches a loopback
// listener too.
type browsers struct {
	*browser.Guard
	// checkHost is set when the listener is loopback only.
	checkHost bool
}

func newBrowsers(publicURL string, allowed []string, loopbackOnly bool) (browsers, error) {
	g, err := browser.New(publicURL, allowed)
	return browsers{Guard: g, checkHost: loopbackOnly}, err
}

// check refuses requests by pages of other sites. On a loopback listener it compares the host name.
// For requests that change something it compares the origin.
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

// originForm reports whether the request was sent to a server, not to a proxy. Browsers use the
// proxy's form only with a configured proxy.
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
		h.Set("Access-Control-Allow-Headers", "X-Api-Key, Content-Type, Purser-Max-Amount")
		h.Set("Access-Control-Max-Age", "600")
	}
}

// preflight reports whether this is a browser's CORS preflight for a page of an allowed origin.
func (b *browsers) preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" &&
		b.Allows(r.Header.Get("Origin"))
}
