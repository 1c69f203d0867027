package forward

import (
	"net/http"
	"strings"

	"github.com/purserpay/purser/internal/conns"
)

// serveInside relays a request that came through an intercepted connection, as an
// absolute-form one for the CONNECT's host would be.
func (f *Proxy) serveInside(w http.ResponseWriter, r *http.Request) {
	s, ok := r.Context().Value(sessionKey{}).(*session)
	if !ok || !s.enter() { // the connection is gone
		panic(http.ErrAbortHandler)
	}
	defer s.leave()
	r, over := conns.Lasting(withoutSocketScheme(r))
	defer over()
	var who caller
	no := f.checkInside(s, r)
	if no == nil {
		who, no = s.caller(r.Context(), f)
	}
	if no != nil {
		f.refuse(w, r, s.opener(), no)
		return
	}
	in, end := f.observer.Inside(s.connect, s.absolute(r))
	defer end()
	f.relayFor(w, in, who)
}

// checkInside refuses requests that cannot or must not be relayed.
func (f *Proxy) checkInside(s *session, r *http.Request) *refusal {
	misdirected := &refusal{
		status: http.StatusMisdirectedRequest, reason: reasonMisdirected,
		text: "The request is for another host than this connection was opened for",
	}
	switch {
	case r.Method == http.MethodConnect, r.Method == http.MethodTrace:
		return notRelayed(r)
	case r.Host == "" && !r.ProtoAtLeast(1, 1): // HTTP/1.0 need not say
	case !s.isFor(r.Host):
		return misdirected
	}
	for _, host := range r.Header.Values("Host") { // HTTP/2 may have one beside :authority
		if !s.isFor(host) {
			return misdirected
		}
	}
	scheme, _ := s.scheme()
	switch {
	case r.URL.IsAbs() && (!strings.EqualFold(r.URL.Scheme, scheme) || r.URL.User != nil || !s.isFor(r.URL.Host)):
		return misdirected
	case r.URL.Opaque != "", r.URL.Path != "" && r.URL.Path[0] != '/':
		return badRequest("The request needs a path")
	case looped(r.Header, f.pseudonym):
		return inALoop
	}
	return nil
}

// absolute returns a request of the connection with its whole URL.
func (s *session) absolute(r *http.Request) *http.Request {
	out := r.WithContext(r.Context())
	u := *r.URL
	u.Scheme, _ = s.scheme()
	u.Host = s.authority()
	out.URL = &u
	out.Host = u.Host // which the client's means, however it is spelt
	out.Header.Del("Host")
	return out
}
