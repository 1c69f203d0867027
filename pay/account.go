package pay

import (
	"context"
	"time"
)

// Identity identifies a person at an identity provider. Issuer and Subject together name one person
// for ever. Name and Email are the provider's last values, and prove nothing.
type Identity struct {
	Issuer  string // the `iss` of OpenID Connect, byte for byte
	Subject string // the `sub`
	Name    string // up to 200 characters; "" if the provider does not say
	Email   string // up to 200 characters; "" if the provider does not say
}

// Account is a person who signs in to the dashboard. Each has one organization (docs/design/surfaces.md).
type Account struct {
	ID string // UUIDv7
	Identity
	OrganizationID string    // "": none of its own
	Created        time.Time // the first sign-in
	SignedIn       time.Time // the last one
	// Generation counts how often all sessions of the account were ended. A session that was
	// made in an earlier generation is void.
	Generation uint64 `json:",omitempty"`
}

// Enrollment holds the input of Enroll.
//
// An account without an OrganizationID has no organization of its own. Its key is then the first key
// of an organization that several accounts share, and is made only with that organization. A key
// without an organization is not made at all.
type Enrollment struct {
	// Account holds the person as the provider tells. A store uses ID, OrganizationID and Created
	// at the first sign-in only, and SignedIn at each.
	Account Account
	// Key becomes the first key of a new organization.
	Key NewKey
}

// Session is the server's record of a browser that has signed in.
type Session struct {
	// ID is the SHA-256 of the session's token, in hex. A reader of the store can therefore not use
	// the session.
	ID      string
	Data    []byte // kept encrypted; at most MaxSessionData
	Expires time.Time
}

// Bounds of sessions.
const (
	// MaxSessions bounds the sessions that a store keeps. Another one takes the place of the one
	// that would expire first. Sessions of visitors who have not signed in should be short.
	MaxSessions = 100_000
	// MaxSessionData bounds the data of a session, in bytes.
	MaxSessionData = 16 << 10
)

// Link holds the input of linking a key to an organization.
type Link struct {
	Secret         string
	OrganizationID string
	Plans          Plans // says how many keys the organization may have
}

// Apply returns the key as its new organization's. keys are the organization's keys; known
// reports whether it exists. ErrKeyNotFound, ErrKeyLinked, ErrKeyClaimed,
// ErrOrganizationNotFound, ErrKeyLimit, *InputError.
func (l Link) Apply(k Key, org Organization, known bool, keys []Key) (Key, error) {
	switch {
	case k.Revoked():
		return k, ErrKeyNotFound
	case k.Claimed() && k.OrganizationID == l.OrganizationID:
		return k, ErrKeyLinked
	case k.Claimed():
		return k, ErrKeyClaimed
	case !known:
		return k, ErrOrganizationNotFound
	case KeysUsed(keys) >= l.Plans.Of(org.Plan).Keys:
		return k, ErrKeyLimit
	case k.Parent != "" || k.HasChildren:
		return k, &InputError{Field: "key", Reason: "it has a parent or children, and these stay in one organization"}
	}
	k.OrganizationID = l.OrganizationID
	k.PolicyRevision++
	return k, nil
}

// AccountReader reads accounts, their sessions, and what their organizations have.
type AccountReader interface {
	// Account finds an account by id: ErrAccountNotFound.
	Account(ctx context.Context, id string) (Account, error)
	// Session finds a session, also an expired one that was not swept yet: ErrSessionNotFound.
	Session(ctx context.Context, id string) (Session, error)
	// OrganizationKeys lists an organization's keys, oldest first.
	OrganizationKeys(ctx context.Context, orgID string) ([]Key, error)
	// OrganizationWallets lists the live wallets of an organization's keys, oldest first.
	OrganizationWallets(ctx context.Context, orgID string) ([]Wallet, error)
	// Organizations lists organizations by id from behind the id after ("" is the beginning);
	// at most 1,000 at a time.
	Organizations(ctx context.Context, after string, limit int) ([]Organization, error)
}

// Accounts keeps accounts, their sessions, and what their organizations have. While free disk is
// short, its writes fail with ErrUnavailable, except those that take something away.
type Accounts interface {
	AccountReader

	// Enroll finds the account of an identity, by issuer and subject, and updates the provider's
	// claims. If there is none, it makes the account, an organization on the free plan and its
	// first key in one step. first is true for a new account. An account that has no organization
	// gets the enrollment's. It fails with ErrKeyExists.
	Enroll(ctx context.Context, e Enrollment) (a Account, first bool, err error)
	// EndSessions begins an account's next generation: ErrAccountNotFound.
	EndSessions(ctx context.Context, accountID string) (Account, error)

	// PutSession stores a session, or replaces it.
	PutSession(ctx context.Context, s Session) error
	// DeleteSession removes a session, if it is there.
	DeleteSession(ctx context.Context, id string) error
	// ExpireSessions removes sessions whose time is over, at most limit of them, and returns
	// how many.
	ExpireSessions(ctx context.Context, now time.Time, limit int) (int, error)

	// LinkKey claims an unclaimed key for an organization and raises its PolicyRevision by one.
	// Payments and reservations stay whose they are. ErrKeyNotFound, ErrKeyLinked, ErrKeyClaimed,
	// ErrKeyLimit, ErrOrganizationNotFound.
	LinkKey(ctx context.Context, l Link) (Key, error)
	// RevealKey decrypts the plaintext of a claimed key: ErrKeyNotFound, ErrNotRevealable.
	RevealKey(ctx context.Context, keyID string) (string, error)
	// SetPlan moves an organization to a plan. What it has beyond the plan's limits stays;
	// nothing is added to it. ErrOrganizationNotFound.
	SetPlan(ctx context.Context, orgID string, plan PlanName) (Organization, error)
}
