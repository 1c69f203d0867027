package proxy

import (
	"mime"
	"net/http"
	"slices"
	"strings"
)

// unasked says why a request asks for no content that a program reads, "" if it may. Browsers
// make such requests by themselves, and buying for them spends money on what no program reads.
func unasked(req *http.Request) string {
	h := req.Header
	switch {
	case req.Method == http.MethodHead:
		return "a HEAD brings no content: send GET to buy it"
	case req.Method == http.MethodOptions && h.Get("Origin") != "" && h.Get("Access-Control-Request-Method") != "":
		return "a browser's CORS preflight buys nothing: the seller has to answer it without a payment"
	case ahead(h):
		return "a prefetch, prerender or preview buys nothing: the request that follows it does"
	case iconOf(req):
		return "a browser asked for the icon of a site by itself: send the request without Sec-Fetch-Dest, and with Accept: */*, to buy it"
	case beacon(req):
		return "a browser's report buys nothing"
	case slices.Contains(toolPaths, req.URL.Path) || h.Get("Sec-Fetch-Dest") == "speculationrules":
		return "a browser asked for its own use: what it asks for is not read by a program"
	}
	return ""
}

// toolPaths lists where browsers look for files of their own.
var toolPaths = []string{"/.well-known/appspecific/com.chrome.devtools.json"}

// beacons lists the types of what browsers send by themselves: reports, and pings of links.
var beacons = []string{"application/reports+json", "application/csp-report", "text/ping"}

// beacon reports whether a browser tells a site something, and reads no answer.
func beacon(req *http.Request) bool {
	kind, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	return req.Header.Get("Sec-Fetch-Dest") == "report" || req.Method == http.MethodPost && slices.Contains(beacons, kind)
}

// aheadHeaders mark requests for what may be wanted later: the standard's, and those of older browsers and of libraries.
var aheadHeaders = []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz", "X-Sec-Purpose"}

// aheadFlags do so by being there: those of Next.js and htmx.
var aheadFlags = []string{"Next-Router-Prefetch", "Next-Router-Segment-Prefetch", "X-Middleware-Prefetch", "Hx-Preloaded"}

// ahead reports whether a request is for what may be wanted later.
func ahead(h http.Header) bool {
	if slices.ContainsFunc(aheadFlags, func(name string) bool { return h.Get(name) != "" }) {
		return true
	}
	for _, name := range aheadHeaders {
		words := strings.FieldsFunc(strings.ToLower(strings.Join(h.Values(name), ",")), func(r rune) bool {
			return strings.ContainsRune(",;= \t\"", r)
		})
		if slices.ContainsFunc(words, func(word string) bool { return slices.Contains([]string{"prefetch", "prerender", "preview"}, word) }) {
			return true
		}
	}
	return false
}

// iconOf reports whether a browser asks for a site's icon at the paths where it looks without being told to.
// An image that a page names at another path was asked for. Over plain http browsers do not send Sec-Fetch-Dest.
func iconOf(req *http.Request) bool {
	dest := req.Header.Get("Sec-Fetch-Dest")
	if dest != "image" && (dest != "" || !strings.HasPrefix(req.Header.Get("Accept"), "image/") || !strings.HasPrefix(req.UserAgent(), "Mozilla/")) {
		return false
	}
	name := req.URL.Path
	return name == "/favicon.ico" || strings.HasPrefix(name, "/apple-touch-icon") && strings.HasSuffix(name, ".png")
}
