package session

import (
	"net/url"
	"path"
	"strings"
	"unicode"
)

// Paths of sign-in.
const (
	Home              = "/dashboard/"
	SignIn            = "/dashboard/sign-in"
	SignOut           = "/dashboard/sign-out"            // POST
	SignOutEverywhere = "/dashboard/sign-out-everywhere" // POST
	Callback          = "/dashboard/callback"
	Link              = "/dashboard/link"    // of `purser dashboard`
	Assets            = "/dashboard/assets/" // without a session
	// ApprovalLink is followed by the id of an approval. Its pages need no session: a token in the form
	// answers this approval only. See ApprovalLinks.
	ApprovalLink = "/dashboard/approve/"
)

// maxReturn bounds the path after signing in, which a cookie keeps, in bytes.
const maxReturn = 1024

// To returns the path of signing in, with a return to a path of the dashboard.
func To(back string) string { return signIn(back, "") }

// Again returns the path where a visitor with a session signs in once more.
func Again(back string) string { return signIn(back, "again") }

func signIn(back, flag string) string {
	q := url.Values{}
	if flag != "" {
		q.Set(flag, "1")
	}
	if back = Back(back); back != Home {
		q.Set("return", back)
	}
	if len(q) == 0 {
		return SignIn
	}
	return SignIn + "?" + q.Encode()
}

// Back returns a path of the dashboard to return to. asked comes from the browser. If it might lead
// to another site, or to sign-in itself, Back returns the overview.
func Back(asked string) string {
	if len(asked) > maxReturn || asked != "/dashboard" && !strings.HasPrefix(asked, Home) && !strings.HasPrefix(asked, "/dashboard?") {
		return Home
	}
	u, err := url.Parse(asked)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || u.User != nil {
		return Home
	}
	// Check the written and the decoded form: browsers read a backslash as a slash, and drop tabs
	// and line breaks.
	query, err := url.QueryUnescape(u.RawQuery)
	if err != nil || strings.ContainsAny(asked+u.Path, `\`) || strings.Contains(asked, " ") || strings.ContainsFunc(asked+u.Path+query, unicode.IsControl) {
		return Home
	}
	clean := path.Clean(u.Path)
	if u.Path == "/dashboard" || u.Path == Home {
		u.Path, u.RawPath, clean = Home, "", Home
	} else if clean != strings.TrimSuffix(u.Path, "/") || strings.HasSuffix(u.Path, "//") {
		return Home // "//", "/../" and the like, in any encoding
	}
	for _, own := range []string{SignIn, SignOut, SignOutEverywhere, Callback, Link, strings.TrimSuffix(Assets, "/"), strings.TrimSuffix(ApprovalLink, "/")} {
		if clean == own || strings.HasPrefix(clean, own+"/") {
			return Home
		}
	}
	u.Fragment, u.RawFragment = "", ""
	return u.String()
}
