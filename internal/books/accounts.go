package books

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/purserpay/purser/pay"
)

// Bounds of an identity provider's claims. OpenID Connect allows a subject 255 characters; some
// providers exceed that.
const (
	maxIssuer  = 2048
	maxSubject = 1024
	maxClaim   = 200 // characters of a name or an address
)

// firstKeyLabel labels the key that a new organization starts with.
const firstKeyLabel = "First key"

// SignIn finds the account of an identity, or makes it with an organization on the free plan and
// one key: first. *InputError, ErrUnavailable.
func (b *Books) SignIn(ctx context.Context, who pay.Identity) (a pay.Account, first bool, err error) {
	return b.enroll(ctx, who, "", true)
}

// SignInShared finds the account of an identity, or makes it without an organization of its own. If
// orgID is not "" and there is no such organization, SignInShared makes it, on the free plan and with
// one key. An account that has an organization keeps it. *InputError, ErrUnavailable.
func (b *Books) SignInShared(ctx context.Context, who pay.Identity, orgID string) (a pay.Account, first bool, err error) {
	return b.enroll(ctx, who, orgID, false)
}

func (b *Books) enroll(ctx context.Context, who pay.Identity, shared string, own bool) (a pay.Account, first bool, err error) {
	if who.Issuer == "" || len(who.Issuer) > maxIssuer || !utf8.ValidString(who.Issuer) {
		return pay.Account{}, false, &pay.InputError{Field: "iss", Reason: "1 to 2048 bytes of UTF-8"}
	}
	if who.Subject == "" || len(who.Subject) > maxSubject || !utf8.ValidString(who.Subject) {
		return pay.Account{}, false, &pay.InputError{Field: "sub", Reason: "1 to 1024 bytes of UTF-8"}
	}
	who.Name, who.Email = claim(who.Name), claim(who.Email)
	var ids [3]string
	for i := range ids {
		id, err := uuid.NewV7()
		if err != nil {
			return pay.Account{}, false, fmt.Errorf("naming an account: %w", err)
		}
		ids[i] = id.String()
	}
	now := b.now().UTC()
	org, keys := "", shared
	if own {
		org = "org_" + ids[1]
		keys = org
	}
	a, first, err = b.store.Enroll(pay.WithActorIfNone(ctx, pay.Actor{Kind: pay.ActorAccount, ID: ids[0]}), pay.Enrollment{
		Account: pay.Account{ID: ids[0], Identity: who, OrganizationID: org, Created: now, SignedIn: now},
		Key: pay.NewKey{
			Key:    pay.Key{ID: ids[2], Label: firstKeyLabel, OrganizationID: keys, Created: now},
			Secret: generateSecret(), Plans: b.plans,
		},
	})
	if err != nil {
		return pay.Account{}, false, fmt.Errorf("signing in: %w", err)
	}
	b.log.Info("signed in", "account", a.ID, "organization", a.OrganizationID, "first", first)
	return a, first, nil
}

// claim turns a provider's claim, such as a name, into one line of at most maxClaim characters.
func claim(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.TrimSpace(s)
	if runes := []rune(s); len(runes) > maxClaim {
		s = strings.TrimSpace(string(runes[:maxClaim]))
	}
	return s
}

// EndSessions makes every session of an account void: ErrAccountNotFound.
func (b *Books) EndSessions(ctx context.Context, accountID string) (pay.Account, error) {
	a, err := b.store.EndSessions(ctx, accountID)
	if err == nil {
		b.log.Info("all sessions ended", "account", a.ID, "generation", a.Generation)
	}
	return a, err
}
