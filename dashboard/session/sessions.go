package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/purserpay/purser/pay"
)

const (
	// lifetime is the time after which a session ends, used or not.
	lifetime = 12 * time.Hour
	// tokenLength is the length of randomText: 32 random bytes in base64.
	tokenLength = 43
	// sessionCookie keeps a session's token.
	sessionCookie = "purser"
	// out replaces the token in the cookie of a browser that has signed out. Such a browser goes to
	// the provider only after a click.
	out = "out"
)

// record holds the contents of a session, as the store keeps them.
type record struct {
	Deadline   time.Time `json:"deadline"`
	Account    string    `json:"account"`
	Generation uint64    `json:"generation"` // of the account, when the session was made
	AuthTime   time.Time `json:"auth_time,omitzero"`
	// Secure reports that the session was made over https. A session is not valid on the other
	// scheme.
	Secure bool `json:"secure"`
	// Standing is judged at every request, so that a change of PURSER_OIDC_ALLOW takes effect.
	Standing standing `json:"standing,omitzero"`
}

// idOf returns the id of a token's session. The store never sees a token.
func idOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// errSeveral reports a browser that sends more than one session. On plain http all ports of a host
// share cookies. Another program there could set its own session cookie for some paths, and receive
// what the visitor posts to them.
var errSeveral = &refusal{status: http.StatusBadRequest, Notice: Notice{
	Title: "Two sessions at once",
	Text: "Your browser sends more than one session for this address, and one of them may be somebody else's: another program on " +
		"this machine can set cookies here. Delete the cookies of this address, then sign in.",
	Action: "Sign in", ActionURL: SignIn,
}}

// token returns the token of the request's session cookie, or "" without a valid one.
func (g *Gate) token(r *http.Request, at place) (string, error) {
	sent := r.CookiesNamed(at.cookie(sessionCookie))
	switch {
	case len(sent) > 1:
		g.log.Warn("a browser sends more than one session", "path", r.URL.Path)
		return "", errSeveral
	case len(sent) == 0 || len(sent[0].Value) != tokenLength:
		return "", nil
	}
	return sent[0].Value, nil
}

// visitor returns the visitor of a request, if the list allows the visitor. A request without a
// visitor is no error.
func (g *Gate) visitor(r *http.Request, at place) (v Visitor, ok bool, err error) {
	if v, ok, err = g.session(r, at); !ok || g.allowed.allows(v.standing) {
		return v, ok, err
	}
	return Visitor{}, false, nil
}

// session returns the visitor of the request's session, even if the list no longer allows the
// visitor.
func (g *Gate) session(r *http.Request, at place) (v Visitor, ok bool, err error) {
	token, err := g.token(r, at)
	if token == "" {
		return Visitor{}, false, err
	}
	var rec record
	kept, err := g.opts.Accounts.Session(r.Context(), idOf(token))
	if err == nil {
		err = json.Unmarshal(kept.Data, &rec)
	}
	switch {
	case errors.Is(err, pay.ErrSessionNotFound):
		return Visitor{}, false, nil
	case err != nil:
		return Visitor{}, false, fmt.Errorf("reading a session: %w", err)
	case rec.Secure != at.secure || !g.now().Before(rec.Deadline):
		return Visitor{}, false, nil
	}
	a, err := g.opts.Accounts.Account(r.Context(), rec.Account)
	switch {
	case errors.Is(err, pay.ErrAccountNotFound):
		return Visitor{}, false, nil
	case err != nil:
		return Visitor{}, false, fmt.Errorf("reading an account: %w", err)
	case a.Generation != rec.Generation:
		return Visitor{}, false, nil
	}
	return Visitor{Account: a, AuthTime: rec.AuthTime, Session: idOf(token), standing: rec.Standing}, true, nil
}

// admit ends the browser's session, and makes a new one with a fresh token.
func (g *Gate) admit(w http.ResponseWriter, r *http.Request, at place, v Visitor) error {
	if err := g.dismiss(w, r, at); err != nil {
		return err
	}
	token, ends := randomText(), g.now().Add(lifetime).UTC()
	data, err := json.Marshal(record{ends, v.Account.ID, v.Account.Generation, v.AuthTime, at.secure, v.standing})
	if err == nil {
		err = g.opts.Accounts.PutSession(r.Context(), pay.Session{ID: idOf(token), Data: data, Expires: ends})
	}
	if err != nil {
		return fmt.Errorf("keeping a session: %w", err)
	}
	setCookie(w, at, at.cookie(sessionCookie), token, lifetime)
	return nil
}

// dismiss ends the session of a request, if it has one.
func (g *Gate) dismiss(w http.ResponseWriter, r *http.Request, at place) error {
	name := at.cookie(sessionCookie)
	if _, err := r.Cookie(name); err != nil {
		return nil
	}
	token, err := g.token(r, at)
	if err != nil {
		return err
	}
	if token != "" {
		if err := g.opts.Accounts.DeleteSession(r.Context(), idOf(token)); err != nil {
			return fmt.Errorf("ending a session: %w", err)
		}
	}
	setCookie(w, at, name, "", 0)
	return nil
}

// setCookie sets a cookie for a time, or removes it when age is 0. A later cookie of the same name
// replaces an earlier one.
func setCookie(w http.ResponseWriter, at place, name, value string, age time.Duration) {
	c := &http.Cookie{ //nolint:gosec // not Secure on plain-http loopback, where browsers would not keep it
		Name: name, Value: value, Path: "/", HttpOnly: true, Secure: at.secure, SameSite: http.SameSiteLaxMode,
		MaxAge: int(age / time.Second),
	}
	if age <= 0 {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}
