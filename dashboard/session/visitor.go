package session

import (
	"context"
	"time"

	"github.com/purserpay/purser/pay"
)

// recentFor is the time after a sign-in in which a visitor may see secrets.
const recentFor = 5 * time.Minute

// Visitor is an account with a session.
type Visitor struct {
	Account pay.Account
	// AuthTime is the time when the visitor signed in at the provider (auth_time in OpenID Connect
	// Core §2). It is zero when the provider does not say. It may be long before the session began.
	AuthTime time.Time
	// Session identifies the visitor's session; it is not its token. Another browser of the same
	// account has another session.
	Session string

	standing standing
}

// Recent reports whether the visitor signed in at the provider in the last five minutes. A page
// that needs it redirects other visitors to [Again]. Times in the future count as not recent: the
// clock may have been put back.
func (v Visitor) Recent(now time.Time) bool {
	ago := now.Sub(v.AuthTime)
	return !v.AuthTime.IsZero() && ago < recentFor && ago > -skew
}

type visitorKey struct{}

// From returns the visitor of a request that came through a Gate. Every request below /dashboard/
// has one, except those for assets.
func From(ctx context.Context) (Visitor, bool) {
	v, ok := ctx.Value(visitorKey{}).(Visitor)
	return v, ok
}

// WithVisitor returns a context for [From].
func WithVisitor(ctx context.Context, v Visitor) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}
