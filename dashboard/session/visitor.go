package session

import (
	"cmp"
	"context"
	"time"

	"github.com/purserpay/purser/pay"
)

// freshTime is the time after a sign-in in which a visitor may raise limits, approve, move money and
// see secrets.
const freshTime = 15 * time.Minute

// Visitor is a person with a session.
type Visitor struct {
	Role Role
	// All reports that the visitor sees all organizations and the operator's own keys. Other visitors
	// see the organization of their account.
	All bool
	// Account is the visitor's. A session that a link began has none.
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

	// Expires is the end of the session.
	Expires time.Time
	// Epoch is the epoch of operators in which the session began.
	Epoch string
	// Shares is the domain or the group whose people share the visitor's organization.
	Shares string

	standing standing
}

// as gives the visitor what the lists of people say.
func (v *Visitor) as(m membership) {
	v.Role, v.All, v.Shares = m.role, m.all, m.name
	if m.all || m.shared != "" {
		v.Account.OrganizationID = m.shared
	}
}

// Fresh reports whether the visitor signed in at the provider, or with a link, in the last fifteen
// minutes. A page that needs it redirects other visitors to [Again]. Times in the future do not count:
// the clock may have been put back.
func (v Visitor) Fresh(now time.Time) bool {
	ago := now.Sub(v.AuthTime)
	return !v.AuthTime.IsZero() && ago < freshTime && ago > -skew
}

// linked reports whether a link of `purser dashboard` began the session.
func (v Visitor) linked() bool { return v.Role == Operator && v.Account.ID == "" }

// Actor returns the visitor's name in the audit and the log. An operator's says that the change came
// from the dashboard and from no command.
func (v Visitor) Actor() pay.Actor {
	if v.Role != Operator {
		return pay.Actor{Kind: pay.ActorAccount, ID: v.Account.ID}
	}
	const where = "on the dashboard"
	name := cmp.Or(v.Name, v.standing.Email, v.Account.ID)
	return pay.Actor{Kind: pay.ActorOperator, ID: cmp.Or(pay.Operator(name+" "+where).ID, where)}
}

type visitorKey struct{}

// From returns the visitor of a request that came through a Gate. Every request below /dashboard/
// has one, except those for assets and for links of approvals.
func From(ctx context.Context) (Visitor, bool) {
	v, ok := ctx.Value(visitorKey{}).(Visitor)
	return v, ok
}

// WithVisitor returns a context for [From].
func WithVisitor(ctx context.Context, v Visitor) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}
