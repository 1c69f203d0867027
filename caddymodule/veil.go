package caddymodule

import (
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/internal/logs"
)

// lift matches every request, and gives it the headers back that its server must not log.
type lift struct{ *logs.Veil }

// MatchWithError implements caddyhttp.RequestMatcherWithError.
func (lift) MatchWithError(r *http.Request) (bool, error) {
	logs.Lift(r)
	return true, nil
}

// veil keeps keys and payments out of all that a server logs by itself. A server copies its requests for
// the logs before its first route sees them. Over HTTP/3 it has no place for the veil, so it speaks that
// no more. A door of a named route comes too late for all of this, which veil reports. More headers of requests
// may hold keys.
func veil(s *caddyhttp.Server, more ...string) bool {
	i := slices.IndexFunc(s.Routes, func(r caddyhttp.Route) bool { return len(r.Handlers) == 0 })
	if i < 0 {
		return false // the routes are compiled
	}
	first := &s.Routes[0]
	if len(first.MatcherSets) == 0 {
		first.MatcherSets = caddyhttp.MatcherSets{{}}
	}
	if set := first.MatcherSets[0]; len(set) > 0 {
		if drawn, ok := set[0].(lift); ok {
			drawn.Headers = append(drawn.Headers, more...)
			return true
		}
	}
	v := &logs.Veil{Answers: s.Logs != nil, Credentials: s.Logs != nil && s.Logs.ShouldLogCredentials, Headers: more}
	first.MatcherSets[0] = append(caddyhttp.MatcherSet{lift{v}}, first.MatcherSets[0]...)
	s.RegisterConnContext(v.Draw)
	unlearn(s, "h3")
	return true
}

// unlearn takes some protocols away from a server, unless it speaks nothing else.
func unlearn(s *caddyhttp.Server, protocols ...string) {
	others := func(list []string) []string {
		kept := slices.DeleteFunc(slices.Clone(list), func(p string) bool { return slices.Contains(protocols, p) })
		if len(kept) == 0 {
			return list
		}
		return kept
	}
	s.Protocols = others(s.Protocols)
	for i, list := range s.ListenProtocols {
		s.ListenProtocols[i] = others(list)
	}
}
