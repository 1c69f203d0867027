package dashboard

import (
	"net/http"
	"strings"

	"github.com/purserpay/purser/dashboard/session"
)

// notices renders the pages of package session.
type notices struct{ d *dashboard }

// Render implements session.Pages.
func (n notices) Render(w http.ResponseWriter, r *http.Request, status int, page session.Notice) {
	if !followable(page.ActionURL) {
		page.ActionURL = ""
	}
	n.show(w, r, answer{status: status, page: "notice", title: page.Title, body: page}, false)
}

// Setup implements session.Pages.
func (n notices) Setup(w http.ResponseWriter, r *http.Request, s session.Setup) {
	n.show(w, r, answer{page: "setup", title: "Set up sign-in", body: struct {
		session.Setup
		Redirect command
	}{s, command{ID: "redirect", Text: s.RedirectURL, What: "the redirect address"}}}, true)
}

func (n notices) show(w http.ResponseWriter, r *http.Request, a answer, wide bool) {
	n.d.render(w, r, a, frame{Title: a.title, Body: a.body, Wide: wide, Version: n.d.Version})
}

// followable reports whether an action leads to a path here, or to an http(s) URL.
func followable(u string) bool {
	return strings.HasPrefix(u, "/") && !strings.HasPrefix(u, "//") || strings.HasPrefix(u, "https://") || strings.HasPrefix(u, "http://")
}
