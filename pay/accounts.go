package pay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Bounds of what an identity provider may say. OpenID Connect allows a subject 255
// characters; some providers go beyond that.
const (
	maxIssuer  = 2048
	maxSubject = 1024
	maxPerson  = 200 // characters of a name or an address
)

// firstKeyLabel names the key that comes with a new organization.
const firstKeyLabel = "First key"

// SignIn finds or makes the account of somebody whom an identity provider vouches for. The
// first time it makes an organization on the free plan with a key too, and first is true.
// *InputError, ErrUnavailable.
func (p *Payer) SignIn(ctx context.Context, who Identity) (a Account, first bool, err error) {
	if who.Issuer == "" || len(who.Issuer) > maxIssuer || !utf8.ValidString(who.Issuer) {
		return Account{}, false, &InputError{Field: "iss", Reason: "1 to 2048 bytes of UTF-8"}
	}
	if who.Subject == "" || len(who.Subject) > maxSubject || !utf8.ValidString(who.Subject) {
		return Account{}, false, &InputError{Field: "sub", Reason: "1 to 1024 bytes of UTF-8"}
	}
	who.Name, who.Email = person(who.Name), person(who.Email)
	var ids [3]string
	for i := range ids {
		id, err := uuid.NewV7()
		if err != nil {
			return Account{}, false, fmt.Errorf("naming an account: %w", err)
		}
		ids[i] = id.String()
	}
	now := p.now().UTC()
	org := "org_" + ids[1]
	a, first, err = p.store.Enroll(WithActorIfNone(ctx, Actor{ActorAccount, ids[0]}), Enrollment{
		Account: Account{ID: ids[0], Identity: who, OrganizationID: org, Created: now, SignedIn: now},
		Key: NewKey{
			Key:    Key{ID: ids[2], Label: firstKeyLabel, OrganizationID: org, Created: now},
			Secret: generateSecret(), Plans: p.opts.Plans,
		},
	})
	if err != nil {
		return Account{}, false, fmt.Errorf("signing in: %w", err)
	}
	p.log.Info("signed in", "account", a.ID, "organization", a.OrganizationID, "first", first)
	return a, first, nil
}

// person is what a provider says of somebody, as one short line.
func person(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.TrimSpace(s)
	if runes := []rune(s); len(runes) > maxPerson {
		s = strings.TrimSpace(string(runes[:maxPerson]))
	}
	return s
}

// Account finds an account: ErrAccountNotFound.
func (p *Payer) Account(ctx context.Context, id string) (Account, error) {
	return p.store.Account(ctx, id)
}

// EndSessions makes every session of an account void: ErrAccountNotFound.
func (p *Payer) EndSessions(ctx context.Context, accountID string) (Account, error) {
	a, err := p.store.EndSessions(ctx, accountID)
	if err == nil {
		p.log.Info("all sessions ended", "account", a.ID, "generation", a.Generation)
	}
	return a, err
}

// PutSession stores a session, or replaces it. Its id must be the SHA-256 of its token in
// hex, and not the token. *InputError, ErrUnavailable.
func (p *Payer) PutSession(ctx context.Context, s Session) error {
	if id, err := hex.DecodeString(s.ID); err != nil || len(id) != 32 {
		return &InputError{Field: "session", Reason: "the SHA-256 of its token, in hex"}
	}
	if len(s.Data) > MaxSessionData {
		return &InputError{Field: "session", Reason: fmt.Sprintf("at most %d bytes", MaxSessionData)}
	}
	return p.store.PutSession(ctx, s)
}

// Session finds a session whose time is not over: ErrSessionNotFound.
func (p *Payer) Session(ctx context.Context, id string) (Session, error) {
	s, err := p.store.Session(ctx, id)
	if err == nil && !p.now().Before(s.Expires) {
		return Session{}, ErrSessionNotFound
	}
	return s, err
}

// DeleteSession ends a session, if it is there.
func (p *Payer) DeleteSession(ctx context.Context, id string) error {
	return p.store.DeleteSession(ctx, id)
}

const (
	// sweepEvery is the pause between two looks for sessions whose time is over.
	sweepEvery = time.Minute
	// sweepBatch is how many of them are removed at once.
	sweepBatch = 1000
)

// sweepSessions removes sessions whose time is over. Finding none writes nothing.
func (p *Payer) sweepSessions(ctx context.Context) error {
	if err := p.enter(); err != nil {
		return nil //nolint:nilerr // closing: nothing to do any more
	}
	defer p.background.Done()
	for {
		n, err := p.store.ExpireSessions(ctx, p.now().UTC(), sweepBatch)
		if err != nil && !errors.Is(err, ErrUnavailable) {
			return fmt.Errorf("removing sessions that are over: %w", err)
		}
		if err != nil || n < sweepBatch {
			return nil //nolint:nilerr // recovery tells of a store that cannot write
		}
	}
}
