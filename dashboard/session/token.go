package session

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/purserpay/purser/pay"
)

// skew is the tolerated error of the provider's clock.
const skew = time.Minute

// maxName bounds names and addresses on pages, in characters.
const maxName = 200

var (
	// errToken reports an ID token that does not prove who signed in here and now.
	errToken = errors.New("the ID token cannot be used")
	// errNotAgain reports a provider that did not ask the visitor to sign in again, or does not say
	// so.
	errNotAgain = errors.New("the provider did not ask again")
)

// claims holds the claims of an ID token, or of userinfo, that go-oidc leaves to its caller.
type claims struct {
	Party     *string  `json:"azp"`
	NotBefore *float64 `json:"nbf"`
	AuthTime  *float64 `json:"auth_time"`

	// These claims are shown on pages. They may have any type, because they prove nothing.
	Name      any `json:"name"`
	Preferred any `json:"preferred_username"`
	Email     any `json:"email"`
	Verified  any `json:"email_verified"`

	// The lists of people judge Groups, Email and Verified.
	Groups any `json:"groups"`
}

// proof holds what an ID token proves.
type proof struct {
	who      pay.Identity
	claims   claims
	standing standing
	authTime time.Time // zero when the provider does not say
}

// redeem exchanges a code for a proof of who signed in.
func (g *Gate) redeem(ctx context.Context, d *discovered, at place, a attempt, code string) (proof, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, g.provider.client), 2*providerTime)
	defer cancel()
	tokens, err := g.config(d, at).Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return proof{}, exchangeError(err)
	}
	raw, ok := tokens.Extra("id_token").(string)
	if !ok || raw == "" {
		return proof{}, fmt.Errorf("%w: there is no ID token in the answer", errMisbehaves)
	}
	id, err := d.verify(ctx, raw)
	if err != nil {
		return proof{}, err
	}
	p, err := g.check(id, a, tokens.AccessToken)
	if err != nil {
		return proof{}, err
	}
	nameless := p.who.Name == "" && p.who.Email == ""
	decides := g.people.lacks(p.claims) && !g.people.settled(p.standing)
	if !nameless && !decides || d.metadata.UserInfo == "" {
		return p, nil
	}
	said, err := g.userinfo(ctx, d, tokens, p.who.Subject)
	if err != nil && decides {
		return proof{}, err
	}
	if nameless {
		p.who.Name, p.who.Email = said.name(), said.email()
	}
	if decides {
		p.claims = p.claims.with(said)
		p.standing = g.people.standing(p.claims)
	}
	return p, nil
}

// exchangeError tells a provider that refuses a code from one that is down.
func exchangeError(err error) error {
	refused, answered := errors.AsType[*oauth2.RetrieveError](err)
	_, unanswered := errors.AsType[*url.Error](err)
	kind := errMisbehaves
	switch {
	case answered && refused.Response.StatusCode < 500:
		kind = errToken
	case answered, unanswered, errors.Is(err, context.DeadlineExceeded):
		kind = errUnreachable
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// check makes the checks of OpenID Connect Core §3.1.3.7 that follow signature, issuer, audience
// and expiry.
func (g *Gate) check(id *oidc.IDToken, a attempt, accessToken string) (proof, error) {
	now := g.now()
	var c claims
	if err := id.Claims(&c); err != nil {
		return proof{}, fmt.Errorf("%w: %w", errToken, err)
	}
	wrong := func(what string) (proof, error) { return proof{}, fmt.Errorf("%w: %s", errToken, what) }
	switch {
	case id.Subject == "":
		return wrong("it names nobody (sub)")
	case subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.Nonce)) != 1:
		return wrong("it was not made for this sign-in (nonce)")
	case c.Party != nil && *c.Party != g.opts.ClientID:
		return wrong("it was made for another client (azp)")
	case c.Party == nil && len(id.Audience) != 1:
		return wrong("it is for several clients and does not say which of them asked (azp)")
	case id.IssuedAt.IsZero() || id.IssuedAt.After(now.Add(skew)):
		return wrong("it was issued in the future (iat)")
	case c.NotBefore != nil && when(*c.NotBefore).After(now.Add(skew)):
		return wrong("it is not valid yet (nbf)")
	}
	if id.AccessTokenHash != "" {
		if err := id.VerifyAccessToken(accessToken); err != nil {
			return wrong("it came with another access token (at_hash)")
		}
	}
	p := proof{
		who:    pay.Identity{Issuer: g.opts.Issuer, Subject: id.Subject, Name: c.name(), Email: c.email()},
		claims: c, standing: g.people.standing(c),
	}
	if c.AuthTime != nil {
		p.authTime = when(*c.AuthTime)
		if p.authTime.After(now.Add(skew)) {
			return wrong("somebody signed in in the future (auth_time)")
		}
		if p.authTime.After(now) {
			p.authTime = now
		}
	}
	// With max_age, a provider must say when it asked (OpenID Connect Core §3.1.2.1).
	if a.Again && p.authTime.Before(a.Started.Add(-skew)) {
		return proof{}, errNotAgain
	}
	return p, nil
}

func when(seconds float64) time.Time {
	const last = 253402300799 // the year 9999
	return time.Unix(int64(min(max(seconds, 0), last)), 0).UTC()
}

// userinfo asks the provider for claims that its ID tokens leave out. Callers may ignore the error
// when they only need a name.
func (g *Gate) userinfo(ctx context.Context, d *discovered, tokens *oauth2.Token, subject string) (c claims, err error) {
	info, err := d.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	switch {
	case err != nil:
		g.log.Info("the identity provider does not say who signed in", "error", loggable(err))
		return claims{}, fmt.Errorf("%w: userinfo: %w", errUnreachable, err)
	case info.Subject != subject: // must not be used (OpenID Connect Core §5.3.2)
		g.log.Warn("the identity provider told of somebody else")
		return claims{}, fmt.Errorf("%w: userinfo is of another subject", errMisbehaves)
	}
	if err := info.Claims(&c); err != nil {
		return claims{}, fmt.Errorf("%w: userinfo: %w", errMisbehaves, err)
	}
	return c, nil
}

func (c claims) name() string { return cmp.Or(presentable(c.Name), presentable(c.Preferred)) }

// email returns the address, unless the provider calls it unverified.
func (c claims) email() string {
	if slices.Contains([]any{false, "false"}, c.Verified) {
		return ""
	}
	return presentable(c.Email)
}

// presentable returns a claim as one line of text.
func presentable(v any) string {
	text, _ := v.(string)
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "")))
	if runes := []rune(text); len(runes) > maxName {
		text = string(runes[:maxName])
	}
	return text
}
