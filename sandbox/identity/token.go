package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// signer is a key with its name.
type signer struct {
	key *rsa.PrivateKey
	id  string
}

// jwks serves the public key.
func (p *Provider) jwks(w http.ResponseWriter, _ *http.Request) {
	_, key, _ := p.state()
	writeJSON(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: &key.key.PublicKey, KeyID: key.id, Algorithm: string(jose.RS256), Use: "sig"},
	}})
}

// token redeems a code (RFC 6749 §4.1.3, RFC 7636 §4.6).
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	if !p.isClient(r) {
		w.Header().Set("WWW-Authenticate", "Basic")
		writeJSON(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	if r.PostFormValue("grant_type") != "authorization_code" {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": "unsupported_grant_type"})
		return
	}
	g, ok := p.redeem(r)
	if !ok {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	access := rand.Text()
	id, err := p.idToken(g, access)
	if err != nil {
		writeJSON(w, http.StatusInternalServerError, map[string]any{"error": "server_error"})
		return
	}
	p.tokens.Add(access, p.opts.Now().Add(tokenTime))
	_, _, faults := p.state()
	answer(w, map[string]any{
		"access_token": access, "token_type": "Bearer", "expires_in": int(tokenTime.Seconds()), "id_token": id, "scope": g.scope,
	}, faults.Token)
}

// isClient checks the client's credentials (RFC 6749 §2.3.1).
func (p *Provider) isClient(r *http.Request) bool {
	id, secret, basic := r.BasicAuth()
	if basic {
		var err1, err2 error
		id, err1 = url.QueryUnescape(id)
		secret, err2 = url.QueryUnescape(secret)
		if err1 != nil || err2 != nil {
			return false
		}
	} else {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	return id == p.opts.ClientID && subtle.ConstantTimeCompare([]byte(secret), []byte(p.opts.ClientSecret)) == 1
}

// redeem spends a code and returns its grant.
func (p *Provider) redeem(r *http.Request) (grant, bool) {
	code := r.PostFormValue("code")
	g, known := p.codes.Get(code)
	if _, _, faults := p.state(); !known || !faults.KeepCodes && !p.codes.Remove(code) { // Remove succeeds once
		return grant{}, false
	}
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if p.opts.Now().Sub(g.at) > codeTime || r.PostFormValue("redirect_uri") != g.redirect ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge {
		return grant{}, false
	}
	return g, true
}

// idToken returns a signed ID token (OpenID Connect Core §2).
func (p *Provider) idToken(g grant, access string) (string, error) {
	now := p.opts.Now()
	sum := sha256.Sum256([]byte(access))
	claims := p.person()
	issuer, key, faults := p.state()
	claims["iss"], claims["aud"] = issuer, p.opts.ClientID
	claims["iat"], claims["exp"], claims["auth_time"] = now.Unix(), now.Add(tokenTime).Unix(), g.at.Unix()
	claims["at_hash"] = base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
	if g.nonce != "" {
		claims["nonce"] = g.nonce
	}
	if faults.Claims != nil {
		faults.Claims(claims)
	}
	return key.sign(claims, faults.Signature)
}

// sign signs claims as a JWT.
func (s signer) sign(claims map[string]any, how Signature) (string, error) {
	signing, err := how.key(s)
	if err != nil {
		return "", fmt.Errorf("identity: %w", err)
	}
	if signing.Algorithm == "" {
		return unsigned(claims)
	}
	made, err := jose.NewSigner(signing, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", fmt.Errorf("identity: %w", err)
	}
	text, err := jwt.Signed(made).Claims(claims).Serialize()
	if err != nil {
		return "", fmt.Errorf("identity: %w", err)
	}
	return text, nil
}
