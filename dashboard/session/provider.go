package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/purserpay/purser/pay"
)

const (
	// freshFor is the lifetime of a discovery document and its keys. A key that the provider has
	// withdrawn is trusted no longer.
	freshFor = time.Hour
	// staleFor bounds the use of an old document while no new one can be had.
	staleFor = 24 * time.Hour
	// pause is the time without calls after the provider failed.
	pause = 5 * time.Second
)

var (
	// errUnreachable reports that the provider does not answer in time.
	errUnreachable = errors.New("the identity provider does not answer")
	// errMisbehaves reports an answer that violates OpenID Connect.
	errMisbehaves = errors.New("the identity provider's answer cannot be used")
)

// provider is the identity provider. Its discovery document is read when it is first needed.
type provider struct {
	issuer string
	id     string // purser's client id
	client *http.Client
	now    pay.Clock
	log    *slog.Logger

	asking sync.Mutex // held during a call to the provider

	mu       sync.Mutex
	known    *discovered
	failed   error
	failedAt time.Time
}

// discovered holds a discovery document.
type discovered struct {
	*oidc.Provider
	verifier *oidc.IDTokenVerifier
	metadata metadata
	at       time.Time
}

// metadata holds parts of a discovery document (OpenID Connect Discovery §3, RFC 9207 §3).
type metadata struct {
	Auth        string   `json:"authorization_endpoint"`
	Token       string   `json:"token_endpoint"`
	Keys        string   `json:"jwks_uri"`
	UserInfo    string   `json:"userinfo_endpoint"`
	AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
	Scopes      []string `json:"scopes_supported"`
	// SaysIssuer reports that answers to authorization requests name the issuer.
	SaysIssuer bool `json:"authorization_response_iss_parameter_supported"`
}

// checkIssuer checks the configured issuer.
func checkIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return errors.New("PURSER_OIDC_ISSUER: not an issuer such as https://accounts.example.com")
	}
	if checkSecure(issuer) != nil {
		return errors.New("PURSER_OIDC_ISSUER: plain http is for a provider on loopback only: anybody on the way could sign in as anybody")
	}
	return nil
}

// get returns the provider. The error is errUnreachable, errMisbehaves, or the context's.
func (p *provider) get(ctx context.Context) (*discovered, error) {
	known, err := p.cached()
	if known != nil && p.now().Sub(known.at) < freshFor || err != nil {
		return known, err
	}
	if known == nil {
		p.asking.Lock()
	} else if !p.asking.TryLock() { // another request is asking
		return known, nil
	}
	defer p.asking.Unlock()
	if known, err = p.cached(); known != nil && p.now().Sub(known.at) < freshFor || err != nil {
		return known, err
	}
	fresh, err := p.discover(ctx)
	if ctx.Err() != nil && err != nil {
		return nil, ctx.Err() // it says nothing about the provider
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.known, p.failed = fresh, nil
		return fresh, nil
	}
	p.log.Warn("identity provider not found", "issuer", p.issuer, "error", loggable(err))
	p.failed, p.failedAt = err, p.now()
	if errors.Is(err, errMisbehaves) {
		p.known = nil // an earlier document cannot be trusted either
	}
	return p.usable()
}

// cached returns the known document, perhaps an old one, or the error of a recent failure. Both are
// nil when nothing is known.
func (p *provider) cached() (*discovered, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil && p.now().Sub(p.failedAt) < pause {
		return p.usable()
	}
	return p.known, nil
}

// usable returns the document of a provider that failed recently. Its caller must hold p.mu.
func (p *provider) usable() (*discovered, error) {
	if p.known != nil && p.now().Sub(p.known.at) < staleFor {
		old := *p.known
		old.at = p.now() // no call before the pause is over
		return &old, nil
	}
	return nil, p.failed
}

// discover reads the provider's discovery document.
func (p *provider) discover(ctx context.Context) (*discovered, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), providerTime)
	defer cancel()
	found, err := oidc.NewProvider(ctx, p.issuer)
	if _, mismatch := errors.AsType[*oidc.IssuerMismatchError](err); mismatch {
		return nil, fmt.Errorf("%w: %w", errMisbehaves, err)
	}
	if err != nil { // a starting provider may send an error status or garbage, too
		return nil, fmt.Errorf("%w: discovery: %w", errUnreachable, err)
	}
	d := &discovered{Provider: found, at: p.now()}
	if err := found.Claims(&d.metadata); err != nil {
		return nil, fmt.Errorf("%w: discovery: %w", errMisbehaves, err)
	}
	for name, address := range map[string]string{
		"authorization_endpoint": d.metadata.Auth, "token_endpoint": d.metadata.Token, "jwks_uri": d.metadata.Keys,
	} {
		if err := checkSecure(address); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errMisbehaves, name, err)
		}
	}
	if checkSecure(d.metadata.UserInfo) != nil {
		d.metadata.UserInfo = ""
	}
	// The context outlives the request. go-oidc takes only algorithms whose signing key the provider alone has.
	d.verifier = found.VerifierContext(oidc.ClientContext(context.Background(), p.client), &oidc.Config{
		ClientID: p.id, Now: func() time.Time { return p.now().Add(-skew) },
	})
	return d, nil
}

// verify checks an ID token's signature, issuer, audience and expiry.
func (d *discovered) verify(ctx context.Context, raw string) (*oidc.IDToken, error) {
	id, err := d.verifier.Verify(ctx, raw)
	if err == nil {
		return id, nil
	}
	kind := errToken
	if strings.HasPrefix(err.Error(), "failed to verify signature: fetching keys") { // go-oidc has no type for it
		kind = errUnreachable
	}
	return nil, fmt.Errorf("%w: %w", kind, err)
}

// origins returns the origins that forms may lead to: the known pages of the provider.
func (p *provider) origins() []string {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []string{originOf(p.issuer)}
	if p.known != nil {
		all = append(all, originOf(p.known.metadata.Auth))
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(o string) bool { return o == "" })
}

// config returns purser's settings as a client of the provider.
func (g *Gate) config(d *discovered, at place) *oauth2.Config {
	endpoint := d.Endpoint()
	// The style is not found by trial, because a code is spent when it is presented in the wrong
	// way.
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if methods := d.metadata.AuthMethods; g.opts.ClientSecret == "" ||
		len(methods) > 0 && !slices.Contains(methods, "client_secret_basic") && slices.Contains(methods, "client_secret_post") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	scopes := []string{oidc.ScopeOpenID}
	if g.people.lacks(claims{Email: "", Verified: false}) && slices.Contains(d.metadata.Scopes, "groups") {
		scopes = append(scopes, "groups")
	}
	for _, s := range []string{oidc.ScopeProfile, oidc.ScopeEmail} {
		if len(d.metadata.Scopes) == 0 || slices.Contains(d.metadata.Scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return &oauth2.Config{
		ClientID: g.opts.ClientID, ClientSecret: g.opts.ClientSecret, Endpoint: endpoint,
		RedirectURL: at.origin + Callback, Scopes: scopes,
	}
}

// maxShown bounds the logged part of the provider's answer, in bytes.
const maxShown = 300

// loggable returns an error's text for the log. Errors of the token endpoint repeat its answer,
// which may contain tokens.
func loggable(err error) string {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fmt.Sprintf("the token endpoint answered %s %.64q", refused.Response.Status, refused.ErrorCode)
	}
	text := err.Error()
	if len(text) > maxShown {
		text = text[:maxShown] + "…"
	}
	return text
}
