package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/alexedwards/scs/v2"

	"github.com/purserpay/purser/pay"
)

const (
	// lifetime is the time after which a session ends, used or not.
	lifetime = 12 * time.Hour
	// tokenLength is the length of the manager's tokens: 32 random bytes in base64.
	tokenLength = 43
)

// Names of the session's cookie. A browser accepts __Host- only over https, and sends it only to
// the same host.
const (
	secureCookie = "__Host-purser"
	plainCookie  = "purser"
)

// out replaces the token in the cookie of a browser that has signed out. Such a browser goes to the
// provider only after a click.
const out = "out"

func cookieName(secure bool) string {
	if secure {
		return secureCookie
	}
	return plainCookie
}

// record holds the contents of a session.
type record struct {
	Account    string    `json:"account"`
	Generation uint64    `json:"generation"` // of the account, when the session was made
	AuthTime   time.Time `json:"auth_time,omitzero"`
	// Secure reports that the session was made over https. A session is not valid on the other
	// scheme.
	Secure bool `json:"secure"`
	// Standing is judged at every request, so that a change of PURSER_OIDC_ALLOW takes effect.
	Standing standing `json:"standing,omitzero"`
}

// recordKey is the key of the record among a session's values.
const recordKey = "record"

// newManager returns the session manager. scs.New would start with a store in memory, and a
// goroutine that never ends.
func newManager(s Accounts, now pay.Clock) *scs.SessionManager {
	return &scs.SessionManager{Lifetime: lifetime, Store: &sessions{s, now}, Codec: codec{}}
}

// codec encodes a session as JSON.
type codec struct{}

type encoded struct {
	Deadline time.Time `json:"deadline"`
	record
}

// Encode implements scs.Codec.
func (codec) Encode(deadline time.Time, values map[string]any) ([]byte, error) {
	rec, ok := values[recordKey].(record)
	if !ok {
		return nil, errors.New("session: nothing to keep")
	}
	return json.Marshal(encoded{deadline, rec})
}

// Decode implements scs.Codec.
func (codec) Decode(data []byte) (time.Time, map[string]any, error) {
	var e encoded
	if err := json.Unmarshal(data, &e); err != nil {
		return time.Time{}, nil, fmt.Errorf("session: %w", err)
	}
	return e.Deadline, map[string]any{recordKey: e.record}, nil
}

// sessions adapts pay's sessions to scs. The store never sees a token.
type sessions struct {
	store Accounts
	now   pay.Clock
}

func idOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// FindCtx implements scs.CtxStore.
func (s *sessions) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	found, err := s.store.Session(ctx, idOf(token))
	switch {
	case errors.Is(err, pay.ErrSessionNotFound):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	return found.Data, s.now().Before(found.Expires), nil
}

// CommitCtx implements scs.CtxStore.
func (s *sessions) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	return s.store.PutSession(ctx, pay.Session{ID: idOf(token), Data: data, Expires: expiry})
}

// DeleteCtx implements scs.CtxStore.
func (s *sessions) DeleteCtx(ctx context.Context, token string) error {
	return s.store.DeleteSession(ctx, idOf(token))
}

// Find implements scs.Store, for callers without a context. The manager always has one.
func (s *sessions) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

// Commit implements scs.Store.
func (s *sessions) Commit(token string, data []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), token, data, expiry)
}

// Delete implements scs.Store.
func (s *sessions) Delete(token string) error {
	return s.DeleteCtx(context.Background(), token)
}

var _ scs.CtxStore = (*sessions)(nil)

// errSeveral reports a browser that sends more than one session. On plain http all ports of a host
// share cookies. Another program there could set its own session cookie for some paths, and receive
// what the visitor posts to them.
var errSeveral = errors.New("more than one session cookie")

// token returns the token of the request's session cookie, or "" without a valid one.
func token(r *http.Request, at place) (string, error) {
	sent := r.CookiesNamed(cookieName(at.secure))
	switch {
	case len(sent) > 1:
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
	presented, err := token(r, at)
	if presented == "" {
		return Visitor{}, false, err
	}
	ctx, err := g.manager.Load(r.Context(), presented)
	if err != nil {
		return Visitor{}, false, fmt.Errorf("reading a session: %w", err)
	}
	rec, ok := g.manager.Get(ctx, recordKey).(record)
	if !ok || rec.Secure != at.secure || !g.now().Before(g.manager.Deadline(ctx)) {
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
	return Visitor{Account: a, AuthTime: rec.AuthTime, Session: idOf(presented), standing: rec.Standing}, true, nil
}

// admit ends the browser's session, and makes a new one with a fresh token.
func (g *Gate) admit(w http.ResponseWriter, r *http.Request, at place, v Visitor) error {
	if err := g.dismiss(w, r, at); err != nil {
		return err
	}
	ctx, err := g.manager.Load(r.Context(), "")
	if err != nil {
		return fmt.Errorf("making a session: %w", err)
	}
	g.manager.Put(ctx, recordKey, record{v.Account.ID, v.Account.Generation, v.AuthTime, at.secure, v.standing})
	g.manager.SetDeadline(ctx, g.now().Add(lifetime))
	fresh, _, err := g.manager.Commit(ctx)
	if err != nil {
		return fmt.Errorf("keeping a session: %w", err)
	}
	setCookie(w, at, cookieName(at.secure), fresh, lifetime)
	return nil
}

// dismiss ends the session of a request, if it has one.
func (g *Gate) dismiss(w http.ResponseWriter, r *http.Request, at place) error {
	name := cookieName(at.secure)
	if _, err := r.Cookie(name); err != nil {
		return nil
	}
	presented, err := token(r, at)
	if err != nil {
		return err
	}
	if presented != "" {
		if err := g.opts.Accounts.DeleteSession(r.Context(), idOf(presented)); err != nil {
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
