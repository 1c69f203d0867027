// Package routes looks through the provisioned routes of a site of Caddy's, subroutes too: which hosts they choose, and
// whether a handler is among them. It changes nothing.
package routes

import (
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Hosts returns the matchers by which the routes of a server choose hosts. The operator owns the names in them.
// A nil server has none.
func Hosts(s *caddyhttp.Server) []caddyhttp.MatchHost {
	if s == nil {
		return nil
	}
	all := hosts(s.Routes)
	if s.Errors != nil {
		all = append(all, hosts(s.Errors.Routes)...)
	}
	for _, r := range s.NamedRoutes {
		all = append(all, hosts(caddyhttp.RouteList{*r})...)
	}
	return all
}

func hosts(routes caddyhttp.RouteList) (all []caddyhttp.MatchHost) {
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
				all = append(all, hosts(sub.Routes)...)
				if sub.Errors != nil {
					all = append(all, hosts(sub.Errors.Routes)...)
				}
			}
		}
	}
	return all
}

// Have reports whether the handler of a module, such as http.handlers.metrics, is in routes, and whether requests for all
// hosts come to one.
func Have(routes caddyhttp.RouteList, id caddy.ModuleID) (there, open bool) {
	for _, r := range routes {
		through := len(r.MatcherSets) == 0 || slices.ContainsFunc(r.MatcherSets, allHosts)
		for _, h := range r.Handlers {
			m, is := h.(caddy.Module)
			in := is && m.CaddyModule().ID == id
			inOpen := in
			if sub, ok := h.(*caddyhttp.Subroute); ok {
				in, inOpen = Have(sub.Routes, id)
			}
			there, open = there || in, open || inOpen && through
		}
	}
	return there, open
}

// allHosts reports whether no matcher chooses a host, or a path, which a CONNECT has not.
func allHosts(set caddyhttp.MatcherSet) bool {
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
