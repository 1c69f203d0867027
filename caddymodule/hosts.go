package caddymodule

import (
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
