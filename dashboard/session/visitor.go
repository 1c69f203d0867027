package session

import (
	"cmp"
	"context"
	"time"

	"github.com/purserpay/purser/pay"
)

// recentFor is the time after a sign-in in which a visitor may see secrets.
const recentFor = 5 * time.Minute

// Role says what a visitor may see and change.
type Role string

const (
	// Member is the role of an account: it has its organization.
	Member Role = ""
	// Operator is the role of a session that a link of `purser dashboard` began. It has all
	// organizations and the operator's own keys.
	Operator Role = "operator"
)

// Visitor is a person with a session.
type Visitor struct {
	Role Role
	// Account is the visitor's. An operator has none.
	Account pay.Account
	// Name is the name of the operator who asked for the link, "" if it is not known.
	Name string
	// AuthTime is the time when the visitor signed in at the provider (auth_time in OpenID Connect
	// Core §2), or with a link. It is zero when the provider does not say. It may be long before the
	// session began.
	AuthTime time.Time
	// Session identifies the visitor's session; it is not its token. Another browser of the same
	// account has another session.
	Session string

	standing standing
}

// Recent reports whether the visitor signed in at the provider, or with a link, in the last five
// minutes. A page that needs it redirects other visitors to [Again]. Times in the future count as not
// recent: the clock may have been put back.
func (v Visitor) Recent(now time.Time) bool {
	ago := now.Sub(v.AuthTime)
	return !v.AuthTime.IsZero() && ago < recentFor && ago > -skew
}

// Actor returns the visitor's name in the audit and the log. An operator's says that the change came
// from the dashboard and from no command.
func (v Visitor) Actor() pay.Actor {
	if v.Role != Operator {
		return pay.Actor{Kind: pay.ActorAccount, ID: v.Account.ID}
	}
	const where = "on the dashboard"
	return pay.Actor{Kind: pay.ActorOperator, ID: cmp.Or(pay.Operator(v.Name+" "+where).ID, where)}
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
