package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/url"

	"github.com/go-jose/go-jose/v4"
)

// Faults holds lies for tests. The zero value is the truth.
type Faults struct {
	// Discovery, Claims, Token and UserInfo change the documents of these names before they are
	// sent.
	Discovery, Claims, Token, UserInfo func(map[string]any)
	// Callback changes the parameters that the browser brings back to the client.
	Callback func(url.Values)
	// Serve answers a request in the provider's place. If it returns false, the provider answers.
	Serve func(w http.ResponseWriter, r *http.Request) bool
	// Signature selects the signature of ID tokens.
	Signature Signature
	// KeepCodes lets a code be redeemed again.
	KeepCodes bool
}

// Break sets the provider's lies. Break(Faults{}) ends them.
func (p *Provider) Break(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
}

// state returns what changes while the provider runs.
func (p *Provider) state() (issuer string, key signer, faults Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.issuer, p.key, p.faults
}

// Signature is a way to sign.
type Signature int

// Ways to sign. All but the first are forgeries.
const (
	Genuine   Signature = iota
	None                // the algorithm "none"
	PublicKey           // HS256 with the public key, as PEM, in place of the secret
	UnknownID           // another key, under an unpublished name
	Forged              // another key, under the published name
)

// key returns the key that signs a JWT.
func (how Signature) key(s signer) (jose.SigningKey, error) {
	switch how {
	case None:
		return jose.SigningKey{}, nil
	case PublicKey:
		der, err := x509.MarshalPKIXPublicKey(&s.key.PublicKey)
		if err != nil {
			return jose.SigningKey{}, err
		}
		secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		return jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: secret, KeyID: s.id}}, nil
	case UnknownID, Forged:
		other, err := rsa.GenerateKey(rand.Reader, keyBits)
		if err != nil {
			return jose.SigningKey{}, err
		}
		if how == UnknownID {
			s.id = rand.Text()
		}
		s.key = other
	case Genuine:
	}
	return jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: s.key, KeyID: s.id}}, nil
}

// unsigned makes a JWT with the algorithm "none", which go-jose rightly refuses to make.
func unsigned(claims map[string]any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(payload) + ".", nil
}
