package cdp

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
)

// Names of the variables with the parts of Credentials, for errors.
const (
	KeyIDVariable        = "CDP_API_KEY_ID"
	KeySecretVariable    = "CDP_API_KEY_SECRET" //nolint:gosec // a name
	WalletSecretVariable = "CDP_WALLET_SECRET"  //nolint:gosec // a name
)

// tokenTime is the time for which a bearer token is valid, as CDP's own clients ask for.
const tokenTime = 120 * time.Second

// Credentials make the tokens that authenticate calls to CDP (Coinbase Developer Platform,
// "Authentication"). Each token is for one method, host and path.
type Credentials struct {
	keyID    string
	key      jose.SigningKey
	wallet   *ecdsa.PrivateKey // nil: no calls that use a wallet's key
	now      pay.Clock
	material []string // as given
}

// NewCredentials reads an API key and, unless it is "", a wallet secret. The API key's secret is
// either 64 bytes of Ed25519 in base64 or an EC key of the curve P-256 in PEM; the wallet secret is an
// EC key as PKCS #8 in base64. Errors name the variable at fault and never repeat a value. clock may
// be nil.
func NewCredentials(keyID, keySecret, walletSecret string, clock pay.Clock) (*Credentials, error) {
	if keyID == "" {
		return nil, errors.New(KeyIDVariable + " is not set")
	}
	if keySecret == "" {
		return nil, errors.New(KeySecretVariable + " is not set")
	}
	c := &Credentials{keyID: keyID, now: clock, material: []string{keySecret, walletSecret}}
	if c.now == nil {
		c.now = failpoint.Now
	}
	var err error
	if c.key, err = parseKeySecret(keySecret); err != nil {
		return nil, fmt.Errorf("%s: %w", KeySecretVariable, err)
	}
	if walletSecret != "" {
		if c.wallet, err = parseWalletSecret(walletSecret); err != nil {
			return nil, fmt.Errorf("%s: %w", WalletSecretVariable, err)
		}
	}
	return c, nil
}

func parseKeySecret(text string) (jose.SigningKey, error) {
	// A PEM file in a variable often has \n for the ends of lines.
	if block, _ := pem.Decode([]byte(strings.ReplaceAll(text, `\n`, "\n"))); block != nil {
		key, err := parseEC(block.Bytes)
		return jose.SigningKey{Algorithm: jose.ES256, Key: key}, err
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(raw) != ed25519.PrivateKeySize {
		return jose.SigningKey{}, errors.New("neither 64 bytes in base64 (Ed25519) nor an EC key in PEM")
	}
	if !bytes.Equal(ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize]), raw) {
		return jose.SigningKey{}, errors.New("the two halves of the Ed25519 key do not belong together")
	}
	return jose.SigningKey{Algorithm: jose.EdDSA, Key: ed25519.PrivateKey(raw)}, nil
}

func parseWalletSecret(text string) (*ecdsa.PrivateKey, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, errors.New("not base64")
	}
	return parseEC(raw)
}

// parseEC reads an EC key in PKCS #8 or in the form of SEC 1.
func parseEC(der []byte) (*ecdsa.PrivateKey, error) {
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		var parsed any
		if parsed, err = x509.ParsePKCS8PrivateKey(der); err == nil {
			key, _ = parsed.(*ecdsa.PrivateKey)
		}
	}
	if err != nil || key == nil || key.Curve != elliptic.P256() {
		return nil, errors.New("not an EC key of the curve P-256")
	}
	return key, nil
}

// Bearer returns a token of the API key for one call.
func (c *Credentials) Bearer(method string, target *url.URL) (string, error) {
	now := c.now()
	claims := jwt.Claims{
		Issuer: "cdp", Subject: c.keyID, IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now),
		Expiry: jwt.NewNumericDate(now.Add(tokenTime)),
	}
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", c.keyID).WithHeader("nonce", random())
	return sign(c.key, options, claims, bound(method, target, ""))
}

// Wallet returns a token of the wallet secret for one call that uses a wallet's key. body is the one
// of the call, or nil. It must be JSON whose objects have their members in order, as json.Marshal
// writes maps.
func (c *Credentials) Wallet(method string, target *url.URL, body []byte) (string, error) {
	if c.wallet == nil {
		return "", errors.New(WalletSecretVariable + " is not set")
	}
	now := c.now()
	claims := jwt.Claims{ID: random(), IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now)}
	hash := ""
	if body != nil {
		sum := sha256.Sum256(body)
		hash = hex.EncodeToString(sum[:])
	}
	return sign(jose.SigningKey{Algorithm: jose.ES256, Key: c.wallet}, (&jose.SignerOptions{}).WithType("JWT"), claims, bound(method, target, hash))
}

// binding binds a token to a call.
type binding struct {
	URIs        []string `json:"uris"`
	RequestHash string   `json:"reqHash,omitempty"`
}

func bound(method string, target *url.URL, hash string) binding {
	return binding{[]string{method + " " + target.Host + target.Path}, hash}
}

func sign(key jose.SigningKey, options *jose.SignerOptions, claims ...any) (string, error) {
	signer, err := jose.NewSigner(key, options)
	if err != nil {
		return "", fmt.Errorf("making a token: %w", err)
	}
	token := jwt.Signed(signer)
	for _, part := range claims {
		token = token.Claims(part)
	}
	text, err := token.Serialize()
	if err != nil {
		return "", fmt.Errorf("making a token: %w", err)
	}
	return text, nil
}

// random returns 16 random bytes in hex.
func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

// encode returns JSON with the members of all objects in order, and nothing escaped that JavaScript
// would not escape.
func encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var sorted any
	if err := d.Decode(&sorted); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(sorted); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}
