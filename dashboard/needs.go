package dashboard

import (
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/purserpay/purser/dashboard/session"
)

// need holds what a view needs of its visitor.
type need struct {
	act   session.Act
	fresh bool // a sign-in of the last fifteen minutes
}

// needs lists the views that need more than their method says: without an entry, a GET needs
// session.See, and every other method session.Change. This table is the only place that decides who
// may use a view.
func needs() map[string]need {
	return map[string]need{
		"POST /dashboard/approvals/{id}":             {session.Approve, true}, // raising needs session.Change: see answerApproval
		"GET /dashboard/pause":                       {session.Change, false},
		"POST /dashboard/keys/{id}/reveal":           {session.Change, true},
		"GET /dashboard/keys/{id}/limits":            {session.Change, false}, // raising needs a fresh one: see changeLimits
		"GET /dashboard/keys/{id}/reissue":           {session.Change, true},
		"POST /dashboard/keys/{id}/reissue":          {session.Change, true},
		"GET /dashboard/keys/{id}/revoke":            {session.Change, true},
		"POST /dashboard/keys/{id}/revoke":           {session.Change, true},
		"GET /dashboard/wallets/{id}/withdraw":       {session.Move, true},
		"POST /dashboard/wallets/{id}/withdraw":      {session.Move, true},
		"POST /dashboard/wallets/{id}/withdraw/send": {session.Move, true},
		"GET /dashboard/wallets/{id}/delete":         {session.Change, true},
		"POST /dashboard/wallets/{id}/delete":        {session.Change, true},
	}
}

func needOf(pattern string) need {
	switch own, ok := needs()[pattern]; {
	case ok:
		return own
	case strings.HasPrefix(pattern, "GET "):
		return need{act: session.See}
	}
	return need{act: session.Change}
}

// guarded returns a view that refuses visitors who may not use it. A visitor whose sign-in is too old
// signs in again, and comes back to the page with the form.
func (d *dashboard) guarded(pattern string, serve view) view {
	n := needOf(pattern)
	if !strings.Contains(pattern, " ") { // it answers every method with an error or a redirect
		n.act = session.See
	}
	return func(r *http.Request, v visit) (answer, error) {
		switch {
		case !v.May(n.act):
			return answer{}, &forbiddenError{n.act}
		case n.fresh && !v.Fresh(v.now):
			return answer{redirect: session.Again(d.formOf(r))}, nil
		}
		return serve(r, v)
	}
}

// formOf returns the path of the page that has the form of a request: the same path, or the one above
// it where no page has this path.
func (d *dashboard) formOf(r *http.Request) string {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return r.URL.RequestURI()
	}
	pattern := strings.TrimPrefix(r.Pattern, r.Method+" ")
	if _, ok := d.views()["GET "+pattern]; ok {
		return r.URL.Path
	}
	return path.Dir(r.URL.Path)
}

// forbiddenError reports a visitor whose role does not allow an act.
type forbiddenError struct{ act session.Act }

func (e *forbiddenError) Error() string {
	return "the visitor's role does not allow to " + string(e.act)
}

// problemOfRole returns the page for a visitor whose role does not allow an act.
func problemOfRole(err error) (problem, bool) {
	e, ok := errors.AsType[*forbiddenError](err)
	if !ok {
		return problem{}, false
	}
	p := problem{status: http.StatusForbidden, Title: "Your role does not allow this", Text: "You can look at everything here. Only an operator or an owner changes keys, limits and wallets, and moves money. Nothing was changed."}
	if e.act == session.Approve {
		p.Text = "You can look at everything here. Only an approver, an operator or an owner answers payments that wait for approval. Nothing was changed."
	}
	return p, true
}

// permits tells a page's template what the visitor may do, so that it shows no button in vain.
type permits struct {
	Approve, Change, Move bool
	Fresh                 bool // forms that need a fresh sign-in do not lead there first
}

func (v visit) permits() permits {
	return permits{Approve: v.May(session.Approve), Change: v.May(session.Change), Move: v.May(session.Move), Fresh: v.Fresh(v.now)}
}
