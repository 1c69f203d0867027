package session

import (
	"context"
	"time"

	"github.com/purserpay/purser/pay"
)

// recentFor is how long after typing a password somebody may see secrets without typing it again (DESIGN §5).
const recentFor = 5 * time.Minute

// Visitor is somebody who is signed in.
type Visitor struct {
	Account pay.Account
	// AuthTime is when they proved who they are to the provider (auth_time in OpenID Connect Core §2); zero if the
	// provider did not say. It can be long before they came here.
	AuthTime time.Time
	// Session names the visitor's session, and is not its token. Another browser of the same account has another one.
	Session string

	standing standing
}

// Recent reports whether the visitor has proven who they are in the last five minutes. A page that needs it redirects
// others to [Again]. After a clock was put back, what it said before is no proof of anything.
func (v Visitor) Recent(now time.Time) bool {
	ago := now.Sub(v.AuthTime)
	return !v.AuthTime.IsZero() && ago < recentFor && ago > -skew
}

type visitorKey struct{}

// From is the visitor of a request that came through a Gate. Below /dashboard/ there always is one, except for assets.
func From(ctx context.Context) (Visitor, bool) {
	v, ok := ctx.Value(visitorKey{}).(Visitor)
	return v, ok
}

func with(ctx context.Context, v Visitor) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}
