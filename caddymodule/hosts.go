package caddymodule

import (
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// hostMatchers returns the matchers by which the routes of a server choose hosts. The operator owns
// the names in them.
func hostMatchers(s *caddyhttp.Server) []caddyhttp.MatchHost {
	if s == nil {
		return nil
	}
	all := hostsOfRoutes(s.Routes)
	if s.Errors != nil {
		all = append(all, hostsOfRoutes(s.Errors.Routes)...)
	}
	for _, r := range s.NamedRoutes {
		all = append(all, hostsOfRoutes(caddyhttp.RouteList{*r})...)
	}
	return all
}

func hostsOfRoutes(routes caddyhttp.RouteList) (all []caddyhttp.MatchHost) {
	for _, r := range routes {
		for _, set := range r.MatcherSets {
			for _, m := range set {
				if hosts, ok := m.(*caddyhttp.MatchHost); ok {
					all = append(all, *hosts)
				}
			}
		}
		for _, h := range r.Handlers {
			if sub, ok := h.(*caddyhttp.Subroute); ok {
				all = append(all, hostsOfRoutes(sub.Routes)...)
				if sub.Errors != nil {
					all = append(all, hostsOfRoutes(sub.Errors.Routes)...)
				}
			}
		}
	}
	return all
}

// proxyIn reports whether a proxy is in routes, and whether requests for all hosts come to one.
func proxyIn(routes caddyhttp.RouteList) (there, open bool) {
	for _, r := range routes {
		through := len(r.MatcherSets) == 0 || slices.ContainsFunc(r.MatcherSets, matchesAllHosts)
		for _, h := range r.Handlers {
			_, in := h.(*Proxy)
			inOpen := in
			if sub, ok := h.(*caddyhttp.Subroute); ok {
				in, inOpen = proxyIn(sub.Routes)
			}
			there, open = there || in, open || inOpen && through
		}
	}
	return there, open
}

// matchesAllHosts reports whether no matcher chooses a host, or a path, which a CONNECT has not.
func matchesAllHosts(set caddyhttp.MatcherSet) bool {
	return !slices.ContainsFunc(set, func(m any) bool {
		switch m := m.(type) {
		case *caddyhttp.MatchHost, *caddyhttp.MatchPathRE:
			return true
		case *caddyhttp.MatchPath:
			return !slices.Contains(*m, "*")
		}
		return false
	})
}
