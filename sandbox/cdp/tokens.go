package cdp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// maxTokenTime bounds the validity of a bearer token.
	maxTokenTime = 120 * time.Second
	// leeway bounds the difference of two clocks.
	leeway = 2 * time.Second
)

var sixteenBytes = regexp.MustCompile("^[0-9a-f]{32}$")

// claims bind a token to a call.
type claims struct {
	jwt.Claims
	URIs        []string `json:"uris"`
	RequestHash string   `json:"reqHash"`
}

// bearer checks the token of the API key.
func (p *Platform) bearer(r *http.Request) error {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return errors.New("there is no bearer token")
	}
	c, header, err := read(text, p.opts.KeyAlgorithm, p.opts.Key)
	if err != nil {
		return err
	}
	nonce, _ := header.ExtraHeaders["nonce"].(string)
	if nonce == "" {
		nonce = header.Nonce
	}
	now := p.opts.Now()
	switch {
	case header.KeyID != p.opts.KeyID, c.Subject != p.opts.KeyID:
		return errors.New("the token is of another key")
	case c.Issuer != "cdp":
		return errors.New("the token's issuer is not cdp")
	case !sixteenBytes.MatchString(nonce):
		return errors.New("the token has no nonce of 16 bytes in hex")
	case c.IssuedAt == nil || c.NotBefore == nil || c.Expiry == nil:
		return errors.New("the token lacks a time")
	case c.Expiry.Time().Sub(c.IssuedAt.Time()) > maxTokenTime:
		return errors.New("the token is valid for too long")
	case now.Add(leeway).Before(c.NotBefore.Time()), now.Add(leeway).Before(c.IssuedAt.Time()):
		return errors.New("the token is not valid yet")
	case now.Add(-leeway).After(c.Expiry.Time()):
		return errors.New("the token has expired")
	}
	return p.boundTo(c, r)
}

// wallet checks the token of the wallet secret. Each serves once.
func (p *Platform) wallet(r *http.Request, body []byte) error {
	c, _, err := read(r.Header.Get("X-Wallet-Auth"), jose.ES256, p.opts.WalletKey)
	if err != nil {
		return err
	}
	hash, err := requestHash(body)
	now := p.opts.Now()
	switch {
	case err != nil:
		return err
	case !sixteenBytes.MatchString(c.ID):
		return errors.New("the wallet token has no jti of 16 bytes in hex")
	case c.IssuedAt == nil || c.NotBefore == nil:
		return errors.New("the wallet token lacks a time")
	case now.Add(leeway).Before(c.NotBefore.Time()), now.Add(-maxTokenTime).After(c.IssuedAt.Time()):
		return errors.New("the wallet token is not of now")
	case c.RequestHash != hash:
		return errors.New("the wallet token is for another body")
	}
	if err := p.boundTo(c, r); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tokens[c.ID] {
		return errors.New("the wallet token was used before")
	}
	p.tokens[c.ID] = true
	return nil
}

// read verifies the signature of a token.
func read(text string, algorithm jose.SignatureAlgorithm, key any) (c claims, h jose.Header, err error) {
	token, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{algorithm})
	if err != nil {
		return c, h, fmt.Errorf("the token cannot be read: %w", err)
	}
	h = token.Headers[0]
	if kind, _ := h.ExtraHeaders[jose.HeaderType].(string); kind != "JWT" {
		return c, h, errors.New("the token's typ is not JWT")
	}
	if err := token.Claims(key, &c); err != nil {
		return c, h, fmt.Errorf("the token's signature: %w", err)
	}
	return c, h, nil
}

// boundTo checks that a token is for this call alone.
func (p *Platform) boundTo(c claims, r *http.Request) error {
	if want := r.Method + " " + r.Host + r.URL.Path; !slices.Equal(c.URIs, []string{want}) {
		return fmt.Errorf("the token is for %q and not for %q", c.URIs, want)
	}
	return nil
}

// requestHash returns the SHA-256 of a body whose members are in order, "" without one.
func requestHash(body []byte) (string, error) {
	if len(body) == 0 {
		return "", nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return "", fmt.Errorf("the body: %w", err)
	}
	if object, ok := value.(map[string]any); ok && len(object) == 0 {
		return "", nil
	}
	var sorted bytes.Buffer
	e := json.NewEncoder(&sorted)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return "", fmt.Errorf("the body: %w", err)
	}
	sum := sha256.Sum256(bytes.TrimSpace(sorted.Bytes()))
	return hex.EncodeToString(sum[:]), nil
}
