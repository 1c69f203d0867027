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
	// Lifetime is the time after which a session ends, used or not.
	Lifetime = 12 * time.Hour
	// tokenLength is the length of a session's token, and of randomText: 32 random bytes in base64.
	tokenLength = 43
	// sessionCookie keeps a session's token.
	sessionCookie = "purser"
	// out replaces the token in the cookie of a browser that has signed out. That browser goes to
	// the provider only after a click.
	out = "out"
)

// record holds the contents of a session, as the store keeps them.
type record struct {
	Deadline   time.Time `json:"deadline"`       // set by codec
	Role       Role      `json:"role,omitempty"` // Operator: a link began it
	Name       string    `json:"name,omitempty"` // of an operator
	Account    string    `json:"account"`
	Generation uint64    `json:"generation"` // of the account, when the session was made
	AuthTime   time.Time `json:"auth_time,omitzero"`
	// Secure reports that the session was made over https. A session is not valid on the other
	// scheme.
	Secure bool `json:"secure"`
	// Standing is judged at every request, so that a change of the lists of people takes effect.
	Standing standing `json:"standing,omitzero"`
	// Organization is the visitor's, "" for one who sees all. A session is over when the visitor belongs
	// to another one.
	Organization string `json:"organization,omitempty"`
	// Epoch is the epoch of operators in which the session began.
	Epoch string `json:"epoch,omitempty"`
}

// recordKey is the key of the record among a session's values.
const recordKey = "record"

// newManager returns the session manager. scs.New would start with a store in memory, and a
// goroutine that never ends.
func newManager(a Accounts) *scs.SessionManager {
	return &scs.SessionManager{Lifetime: Lifetime, Store: sessions{accounts: a}, Codec: codec{}}
}

// codec encodes a session as the JSON of its record.
type codec struct{}

// Encode implements scs.Codec.
func (codec) Encode(deadline time.Time, values map[string]any) ([]byte, error) {
	rec, _ := values[recordKey].(record) // admit puts it there
	rec.Deadline = deadline
	return json.Marshal(rec)
}

// Decode implements scs.Codec.
func (codec) Decode(data []byte) (time.Time, map[string]any, error) {
	var rec record
	err := json.Unmarshal(data, &rec)
	return rec.Deadline, map[string]any{recordKey: rec}, err
}

// sessions adapts pay's sessions to scs.CtxStore.
type sessions struct {
	scs.Store // nil: the manager calls only the methods with a context
	accounts  Accounts
}

var _ scs.CtxStore = sessions{}

// FindCtx implements scs.CtxStore.
func (s sessions) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	kept, err := s.accounts.Session(ctx, idOf(token))
	if errors.Is(err, pay.ErrSessionNotFound) {
		return nil, false, nil
	}
	return kept.Data, err == nil, err
}

// CommitCtx implements scs.CtxStore.
func (s sessions) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	return s.accounts.PutSession(ctx, pay.Session{ID: idOf(token), Data: data, Expires: expiry})
}

// DeleteCtx implements scs.CtxStore.
func (s sessions) DeleteCtx(ctx context.Context, token string) error {
	return s.accounts.DeleteSession(ctx, idOf(token))
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
	if v, ok, err = g.session(r, at); !ok || g.admits(v) {
		return v, ok, err
	}
	return Visitor{}, false, nil
}

// admits reports whether the lists of people allow the visitor. No provider vouches for those who came
// with a link.
func (g *Gate) admits(v Visitor) bool { return v.linked() || g.people.admits(v.standing) }

// session returns the visitor of the request's session, even if the list no longer allows the
// visitor.
func (g *Gate) session(r *http.Request, at place) (v Visitor, ok bool, err error) {
	token, err := g.token(r, at)
	if token == "" {
		return Visitor{}, false, err
	}
	ctx, err := g.manager.Load(r.Context(), token)
	if err != nil {
		return Visitor{}, false, fmt.Errorf("reading a session: %w", err)
	}
	rec, ok := g.manager.Get(ctx, recordKey).(record)
	if !ok || rec.Secure != at.secure || !g.now().Before(rec.Deadline) {
		return Visitor{}, false, nil
	}
	v = Visitor{
		Role: rec.Role, Name: rec.Name, AuthTime: rec.AuthTime, Session: idOf(token), Expires: rec.Deadline, standing: rec.Standing, Epoch: rec.Epoch,
	}
	switch {
	case rec.Role == "" && g.provider != nil:
		a, err := g.opts.Accounts.Account(r.Context(), rec.Account)
		switch {
		case errors.Is(err, pay.ErrAccountNotFound):
			return Visitor{}, false, nil
		case err != nil:
			return Visitor{}, false, fmt.Errorf("reading an account: %w", err)
		case a.Generation != rec.Generation:
			return Visitor{}, false, nil
		}
		v.Account = a
		// The lists may have changed. The present lists count, but no session goes from one organization to
		// another: sign-in makes what is not there yet.
		v.as(g.people.of(a.Issuer, rec.Standing))
		if has := v.Account.OrganizationID; (has != rec.Organization || has == "" && !v.All) && g.admits(v) {
			return Visitor{}, false, nil
		}
	case v.linked() && rec.Account == "":
		v.All = true
	default: // a later version's, or no provider vouches for it any more
		return Visitor{}, false, nil
	}
	if ok, err := g.opts.current(r.Context(), v); !ok {
		return Visitor{}, false, err
	}
	return v, true, nil
}

// current reports whether the session of an operator, or of another visitor who sees all, is of the
// present epoch. Other sessions have no epoch.
func (o Options) current(ctx context.Context, v Visitor) (bool, error) {
	if !v.All {
		return true, nil
	}
	epoch, err := o.Accounts.OperatorEpoch(ctx)
	return err == nil && epoch == v.Epoch, err
}

// admit ends the browser's session, and makes a new one with a fresh token.
func (g *Gate) admit(w http.ResponseWriter, r *http.Request, at place, v Visitor) error {
	if err := g.dismiss(w, r, at); err != nil {
		return err
	}
	ctx, _ := g.manager.Load(r.Context(), "") // without a token, it reads nothing and cannot fail
	rec := record{
		Name: v.Name, Account: v.Account.ID, Generation: v.Account.Generation, AuthTime: v.AuthTime.UTC(), Secure: at.secure,
		Standing: v.standing, Organization: v.Account.OrganizationID, Epoch: v.Epoch,
	}
	if v.linked() {
		rec.Role = Operator
	}
	g.manager.Put(ctx, recordKey, rec)
	g.manager.SetDeadline(ctx, g.now().Add(Lifetime).UTC())
	token, _, err := g.manager.Commit(ctx)
	if err != nil {
		return fmt.Errorf("keeping a session: %w", err)
	}
	setCookie(w, at, at.cookie(sessionCookie), token, Lifetime)
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
		ctx, err := g.manager.Load(r.Context(), token)
		if err == nil {
			err = g.manager.Destroy(ctx)
		}
		if err != nil {
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
