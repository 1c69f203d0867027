package cdp_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/purserpay/purser/sandbox/cdp"
)

const keyID = "key"

// call is one call, with everything that its tokens are made of.
type call struct {
	method, path, body string
	header             http.Header
	key, walletKey     *ecdsa.PrivateKey
	kid, typ, nonce    string
	claims, wallet     map[string]any
	noBearer, noWallet bool
}

// world is a stand-in with its keys.
type world struct {
	t              *testing.T
	platform       *cdp.Platform
	server         *httptest.Server
	key, walletKey *ecdsa.PrivateKey
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, key: newKey(t), walletKey: newKey(t)}
	facilitator := http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(out, r.URL.Path) })
	var err error
	if w.platform, err = cdp.New(cdp.Options{
		KeyID: keyID, KeyAlgorithm: jose.ES256, Key: &w.key.PublicKey, WalletKey: &w.walletKey.PublicKey, Facilitator: facilitator,
	}); err != nil {
		t.Fatal(err)
	}
	w.server = httptest.NewServer(w.platform)
	t.Cleanup(func() {
		w.server.Close()
		if faults := w.platform.Faults(); len(faults) > 0 {
			t.Errorf("answers that CDP does not give: %q", faults)
		}
	})
	return w
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// random is 16 bytes in hex.
func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// correct prepares a call that must be accepted.
func (w *world) correct(method, path, body string) *call {
	now := time.Now().Unix()
	uris := []string{method + " " + strings.TrimPrefix(w.server.URL, "http://") + cdp.BasePath + path}
	c := &call{
		method: method, path: path, body: body, header: http.Header{}, key: w.key, walletKey: w.walletKey, kid: keyID, typ: "JWT", nonce: random(),
		claims: map[string]any{"sub": keyID, "iss": "cdp", "iat": now, "nbf": now, "exp": now + 120, "uris": uris},
		wallet: map[string]any{"iat": now, "nbf": now, "jti": random(), "uris": uris},
	}
	if body != "" {
		sum := sha256.Sum256([]byte(body))
		c.wallet["reqHash"] = hex.EncodeToString(sum[:])
	}
	return c
}

func (w *world) token(key *ecdsa.PrivateKey, options *jose.SignerOptions, claims map[string]any) string {
	w.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, options)
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

func (w *world) send(c *call) (status int, text string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), c.method, w.server.URL+cdp.BasePath+c.path, bytes.NewReader([]byte(c.body)))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header = c.header.Clone()
	if !c.noBearer {
		options := (&jose.SignerOptions{}).WithType(jose.ContentType(c.typ)).WithHeader("kid", c.kid).WithHeader("nonce", c.nonce)
		r.Header.Set("Authorization", "Bearer "+w.token(c.key, options, c.claims))
	}
	if !c.noWallet && c.method != http.MethodGet {
		r.Header.Set("X-Wallet-Auth", w.token(c.walletKey, (&jose.SignerOptions{}).WithType("JWT"), c.wallet))
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

const accounts = "/v2/evm/accounts"

// Each part of each token counts.
func TestTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Now().Unix()
	used := w.correct("POST", accounts, "")
	if status, text := w.send(used); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	for name, spoil := range map[string]func(*call){
		"no bearer token":  func(c *call) { c.noBearer = true },
		"another key":      func(c *call) { c.key = newKey(t) },
		"another id":       func(c *call) { c.kid = "other" },
		"another subject":  func(c *call) { c.claims["sub"] = "other" },
		"another issuer":   func(c *call) { c.claims["iss"] = "other" },
		"another type":     func(c *call) { c.typ = "at+jwt" },
		"a short nonce":    func(c *call) { c.nonce = "00" },
		"an early token":   func(c *call) { c.claims["nbf"] = now + 60 },
		"an old token":     func(c *call) { c.claims["iat"], c.claims["exp"] = now-300, now-180 },
		"a long token":     func(c *call) { c.claims["exp"] = now + 3600 },
		"no time":          func(c *call) { delete(c.claims, "nbf") },
		"another endpoint": func(c *call) { c.claims["uris"] = []string{"GET a.example/b"} },
		"every endpoint":   func(c *call) { delete(c.claims, "uris") },
		"another wallet":   func(c *call) { c.walletKey = newKey(t) },
		"a used token":     func(c *call) { c.wallet["jti"] = used.wallet["jti"] },
		"no token id":      func(c *call) { delete(c.wallet, "jti") },
		"another body":     func(c *call) { c.wallet["reqHash"] = strings.Repeat("0", 64) },
		"no hash":          func(c *call) { delete(c.wallet, "reqHash") },
		"an old wallet":    func(c *call) { c.wallet["iat"] = now - 600 },
		"another call":     func(c *call) { c.wallet["uris"] = []string{"GET a.example/b"} },
	} {
		c := w.correct("POST", accounts, `{"name":"an-account"}`)
		spoil(c)
		if status, text := w.send(c); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if n := w.platform.Accounts(); n != 1 {
		t.Errorf("%d accounts", n)
	}
}

// What the description does not have is refused.
func TestRequestsAreDescribed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		method, path, body string
		key                string
		want               int
	}{
		"a name":               {"POST", accounts, `{"name":"an-account"}`, "k1", http.StatusCreated},
		"the same once more":   {"POST", accounts, `{"name":"an-account"}`, "k1", http.StatusCreated},
		"another under a key":  {"POST", accounts, `{"name":"other-name"}`, "k1", http.StatusUnprocessableEntity},
		"the name again":       {"POST", accounts, `{"name":"an-account"}`, "k2", http.StatusConflict},
		"a name with a space":  {"POST", accounts, `{"name":"an account"}`, "", http.StatusBadRequest},
		"a name of 37 letters": {"POST", accounts, `{"name":"` + strings.Repeat("a", 37) + `"}`, "", http.StatusBadRequest},
		"a long key":           {"POST", accounts, "", strings.Repeat("a", 129), http.StatusBadRequest},
		"no message":           {"POST", accounts + "/0x" + strings.Repeat("0", 40) + "/sign/typed-data", `{}`, "", http.StatusBadRequest},
		"no address":           {"GET", accounts + "/0x12", "", "", http.StatusBadRequest},
		"an unknown address":   {"GET", accounts + "/0x" + strings.Repeat("0", 40), "", "", http.StatusNotFound},
		"an unknown endpoint":  {"GET", "/v2/solana/accounts", "", "", http.StatusNotFound},
		"a list":               {"GET", accounts, "", "", http.StatusOK},
		"the facilitator":      {"GET", "/v2/x402/supported", "", "", http.StatusOK},
	} {
		if name == "the same once more" || name == "another under a key" || name == "the name again" {
			first := w.correct("POST", accounts, `{"name":"an-account"}`)
			first.header.Set("X-Idempotency-Key", "k1")
			if status, text := w.send(first); status != http.StatusCreated {
				t.Fatalf("%d %s", status, text)
			}
		}
		one := w.correct(c.method, c.path, c.body)
		if c.key != "" {
			one.header.Set("X-Idempotency-Key", c.key)
		}
		status, text := w.send(one)
		if status != c.want || status >= 400 && !json.Valid([]byte(text)) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if n := w.platform.Accounts(); n != 1 {
		t.Errorf("%d accounts", n)
	}
}
