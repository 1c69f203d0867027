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
	Assets            = "/dashboard/assets/" // need no session
)

// maxReturn bounds the path that somebody comes back to after signing in, which is kept in a cookie.
const maxReturn = 1024

// To is where a visitor signs in and comes back from to a path of the dashboard.
func To(back string) string { return signIn(back, "") }

// Again is where a visitor who is signed in proves once more who they are.
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

// Back is a path of the dashboard to come back to, made of what a visitor's browser says it is. Anything that might lead
// elsewhere, or to signing in itself, is the overview.
func Back(asked string) string {
	if len(asked) > maxReturn || asked != "/dashboard" && !strings.HasPrefix(asked, Home) && !strings.HasPrefix(asked, "/dashboard?") {
		return Home
	}
	u, err := url.Parse(asked)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || u.User != nil {
		return Home
	}
	// Judged as written and as decoded: browsers take a backslash for a slash, and drop tabs and line breaks.
	query, err := url.QueryUnescape(u.RawQuery)
	if err != nil || strings.ContainsAny(asked+u.Path, `\`) || strings.Contains(asked, " ") || strings.ContainsFunc(asked+u.Path+query, unicode.IsControl) {
		return Home
	}
	clean := path.Clean(u.Path)
	if u.Path == "/dashboard" || u.Path == Home {
		u.Path, u.RawPath, clean = Home, "", Home
	} else if clean != strings.TrimSuffix(u.Path, "/") || strings.HasSuffix(u.Path, "//") {
		return Home // "//", "/../" and the like, in any spelling
	}
	for _, own := range []string{SignIn, SignOut, SignOutEverywhere, Callback, strings.TrimSuffix(Assets, "/")} {
		if clean == own || strings.HasPrefix(clean, own+"/") {
			return Home
		}
	}
	u.Fragment, u.RawFragment = "", ""
	return u.String()
}
