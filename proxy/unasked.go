package proxy

import (
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
		return "a browser asked for the icon of a site by itself: send the request without Sec-Fetch-Dest to buy it"
	case h.Get("Sec-Fetch-Dest") == "report":
		return "a browser's report buys nothing"
	}
	return ""
}

// aheadHeaders mark requests for what may be wanted later: the standard's, and those of older browsers.
var aheadHeaders = []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"}

// ahead reports whether a request is for what may be wanted later.
func ahead(h http.Header) bool {
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
// An image that a page names at another path was asked for.
func iconOf(req *http.Request) bool {
	if req.Header.Get("Sec-Fetch-Dest") != "image" {
		return false
	}
	name := req.URL.Path
	return name == "/favicon.ico" || strings.HasPrefix(name, "/apple-touch-icon") && strings.HasSuffix(name, ".png")
}

// unaskedError says why a request buys nothing.
type unaskedError string

func (e unaskedError) Error() string { return string(e) }
