package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/perclient"
)

// User is the user that the button signs in.
type User struct {
	Subject, Name, Email string
}

// Options configures a Provider. ClientID is required.
type Options struct {
	// ClientID and ClientSecret belong to the client. A public client has no secret.
	ClientID, ClientSecret string
	// User is the user that the button signs in. Default: "sandbox".
	User User
	// PublicURL is the client's address beside loopback, or "". Codes may be sent to
	// /dashboard/callback there.
	PublicURL string
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

const (
	// codeTime is the lifetime of a code.
	codeTime = time.Minute
	// tokenTime is the lifetime of a token.
	tokenTime = 5 * time.Minute
	// maxGrants bounds the remembered codes, and the remembered tokens.
	maxGrants = 1000
	// maxBody bounds a form, in bytes.
	maxBody = 64 << 10
	keyBits = 2048
)

// Provider is an OpenID provider as an http.Handler. It is safe for concurrent use.
type Provider struct {
	opts      Options
	routes    *http.ServeMux
	crossSite *http.CrossOriginProtection
	codes     *lru.Cache[string, grant]
	tokens    *lru.Cache[string, time.Time] // access tokens and their ends

	mu     sync.Mutex
	issuer string
	key    signer
	faults Faults
}

// grant holds the request that a code answers.
type grant struct {
	redirect, challenge, nonce, scope string
	at                                time.Time // time of the request
}

// New returns a provider with a fresh key.
func New(o Options) (*Provider, error) {
	if o.ClientID == "" {
		return nil, errors.New("identity: a client is required")
	}
	if o.User == (User{}) {
		o.User = User{Subject: "sandbox", Name: "Sandbox user", Email: "user@purser.test"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Provider{
		opts: o, routes: http.NewServeMux(), crossSite: http.NewCrossOriginProtection(),
		codes: perclient.NewCache[string, grant](maxGrants), tokens: perclient.NewCache[string, time.Time](maxGrants),
	}
	p.routes.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	p.routes.HandleFunc("GET /jwks", p.jwks)
	p.routes.HandleFunc("GET /authorize", p.showButton)
	p.routes.HandleFunc("POST /authorize", p.pressButton)
	p.routes.HandleFunc("POST /token", p.token)
	p.routes.HandleFunc("GET /userinfo", p.userinfo)
	return p, p.Rotate()
}

// callback is the path that codes are sent to.
const callback = "/dashboard/callback"

// registered reports whether codes may be sent to a URL.
func (p *Provider) registered(given string) bool {
	if p.opts.PublicURL != "" && given == strings.TrimSuffix(p.opts.PublicURL, "/")+callback {
		return true
	}
	u, err := url.Parse(given)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && loopback(u.Host) && u.Path == callback && u.RawQuery == "" && u.Fragment == "" && u.User == nil
}

// loopback reports whether a host, with or without a port, is this machine.
func loopback(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && addr.IsLoopback()
}

// At sets the provider's own URL, once its port is known.
func (p *Provider) At(issuer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.issuer = issuer
}

// Rotate replaces the signing key. The old key is no longer published.
func (p *Provider) Rotate() error {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key = signer{key, rand.Text()}
	return nil
}

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, _, faults := p.state(); faults.Serve != nil && faults.Serve(w, r) {
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	// A page of another site must not press the button, under whatever host name.
	if host, _, err := net.SplitHostPort(r.Host); err == nil && !loopback(host) || err != nil && !loopback(r.Host) {
		http.Error(w, "This provider is for loopback only.", http.StatusMisdirectedRequest)
		return
	}
	if err := p.crossSite.Check(r); err != nil && r.URL.Path == "/authorize" {
		http.Error(w, "Another site's page may not sign anybody in.", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	p.routes.ServeHTTP(w, r)
}

// discovery serves the discovery document (OpenID Connect Discovery §4).
func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	issuer, _, faults := p.state()
	document := map[string]any{
		"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": issuer + "/token",
		"userinfo_endpoint": issuer + "/userinfo", "jwks_uri": issuer + "/jwks",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"}, "scopes_supported": []string{"openid", "profile", "email"},
		"token_endpoint_auth_methods_supported":          []string{"client_secret_basic", "client_secret_post"},
		"code_challenge_methods_supported":               []string{"S256"},
		"authorization_response_iss_parameter_supported": true,
	}
	answer(w, document, faults.Discovery)
}

// userinfo serves the claims of the user (OpenID Connect Core §5.3).
func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	until, known := p.tokens.Get(token)
	if !known || p.opts.Now().After(until) {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		writeJSON(w, http.StatusUnauthorized, map[string]any{"error": "invalid_token"})
		return
	}
	_, _, faults := p.state()
	answer(w, p.person(), faults.UserInfo)
}

// person returns the claims of the user.
func (p *Provider) person() map[string]any {
	u := p.opts.User
	return map[string]any{"sub": u.Subject, "name": u.Name, "email": u.Email, "email_verified": true}
}

// answer sends a document, which lie changes if it is set.
func answer(w http.ResponseWriter, document map[string]any, lie func(map[string]any)) {
	if lie != nil {
		lie(document)
	}
	writeJSON(w, http.StatusOK, document)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
