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

// Faults are lies for tests. The zero value is the truth.
type Faults struct {
	// Discovery, Claims, Token and UserInfo change the documents of those names before they are sent.
	Discovery, Claims, Token, UserInfo func(map[string]any)
	// Callback changes what the browser brings back to the client.
	Callback func(url.Values)
	// Serve answers a request in the provider's place; false leaves it to the provider.
	Serve func(w http.ResponseWriter, r *http.Request) bool
	// Signature is how ID tokens are signed.
	Signature Signature
	// KeepCodes: a code can be redeemed again.
	KeepCodes bool
}

// Break has the provider lie from now on. Break(Faults{}) mends it.
func (p *Provider) Break(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
}

func (p *Provider) lies() Faults {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

// Signature is a way to sign.
type Signature int

// Ways to sign. All but the first are forgeries.
const (
	Genuine   Signature = iota
	None                // the algorithm "none"
	PublicKey           // HS256 with the public key, as PEM, for the secret
	UnknownID           // another key, under a name that is not published
	Forged              // another key, under the published name
)

// key is what a JWT is signed with.
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
			s.id = random()
		}
		s.key = other
	case Genuine:
	}
	return jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: s.key, KeyID: s.id}}, nil
}

// unsigned makes a JWT with the algorithm "none", which go-jose rightly does not.
func unsigned(claims map[string]any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(payload) + ".", nil
}
