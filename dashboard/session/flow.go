package session

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
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
func (g *Gate) signIn(w http.ResponseWriter, r *http.Request, at place) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return &refusal{status: http.StatusBadRequest, Notice: Notice{
			Title: "Not understood", Text: "What your browser sent is not a form of this page.", Action: "Sign in", ActionURL: SignIn,
		}}
	}
	back, again := Back(r.Form.Get("return")), r.Form.Get("again") == "1"
	if where := r.Form.Get("out"); where != "" && r.Method != http.MethodPost {
		// Do not go to the provider at once: the visitor may still have a session there.
		n := Notice{Title: "You are signed out", Text: "Your keys still work: programs that pay go on.", Action: "Sign in", ActionURL: To(back)}
		if where == "everywhere" {
			n.Text = "All your sessions on all devices have ended. " + n.Text
		}
		g.pages.Render(w, r, http.StatusOK, n)
		return nil
	}
	v, known, err := g.visitor(r, at)
	switch {
	case err != nil:
		return err
	case known && (!again || v.Fresh(g.now())):
		redirect(w, r, back, http.StatusOK)
		return nil
	case known && v.linked():
		keepBack(w, at, back)
		return errOperatorAgain
	case g.provider == nil: // the page there says how to sign in
		redirect(w, r, Home, http.StatusOK)
		return nil
	}
	if wait := g.starts.Take(g.opts.Peer(r), 1, g.now()); wait > 0 {
		return tooMany(wait)
	}
	d, err := g.provider.get(r.Context())
	if err != nil {
		return g.providerFailed(r, err)
	}
	a := attempt{
		State: randomText(), Nonce: randomText(), Verifier: oauth2.GenerateVerifier(), Return: back,
		Started: g.now().UTC().Truncate(time.Second), Again: again && known,
	}
	g.keepAttempt(w, r, at, a)
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(a.Verifier), oauth2.SetAuthURLParam("nonce", a.Nonce)}
	if a.Again {
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	}
	redirect(w, r, g.config(d, at).AuthCodeURL(a.State, options...), http.StatusOK)
	return nil
}

// callback handles the provider's redirect back to purser.
func (g *Gate) callback(w http.ResponseWriter, r *http.Request, at place) error {
	if g.provider == nil {
		return g.explain(w, r, at, true)
	}
	answer, ok := single(r.URL.RawQuery, "state", "code", "error", "iss")
	var a attempt
	if ok {
		a, ok = g.takeAttempt(w, r, at, answer.Get("state"))
	}
	if !ok {
		return g.strayCallback(w, r, at)
	}
	d, err := g.provider.get(r.Context())
	if err != nil {
		return g.providerFailed(r, err)
	}
	// Check the issuer, because an answer of another provider may be mixed in (RFC 9207 §2.4).
	if iss, said := answer.Get("iss"), answer.Has("iss"); said && iss != g.opts.Issuer || !said && d.metadata.SaysIssuer {
		g.log.Warn("sign-in answered by another issuer", "issuer", fmt.Sprintf("%.200q", iss))
		return notSignedIn(a, "The answer did not come from the identity provider that was asked.", "")
	}
	if code := answer.Get("error"); code != "" {
		return g.providerRefused(a, code)
	}
	code := answer.Get("code")
	if code == "" || len(code) > maxCode {
		return notSignedIn(a, "The identity provider sent no code.", "")
	}
	return g.finish(w, r, at, d, a, code)
}

// finish signs in a visitor who comes with a code.
func (g *Gate) finish(w http.ResponseWriter, r *http.Request, at place, d *discovered, a attempt, code string) error {
	if wait := g.finishes.Take(g.opts.Peer(r), 1, g.now()); wait > 0 {
		return tooMany(wait)
	}
	select {
	case g.exchanges <- struct{}{}:
		defer func() { <-g.exchanges }()
	default:
		return tooMany(time.Second)
	}
	p, err := g.redeem(r.Context(), d, at, a, code)
	switch {
	case errors.Is(err, errNotAgain):
		g.log.Warn("the identity provider did not ask who is there, though it was told to (prompt=login, max_age=0), or does not say when it did (auth_time)")
		return notSignedIn(a, "Your identity provider did not ask for your password again, or does not say that it did. What this page would "+
			"show stays hidden.", "")
	case errors.Is(err, errToken):
		g.log.Warn("sign-in refused", "error", loggable(err))
		return notSignedIn(a, "What the identity provider said does not prove who you are.", "")
	case err != nil:
		return g.providerFailed(r, err)
	case !g.people.admits(p.standing): // before an account is made
		return g.turnAway(w, r, at, p)
	}
	m := g.people.of(g.opts.Issuer, p.standing)
	var account pay.Account
	if m.all || m.shared != "" {
		account, _, err = g.opts.Accounts.SignInShared(r.Context(), p.who, m.shared)
	} else {
		account, _, err = g.opts.Accounts.SignIn(r.Context(), p.who)
	}
	if input, ok := errors.AsType[*pay.InputError](err); ok {
		g.log.Warn("sign-in refused", "error", input)
		return notSignedIn(a, "What the identity provider said of you cannot be kept.", input.Field)
	}
	if err != nil {
		return fmt.Errorf("signing in: %w", err)
	}
	// A link must not replace the visitor's session by another account's. The visitor would go on,
	// and paste keys into the other account's organization.
	switch v, known, err := g.visitor(r, at); {
	case err != nil:
		return err
	case known && v.Account.ID != account.ID:
		g.log.Warn("sign-in of another account refused", "account", v.Account.ID, "other", account.ID)
		return &refusal{status: http.StatusConflict, Notice: Notice{
			Title: "Another person is signed in",
			Text: "The identity provider vouches for another account than the one that is signed in here, and that one stays. To change " +
				"accounts, sign out first. If you did not mean to, you have followed a link that another person made for you.",
			Action: "Back to the dashboard", ActionURL: Home,
		}}
	}
	v := Visitor{Account: account, AuthTime: p.authTime, standing: p.standing}
	v.as(m)
	if v.Epoch, err = g.opts.Accounts.OperatorEpoch(r.Context()); err != nil {
		return err
	}
	if err := g.admit(w, r, at, v); err != nil {
		return err
	}
	http.Redirect(w, r, a.Return, http.StatusSeeOther)
	return nil
}

// signOut ends the visitor's session, or all of the visitor's sessions. Without a session the
// visitor is signed out already.
func (g *Gate) signOut(w http.ResponseWriter, r *http.Request, at place) error {
	where := "here"
	v, known, err := g.session(r, at)
	if err == nil && known && r.URL.Path == SignOutEverywhere {
		where = "everywhere"
		if v.linked() {
			g.opts.Links.Clear()
			err = g.opts.Accounts.EndOperatorSessions(pay.WithActor(r.Context(), v.Actor()))
		} else if _, err = g.opts.Accounts.EndSessions(r.Context(), v.Account.ID); errors.Is(err, pay.ErrAccountNotFound) {
			err = nil
		}
	}
	if err == nil {
		err = g.dismiss(w, r, at)
	}
	if err != nil {
		return err
	}
	setCookie(w, at, at.cookie(sessionCookie), out, Lifetime)
	if known {
		g.log.Info("signed out", "who", v.Actor().String())
	}
	redirect(w, r, SignIn+"?out="+where, http.StatusOK)
	return nil
}

// single reads a query whose parameters of these names must not be repeated (RFC 6749 §3.1).
func single(query string, names ...string) (url.Values, bool) {
	values, err := url.ParseQuery(query)
	return values, err == nil && !slices.ContainsFunc(names, func(n string) bool { return len(values[n]) > 1 })
}

// strayCallback answers a callback for an attempt that this browser did not begin, has finished, or
// took too long over. A visitor who went back in the browser's history still has a session.
func (g *Gate) strayCallback(w http.ResponseWriter, r *http.Request, at place) error {
	_, known, err := g.visitor(r, at)
	switch {
	case err != nil:
		return err
	case known:
		http.Redirect(w, r, Home, http.StatusSeeOther)
		return nil
	}
	return &refusal{status: http.StatusBadRequest, Notice: Notice{
		Title: "This sign-in is over",
		Text: "It took longer than ten minutes, was finished before, or was begun in another browser. If it happens again, your " +
			"browser may not keep cookies for this site.",
		Action: "Sign in", ActionURL: SignIn,
	}}
}

// providerRefused explains the provider's error (RFC 6749 §4.1.2.1, OpenID Connect Core §3.1.2.6).
func (g *Gate) providerRefused(a attempt, code string) error {
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
		text = "The identity provider does not know purser as it should: the operator has to check how purser is registered there."
	}
	return notSignedIn(a, text, code)
}

func notSignedIn(a attempt, text, detail string) error {
	n := Notice{Title: "You are not signed in", Text: text, Detail: detail, Action: "Try again", ActionURL: To(a.Return)}
	if a.Again {
		n.Title, n.Action, n.ActionURL = "Not confirmed", "Back to the dashboard", Home
	}
	return &refusal{status: http.StatusForbidden, Notice: n}
}

func (g *Gate) providerFailed(r *http.Request, err error) error {
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
	return &refusal{status: http.StatusServiceUnavailable, Notice: n, retry: pause}
}

func tooMany(wait time.Duration) error {
	return &refusal{status: http.StatusTooManyRequests, retry: wait, Notice: Notice{
		Title: "Too many sign-ins", Text: "Many sign-ins were begun from your address. Wait a minute.", Action: "Try again", ActionURL: SignIn,
	}}
}
