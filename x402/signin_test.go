package x402_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

// memberURL names the page of the sign-ins of these tests.
const memberURL = "https://api.example.com/member?page=2"

// signInInfo is a seller's part of a sign-in at 10:30.
func signInInfo() x402test.Fields {
	return x402test.Fields{
		"domain": "api.example.com", "uri": "https://api.example.com/member", "version": "1", "nonce": "a1b2c3d4e5f67890a1b2c3d4e5f67890",
		"issuedAt": "2026-11-15T10:30:00.000Z", "expirationTime": "2026-11-15T10:35:00.000Z", "statement": "Sign in to read, please!",
		"resources": []string{"https://api.example.com/member"},
	}
}

func signInTime(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// signInChallenge is a challenge with a sign-in beside its requirement.
func signInChallenge(t testing.TB, info any, chains ...any) x402.Challenge {
	t.Helper()
	c := offered(t, x402test.NewSeller(t))
	text, err := json.Marshal(map[string]any{"sign-in-with-x": map[string]any{"info": info, "supportedChains": chains, "schema": map[string]any{}}})
	if err != nil {
		t.Fatal(err)
	}
	c.Extensions = text
	return c
}

var onBase = x402test.Fields{"chainId": "eip155:8453", "type": "eip191"}

// The text is that of EIP-4361 to the byte, and the digest that of personal_sign.
func TestSignInText(t *testing.T) {
	t.Parallel()
	key, err := crypto.HexToECDSA(strings.Repeat("01", 32))
	if err != nil {
		t.Fatal(err)
	}
	wallet := x402.EVMAddress(crypto.PubkeyToAddress(key.PublicKey))
	asked, _ := url.Parse(memberURL)
	base, _ := x402.NetworkByWire("base")
	now := signInTime(t, "2026-11-15T10:31:00Z")
	for name, tt := range map[string]struct {
		info x402test.Fields
		text string
		// signature is that of @x402/extensions 2.27.0 with the same key.
		signature string
	}{
		"all of it": {
			signInInfo().With("notBefore", "2026-11-15T10:30:00Z").With("requestId", "id-7"),
			"\n\nSign in to read, please!\n\nURI: https://api.example.com/member\nVersion: 1\nChain ID: 8453\nNonce: a1b2c3d4e5f67890a1b2c3d4e5f67890\n" +
				"Issued At: 2026-11-15T10:30:00.000Z\nExpiration Time: 2026-11-15T10:35:00.000Z\nNot Before: 2026-11-15T10:30:00Z\n" +
				"Request ID: id-7\nResources:\n- https://api.example.com/member",
			"0x3b9bb9dd59689a6827a0d3a43dd5c913682f02fd0c116343de99a115d6418f650282daf3fadf5d16c828b3983261490be4fe87d26f3379bd21621b3fd5d90bbc1b",
		},
		"the least": {
			signInInfo().With("statement", nil).With("expirationTime", nil).With("resources", nil),
			"\n\n\nURI: https://api.example.com/member\nVersion: 1\nChain ID: 8453\nNonce: a1b2c3d4e5f67890a1b2c3d4e5f67890\nIssued At: 2026-11-15T10:30:00.000Z",
			"0x94b097c08a4897815bf950ac12177246c1f6d5c7a98f83ecf5cd49ee903bd766203f2f8523b2c865181a26f1687a62f2da71fba79a59298d3c7384d060d558301c",
		},
	} {
		m, err := signInChallenge(t, tt.info, onBase).SignIn(asked, base, wallet, now)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := "api.example.com wants you to sign in with your Ethereum account:\n" + wallet.String() + tt.text
		if m.Text() != want {
			t.Errorf("%s: %q, want %q", name, m.Text(), want)
		}
		if digest := m.Digest(); string(digest[:]) != string(accounts.TextHash([]byte(want))) {
			t.Errorf("%s: not the digest of personal_sign", name)
		}
		signature, err := x402test.Sign(m.Digest(), key)
		if err != nil {
			t.Fatal(err)
		}
		if signature.String() != tt.signature {
			t.Errorf("%s: the signature is %s, want %s", name, signature, tt.signature)
		}
		value, err := m.Header(signature)
		if err != nil {
			t.Fatal(err)
		}
		text, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			t.Fatal(err)
		}
		var got, sent x402test.Fields
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		wanted, _ := json.Marshal(tt.info.With("address", wallet.String()).With("chainId", "eip155:8453").With("type", "eip191").With("signature", signature.String()))
		if _ = json.Unmarshal(wanted, &sent); len(got) != len(sent) {
			t.Errorf("%s: sends %s", name, text)
		}
		for field, value := range sent {
			if a, _ := json.Marshal(got[field]); string(a) != mustJSON(t, value) {
				t.Errorf("%s: %s is %s, want %v", name, field, a, value)
			}
		}
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A message for another site, of another form, or without an end to its size is not signed.
func TestSignInRefused(t *testing.T) {
	t.Parallel()
	base, _ := x402.NetworkByWire("base")
	now := signInTime(t, "2026-11-15T10:31:00Z")
	long := strings.Repeat("x", 3000)
	info := signInInfo()
	for name, tt := range map[string]struct {
		info   any
		asked  string
		chains []any
		allows bool
	}{
		"its own":                    {info, "", nil, true},
		"with its scheme's port":     {info, "https://API.example.com:443/member", nil, true},
		"among others":               {info, "", []any{x402test.Fields{"chainId": "solana:x", "type": "ed25519"}, onBase.With("signatureScheme", "eip191")}, true},
		"another port":               {info, "https://api.example.com:8443/member", nil, false},
		"another site":               {info, "https://example.com/member", nil, false},
		"without TLS":                {info, "http://api.example.com/member", nil, false},
		"another domain":             {info.With("domain", "evil.example"), "", nil, false},
		"a part of the domain":       {info.With("domain", "example.com"), "", nil, false},
		"domain with a port":         {info.With("domain", "api.example.com:443"), "", nil, false},
		"domain with a user":         {info.With("domain", "api.example.com@evil.example"), "", nil, false},
		"domain with a line":         {info.With("domain", "api.example.com wants\n"), "", nil, false},
		"another uri":                {info.With("uri", "https://evil.example/member"), "", nil, false},
		"uri without TLS":            {info.With("uri", "http://api.example.com/member"), "", nil, false},
		"uri with a user":            {info.With("uri", "https://api.example.com@evil.example/"), "", nil, false},
		"uri with a line":            {info.With("uri", "https://api.example.com/\nVersion: 1"), "", nil, false},
		"uri that is long":           {info.With("uri", "https://api.example.com/"+long), "", nil, false},
		"another resource":           {info.With("resources", []string{"https://api.example.com/", "https://evil.example/"}), "", nil, false},
		"a capability":               {info.With("resources", []string{"urn:recap:eyJhdHQiOnt9fQ"}), "", nil, false},
		"no resources":               {info.With("resources", []string{}), "", nil, false},
		"many resources":             {info.With("resources", strings.Split(strings.Repeat("https://api.example.com/ ", 9), " ")), "", nil, false},
		"resources that are no list": {info.With("resources", "https://api.example.com/"), "", nil, false},
		"long resources":             {info.With("resources", []string{"https://api.example.com/" + long[:2000], "https://api.example.com/" + long[:2000], "https://api.example.com/" + long[:200]}), "", nil, false},
		"another version":            {info.With("version", "2"), "", nil, false},
		"version that is a number":   {info.With("version", 1), "", nil, false},
		"short nonce":                {info.With("nonce", "1234567"), "", nil, false},
		"long nonce":                 {info.With("nonce", long), "", nil, false},
		"nonce with a line":          {info.With("nonce", "a1b2c3d4\nIssued At: "), "", nil, false},
		"statement with a line":      {info.With("statement", "a\nURI: https://evil.example"), "", nil, false},
		"statement beyond ASCII":     {info.With("statement", "für"), "", nil, false},
		"empty statement":            {info.With("statement", ""), "", nil, false},
		"long statement":             {info.With("statement", long), "", nil, false},
		"request with a line":        {info.With("requestId", "7\nResources:"), "", nil, false},
		"empty request":              {info.With("requestId", ""), "", nil, false},
		"issued long ago":            {info.With("issuedAt", "2026-11-15T10:25:00Z"), "", nil, false},
		"issued later":               {info.With("issuedAt", "2026-11-15T10:37:00Z"), "", nil, false},
		"issued at no time":          {info.With("issuedAt", "now"), "", nil, false},
		"expired":                    {info.With("expirationTime", "2026-11-15T10:31:00Z"), "", nil, false},
		"expires at no time":         {info.With("expirationTime", "never"), "", nil, false},
		"not yet":                    {info.With("notBefore", "2026-11-15T10:32:00Z"), "", nil, false},
		"without a nonce":            {info.With("nonce", nil), "", nil, false},
		"another chain":              {info, "", []any{onBase.With("chainId", "eip155:1")}, false},
		"another signature":          {info, "", []any{onBase.With("type", "ed25519")}, false},
		"a contract's":               {info, "", []any{onBase.With("signatureScheme", "eip1271")}, false},
		"no chain":                   {info, "", []any{}, false},
		"chains that are no objects": {info, "", []any{"eip155:8453"}, false},
		"no info":                    {nil, "", nil, false},
	} {
		if tt.asked == "" {
			tt.asked = memberURL
		}
		if tt.chains == nil {
			tt.chains = []any{onBase}
		}
		asked, err := url.Parse(tt.asked)
		if err != nil {
			t.Fatal(err)
		}
		m, err := signInChallenge(t, tt.info, tt.chains...).SignIn(asked, base, x402.EVMAddress([20]byte{1}), now)
		if (err == nil) != tt.allows {
			t.Errorf("%s: %q, %v", name, m.Text(), err)
		}
	}
	c := offered(t, x402test.NewSeller(t))
	asked, _ := url.Parse(memberURL)
	for _, extensions := range []string{``, `{}`, `{"other":{"sign-in-with-x":1}}`, `{"sign-in-with-x":{},"sign-in-with-x":{}}`, `{"sign-in-with-x":{}`} {
		c.Extensions = json.RawMessage(extensions)
		if _, err := c.SignIn(asked, base, x402.EVMAddress([20]byte{1}), now); !errors.Is(err, x402.ErrNoSignIn) {
			t.Errorf("%s: %v", extensions, err)
		}
	}
}

// Whatever a seller writes, a message that is signed has the lines of EIP-4361 and no others.
func FuzzSignIn(f *testing.F) {
	base, _ := x402.NetworkByWire("base")
	now := signInTime(f, "2026-11-15T10:31:00Z")
	asked, _ := url.Parse(memberURL)
	f.Add("Sign in.", "https://api.example.com/member", "a1b2c3d4e5", "2026-11-15T10:30:00Z", "id")
	f.Add("\n", "https://api.example.com/\r\n", "12345678", "2026-11-15T10:30:00,5Z", "")
	f.Fuzz(func(t *testing.T, statement, uri, nonce, issued, request string) {
		info := signInInfo().With("statement", statement).With("uri", uri).With("nonce", nonce).With("issuedAt", issued).With("requestId", request)
		m, err := signInChallenge(t, info, onBase).SignIn(asked, base, x402.EVMAddress([20]byte{1}), now)
		if err != nil {
			return
		}
		if lines := strings.Split(m.Text(), "\n"); len(lines) != 14 || len(m.Text()) > 4<<10 || strings.ContainsAny(m.Text(), "\r\x00") {
			t.Errorf("%q", m.Text())
		}
	})
}
