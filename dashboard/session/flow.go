package session

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/purserpay/purser/pay"
)

// Bounds on the parameters of a callback.
const (
	maxCode      = 4096
	maxErrorCode = 64
)

// maxForm bounds the body of our own forms, in bytes.
const maxForm = 16 << 10

// signIn sends a visitor to the provider, unless the visitor has a session or has just signed out.
func (g *Gate) signIn(w http.ResponseWriter, r *http.Request, at place) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		g.render(w, r, http.StatusBadRequest, Notice{
			Title: "Not understood", Text: "What your browser sent is not a form of this page.", Action: "Sign in", ActionURL: SignIn,
		})
		return
	}
	back, again := Back(r.Form.Get("return")), r.Form.Get("again") == "1"
	if r.Form.Get("out") != "" && r.Method != http.MethodPost {
		// Do not go to the provider at once: the visitor may still have a session there.
		g.render(w, r, http.StatusOK, Notice{
			Title: "You are signed out", Text: signedOut(r.Form.Get("out")), Action: "Sign in", ActionURL: To(back),
		})
		return
	}
	v, known, err := g.visitor(r, at)
	switch {
	case err != nil:
		g.fail(w, r, err)
		return
	case known && (!again || v.Recent(g.now())):
		g.redirect(w, r, back, http.StatusOK)
		return
	}
	g.begin(w, r, at, newAttempt(back, again && known, g.now()))
}

func signedOut(where string) string {
	if where == "everywhere" {
		return "All your sessions on all devices have ended. Your keys still work: programs that pay go on."
	}
	return "Your keys still work: programs that pay go on."
}

// begin sends a browser to the provider.
func (g *Gate) begin(w http.ResponseWriter, r *http.Request, at place, a attempt) {
	if wait := g.starts.Take(g.opts.Peer(r), 1, g.now()); wait > 0 {
		g.tooMany(w, r, wait)
		return
	}
	d, err := g.provider.get(r.Context())
	if err != nil {
		g.providerFailed(w, r, err)
		return
	}
	if err := g.keepAttempt(w, r, at, a); err != nil {
		g.fail(w, r, err)
		return
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(a.Verifier), oauth2.SetAuthURLParam("nonce", a.Nonce)}
	if a.Again {
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	}
	g.redirect(w, r, g.config(d, at).AuthCodeURL(a.State, options...), http.StatusOK)
}

// callback handles the provider's redirect back to purser.
func (g *Gate) callback(w http.ResponseWriter, r *http.Request, at place) {
	answer, ok := single(r.URL.RawQuery, "state", "code", "error", "iss")
	var a attempt
	if ok {
		a, ok = g.takeAttempt(w, r, at, answer["state"])
	}
	if !ok {
		g.strayCallback(w, r, at)
		return
	}
	d, err := g.provider.get(r.Context())
	if err != nil {
		g.providerFailed(w, r, err)
		return
	}
	// Check the issuer, because an answer of another provider may be mixed in (RFC 9207 §2.4).
	if iss, said := answer["iss"]; said && iss != g.opts.Issuer || !said && d.metadata.SaysIssuer {
		g.log.Warn("sign-in answered by another issuer", "issuer", fmt.Sprintf("%.200q", iss))
		g.notSignedIn(w, r, a, "The answer did not come from the identity provider that was asked.", "")
		return
	}
	if code := answer["error"]; code != "" {
		g.providerRefused(w, r, a, code)
		return
	}
	if answer["code"] == "" || len(answer["code"]) > maxCode {
		g.notSignedIn(w, r, a, "The identity provider sent no code.", "")
		return
	}
	g.finish(w, r, at, d, a, answer["code"])
}

// finish signs in a visitor who comes with a code.
func (g *Gate) finish(w http.ResponseWriter, r *http.Request, at place, d *discovered, a attempt, code string) {
	if wait := g.finishes.Take(g.opts.Peer(r), 1, g.now()); wait > 0 {
		g.tooMany(w, r, wait)
		return
	}
	select {
	case g.exchanges <- struct{}{}:
		defer func() { <-g.exchanges }()
	default:
		g.tooMany(w, r, time.Second)
		return
	}
	p, err := g.redeem(r.Context(), d, at, a, code)
	switch {
	case errors.Is(err, errNotAgain):
		g.log.Warn("the identity provider did not ask who is there, though it was told to (prompt=login, max_age=0), or does not say when it did (auth_time)")
		g.notSignedIn(w, r, a, "Your identity provider did not ask for your password again, or does not say that it did. What this page would "+
			"show stays hidden.", "")
		return
	case errors.Is(err, errToken):
		g.log.Warn("sign-in refused", "error", loggable(err))
		g.notSignedIn(w, r, a, "What the identity provider said does not prove who you are.", "")
		return
	case err != nil:
		g.providerFailed(w, r, err)
		return
	}
	if !g.allowed.allows(p.standing) { // before an account is made
		g.turnAway(w, r, at, p)
		return
	}
	account, _, err := g.opts.Accounts.SignIn(r.Context(), p.who)
	if input, ok := errors.AsType[*pay.InputError](err); ok {
		g.log.Warn("sign-in refused", "error", input)
		g.notSignedIn(w, r, a, "What the identity provider said of you cannot be kept.", input.Field)
		return
	}
	if err != nil {
		g.fail(w, r, fmt.Errorf("signing in: %w", err))
		return
	}
	// A link must not replace the visitor's session by another account's. The visitor would go on,
	// and paste keys into the other account's organization.
	switch v, known, err := g.visitor(r, at); {
	case err != nil:
		g.fail(w, r, err)
		return
	case known && v.Account.ID != account.ID:
		g.log.Warn("sign-in of another account refused", "account", v.Account.ID, "other", account.ID)
		g.render(w, r, http.StatusConflict, Notice{
			Title: "Somebody else is signed in",
			Text: "The identity provider vouches for another account than the one that is signed in here, and that one stays. To change " +
				"accounts, sign out first. If you did not mean to, you have followed a link that somebody made for you.",
			Action: "Back to the dashboard", ActionURL: Home,
		})
		return
	}
	if err := g.admit(w, r, at, Visitor{Account: account, AuthTime: p.authTime, standing: p.standing}); err != nil {
		g.fail(w, r, err)
		return
	}
	http.Redirect(w, r, a.Return, http.StatusSeeOther)
}

// signOut ends the visitor's session, or all of the visitor's sessions. Without a session the
// visitor is signed out already.
func (g *Gate) signOut(w http.ResponseWriter, r *http.Request, at place, everywhere bool) {
	where := "here"
	v, known, err := g.session(r, at)
	if err == nil && known && everywhere {
		where = "everywhere"
		if _, err = g.opts.Accounts.EndSessions(r.Context(), v.Account.ID); errors.Is(err, pay.ErrAccountNotFound) {
			err = nil
		}
	}
	if err == nil {
		err = g.dismiss(w, r, at)
	}
	if err != nil {
		g.fail(w, r, err)
		return
	}
	setCookie(w, at, cookieName(at.secure), out, lifetime)
	if known {
		g.log.Info("signed out", "account", v.Account.ID)
	}
	g.redirect(w, r, SignIn+"?out="+where, http.StatusOK)
}

// single reads query parameters that must not be repeated (RFC 6749 §3.1).
func single(query string, names ...string) (map[string]string, bool) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, false
	}
	found := make(map[string]string, len(names))
	for _, name := range names {
		switch len(values[name]) {
		case 0:
		case 1:
			found[name] = values[name][0]
		default:
			return nil, false
		}
	}
	return found, true
}

// strayCallback answers a callback for an attempt that this browser did not begin, has finished, or
// took too long over. A visitor who went back in the browser's history still has a session.
func (g *Gate) strayCallback(w http.ResponseWriter, r *http.Request, at place) {
	_, known, err := g.visitor(r, at)
	switch {
	case err != nil:
		g.fail(w, r, err)
	case known:
		http.Redirect(w, r, Home, http.StatusSeeOther)
	default:
		g.render(w, r, http.StatusBadRequest, Notice{
			Title: "This sign-in is over",
			Text: "It took longer than ten minutes, was finished before, or was begun in another browser. If it happens again, your " +
				"browser may not keep cookies for this site.",
			Action: "Sign in", ActionURL: SignIn,
		})
	}
}

// providerRefused explains the provider's error (RFC 6749 §4.1.2.1, OpenID Connect Core §3.1.2.6).
func (g *Gate) providerRefused(w http.ResponseWriter, r *http.Request, a attempt, code string) {
	if len(code) > maxErrorCode || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		code = "unknown"
	}
	g.log.Info("the identity provider refused a sign-in", "code", code)
	text := "The identity provider did not let you in."
	switch code {
	case "access_denied":
		text = "You, or your identity provider, said no."
	case "temporarily_unavailable", "server_error":
		text = "The identity provider has trouble. Try again in a while."
	case "invalid_request", "unauthorized_client", "invalid_scope", "unsupported_response_type":
		text = "The identity provider does not know purser as it should: whoever runs purser has to look at how it is registered."
	}
	g.notSignedIn(w, r, a, text, code)
}

func (g *Gate) notSignedIn(w http.ResponseWriter, r *http.Request, a attempt, text, detail string) {
	n := Notice{Title: "You are not signed in", Text: text, Detail: detail, Action: "Try again", ActionURL: To(a.Return)}
	if a.Again {
		n.Title, n.Action, n.ActionURL = "Not confirmed", "Back to the dashboard", Home
	}
	g.render(w, r, http.StatusForbidden, n)
}

func (g *Gate) providerFailed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		g.log.Warn("sign-in failed", "error", loggable(err))
	}
	n := Notice{
		Title: "Sign-in does not work at the moment", Text: "The identity provider does not answer. Try again in a while.",
		Action: "Try again", ActionURL: SignIn,
	}
	if errors.Is(err, errMisbehaves) {
		n.Text = "The identity provider answers, but not as it should. Whoever runs purser finds the reason in its log."
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(pause/time.Second)))
	g.render(w, r, http.StatusServiceUnavailable, n)
}

func (g *Gate) tooMany(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	g.render(w, r, http.StatusTooManyRequests, Notice{
		Title: "Too many sign-ins", Text: "Many sign-ins were begun from your address. Wait a minute.", Action: "Try again", ActionURL: SignIn,
	})
}
