package dashboard

import (
	"net/http"
	"strings"

	"github.com/purserpay/purser/dashboard/session"
)

// notices renders the pages of package session.
type notices struct{ d *dashboard }

// Render implements session.Pages.
func (n notices) Render(w http.ResponseWriter, _ *http.Request, status int, page session.Notice) {
	if !followable(page.ActionURL) {
		page.ActionURL = ""
	}
	n.d.render(w, answer{status: status, page: "notice"}, frame{Title: page.Title, Body: page, Version: n.d.Version})
}

// Link implements session.Pages.
func (n notices) Link(w http.ResponseWriter, _ *http.Request) {
	n.d.render(w, answer{page: "link"}, frame{Title: "Sign in as the operator", Version: n.d.Version})
}

// Setup implements session.Pages.
func (n notices) Setup(w http.ResponseWriter, _ *http.Request, s session.Setup) {
	n.d.render(w, answer{page: "setup"}, frame{Title: "Sign in", Wide: true, Version: n.d.Version, Body: struct {
		session.Setup
		Command, Redirect command
	}{s, command{ID: "sign-in", Text: "purser dashboard", What: "the command that signs you in"}, command{ID: "redirect", Text: s.RedirectURL, What: "the redirect address"}}})
}

// followable reports whether an action leads to a path here, or to an http(s) URL.
func followable(u string) bool {
	return strings.HasPrefix(u, "/") && !strings.HasPrefix(u, "//") || strings.HasPrefix(u, "https://") || strings.HasPrefix(u, "http://")
}
