package proxy

import (
	"net/http"
	"slices"
	"strings"
)

// keepPrivate keeps a paid answer out of shared caches: it is for one wallet. The seller's directives for
// the client's own cache stay, such as max-age.
func keepPrivate(h http.Header) {
	given, whole := directives(strings.Join(h.Values("Cache-Control"), ","))
	if !whole {
		neverStored(h)
		return
	}
	kept := []string{"private"}
	for _, directive := range given {
		name, _, _ := strings.Cut(directive, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "private": // with a value it allows shared caches the rest
		case "public", "s-maxage", "proxy-revalidate":
		default:
			kept = append(kept, directive)
		}
	}
	h.Set("Cache-Control", strings.Join(kept, ", "))
	dropCacheOrders(h)
}

// neverStored keeps an answer out of every cache, because the client's repeat must reach purser.
func neverStored(h http.Header) {
	h.Set("Cache-Control", "private, no-store")
	dropCacheOrders(h)
}

// cacheOrders lists headers for particular caches that have other names than <cache>-Cache-Control.
var cacheOrders = []string{"Surrogate-Control", "Edge-Control", "X-Accel-Expires"}

// dropCacheOrders takes out what particular caches obey in place of Cache-Control (RFC 9213), such as nginx.
func dropCacheOrders(h http.Header) {
	for name := range h {
		if strings.HasSuffix(name, "-Cache-Control") || slices.Contains(cacheOrders, name) {
			delete(h, name)
		}
	}
}

// notCached keeps caches on the way from answering a request with the 402 that they have kept. The client's
// directives stay if they do not ask for a kept answer, or if the client has signed them.
func notCached(h http.Header) {
	if signs(h, "cache-control") || signs(h, "pragma") {
		return
	}
	given, whole := directives(strings.Join(h.Values("Cache-Control"), ","))
	asked := []string{"no-cache"}
	for _, directive := range given {
		name, _, _ := strings.Cut(directive, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "no-cache", "max-age", "max-stale", "min-fresh", "only-if-cached", "stale-if-error":
		default:
			if whole {
				asked = append(asked, directive)
			}
		}
	}
	h.Set("Cache-Control", strings.Join(asked, ", "))
	h.Set("Pragma", "no-cache") // caches of HTTP/1.0, and the rules of many servers, look there
}

// directives splits a Cache-Control at commas outside quotes. It returns false if a quote does not end.
func directives(text string) (list []string, whole bool) {
	quoted, escaped, begin := false, false, 0
	add := func(end int) {
		if directive := strings.TrimSpace(text[begin:end]); directive != "" {
			list = append(list, directive)
		}
		begin = end + 1
	}
	for i := range len(text) {
		switch c := text[i]; {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			add(i)
		}
	}
	add(len(text))
	return list, !quoted
}
