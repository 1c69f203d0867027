package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/purserpay/purser/pay"
)

const (
	// freshFor is how long a discovery document is taken as it is. With it go the keys: one that the provider has
	// withdrawn is trusted no longer than this.
	freshFor = time.Hour
	// staleFor is how long an old one is used while there is no new one to be had.
	staleFor = 24 * time.Hour
	// pause is how long a provider that failed is left alone.
	pause = 5 * time.Second
)

var (
	// errUnreachable: the provider does not answer, or not in time.
	errUnreachable = errors.New("the identity provider does not answer")
	// errMisbehaves: it does, but not as OpenID Connect says.
	errMisbehaves = errors.New("the identity provider's answer cannot be used")
)

// provider is the identity provider, found by its discovery document when it is first needed.
type provider struct {
	issuer string
	id     string // purser's, there
	client *http.Client
	now    pay.Clock
	log    *slog.Logger

	turn chan struct{} // held by the one who asks

	mu       sync.Mutex
	known    *discovered
	failed   error
	failedAt time.Time
}

// discovered is what a discovery document says.
type discovered struct {
	*oidc.Provider
	verifier *oidc.IDTokenVerifier
	metadata metadata
	at       time.Time
}

// metadata are parts of a discovery document (OpenID Connect Discovery §3, RFC 9207 §3).
type metadata struct {
	Auth        string   `json:"authorization_endpoint"`
	Token       string   `json:"token_endpoint"`
	Keys        string   `json:"jwks_uri"`
	UserInfo    string   `json:"userinfo_endpoint"`
	Algorithms  []string `json:"id_token_signing_alg_values_supported"`
	AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
	Scopes      []string `json:"scopes_supported"`
	// SaysIssuer: answers to authorization requests name the issuer.
	SaysIssuer bool `json:"authorization_response_iss_parameter_supported"`
}

// checkIssuer reads the configured issuer.
func checkIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return errors.New("PURSER_OIDC_ISSUER: not an issuer such as https://accounts.example.com")
	}
	if checkSecure(u) != nil {
		return errors.New("PURSER_OIDC_ISSUER: plain http is for a provider on loopback only: anybody on the way could sign in as anybody")
	}
	return nil
}

// get returns the provider. Its errors are errUnreachable, errMisbehaves, or the context's.
func (p *provider) get(ctx context.Context) (*discovered, error) {
	known, err := p.look()
	if known != nil && p.now().Sub(known.at) < freshFor || err != nil {
		return known, err
	}
	select {
	case p.turn <- struct{}{}:
	default:
		if known != nil { // somebody else is asking
			return known, nil
		}
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer func() { <-p.turn }()
	if known, err = p.look(); known != nil && p.now().Sub(known.at) < freshFor || err != nil {
		return known, err
	}
	fresh, err := p.discover(ctx)
	if ctx.Err() != nil && err != nil {
		return nil, ctx.Err() // says nothing about the provider
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.known, p.failed = fresh, nil
		return fresh, nil
	}
	p.log.Warn("identity provider not found", "issuer", p.issuer, "error", shown(err))
	p.failed, p.failedAt = err, p.now()
	if errors.Is(err, errMisbehaves) {
		p.known = nil // what it was before is no comfort
	}
	return p.usable()
}

// look is what is known without asking: a document, perhaps an old one, or why there is none for now, or neither.
func (p *provider) look() (*discovered, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil && p.now().Sub(p.failedAt) < pause {
		return p.usable()
	}
	return p.known, nil
}

// usable is the document of a provider that failed lately. p.mu is held.
func (p *provider) usable() (*discovered, error) {
	if p.known != nil && p.now().Sub(p.known.at) < staleFor {
		old := *p.known
		old.at = p.now() // so that nobody asks before the pause is over
		return &old, nil
	}
	return nil, p.failed
}

// discover asks the provider.
func (p *provider) discover(ctx context.Context) (*discovered, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), providerTime)
	defer cancel()
	found, err := oidc.NewProvider(ctx, p.issuer)
	var mismatch *oidc.IssuerMismatchError
	var call *url.Error
	switch {
	case errors.As(err, &mismatch):
		return nil, fmt.Errorf("%w: %w", errMisbehaves, err)
	case errors.As(err, &call):
		return nil, fmt.Errorf("%w: %w", errUnreachable, err)
	case err != nil: // an error status, which a provider that is starting has as well, or garbage
		return nil, fmt.Errorf("%w: discovery: %w", errUnreachable, err)
	}
	d := &discovered{Provider: found, at: p.now()}
	if err := found.Claims(&d.metadata); err != nil {
		return nil, fmt.Errorf("%w: discovery: %w", errMisbehaves, err)
	}
	for name, address := range map[string]string{
		"authorization_endpoint": d.metadata.Auth, "token_endpoint": d.metadata.Token, "jwks_uri": d.metadata.Keys,
	} {
		u, err := url.Parse(address)
		if err == nil {
			err = checkSecure(u)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errMisbehaves, name, err)
		}
	}
	if u, err := url.Parse(d.metadata.UserInfo); err != nil || checkSecure(u) != nil {
		d.metadata.UserInfo = ""
	}
	keys := oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), p.client), d.metadata.Keys) // it outlives the request
	d.verifier = oidc.NewVerifier(p.issuer, keySet{keys}, &oidc.Config{
		ClientID: p.id, SupportedSigningAlgs: d.metadata.algorithms(), Now: func() time.Time { return p.now().Add(-skew) },
	})
	return d, nil
}

// algorithms are those of the provider that need a key which only it has: whoever knows the client's secret, or the
// public key, could make tokens of the others.
func (m metadata) algorithms() []string {
	return slices.DeleteFunc(slices.Clone(m.Algorithms), func(alg string) bool {
		return !slices.Contains([]string{
			oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
		}, alg)
	}) // none left: the verifier takes RS256, which every provider has
}

// keySet tells keys that could not be had from signatures that are wrong, where go-oidc flattens errors to text.
type keySet struct{ *oidc.RemoteKeySet }

type keysMissing struct{}

// VerifySignature implements oidc.KeySet.
func (k keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := k.RemoteKeySet.VerifySignature(ctx, token)
	if missing, ok := ctx.Value(keysMissing{}).(*error); ok && errors.Unwrap(err) != nil { // a wrong signature wraps nothing
		*missing = err
	}
	return payload, err
}

// verify checks an ID token's signature, issuer, audience and expiry.
func (d *discovered) verify(ctx context.Context, raw string) (*oidc.IDToken, error) {
	var missing error
	id, err := d.verifier.Verify(context.WithValue(ctx, keysMissing{}, &missing), raw)
	switch {
	case missing != nil:
		return nil, fmt.Errorf("%w: its keys: %w", errUnreachable, missing)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errToken, err)
	}
	return id, nil
}

// origins are where forms may lead: the provider's pages, as far as they are known.
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

// config is purser as a client of the provider.
func (g *Gate) config(d *discovered, at place) *oauth2.Config {
	endpoint := d.Endpoint()
	// Not tried out: a code that was presented the wrong way is spent.
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if methods := d.metadata.AuthMethods; g.opts.ClientSecret == "" ||
		len(methods) > 0 && !slices.Contains(methods, "client_secret_basic") && slices.Contains(methods, "client_secret_post") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	scopes := []string{oidc.ScopeOpenID}
	if len(g.allowed.groups) > 0 && slices.Contains(d.metadata.Scopes, "groups") {
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

// maxShown bounds what the log repeats of somebody else's answer.
const maxShown = 300

// shown is an error for the log. Errors of the token endpoint repeat its answer, which may hold tokens.
func shown(err error) string {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		status := ""
		if refused.Response != nil {
			status = refused.Response.Status
		}
		return fmt.Sprintf("the token endpoint answered %s %.64q", status, refused.ErrorCode)
	}
	text := err.Error()
	if len(text) > maxShown {
		text = text[:maxShown] + "…"
	}
	return text
}
