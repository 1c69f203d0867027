package cdp_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	standin "github.com/purserpay/purser/sandbox/cdp"
	"github.com/purserpay/purser/signer/cdp"
	"github.com/purserpay/purser/x402"
)

const keyID = "organizations/purser/apiKeys/test"

// world is a signer at a stand-in for CDP.
type world struct {
	platform *standin.Platform
	signer   *cdp.Signer
	ahead    time.Duration // the signer's clock before the platform's
	secrets  []string

	mu sync.Mutex
	// before, when set, answers instead if it returns true.
	before func(http.ResponseWriter, *http.Request) bool
	seen   []*http.Request
}

func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.seen = append(w.seen, r)
	before := w.before
	w.mu.Unlock()
	if before == nil || !before(out, r) {
		w.platform.ServeHTTP(out, r)
	}
}

func (w *world) set(before func(http.ResponseWriter, *http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = before
}

func (w *world) calls() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

func ecKey(t *testing.T) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wallet, der := ecKey(t)
	w.secrets = []string{base64.StdEncoding.EncodeToString(private), base64.StdEncoding.EncodeToString(der)}
	if w.platform, err = standin.New(standin.Options{KeyID: keyID, KeyAlgorithm: jose.EdDSA, Key: public, WalletKey: &wallet.PublicKey}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(w)
	t.Cleanup(func() {
		server.Close()
		if faults := w.platform.Faults(); len(faults) > 0 {
			t.Errorf("the stand-in has answered what CDP does not: %q", faults)
		}
	})
	credentials, err := cdp.NewCredentials(keyID, w.secrets[0], w.secrets[1], func() time.Time { return time.Now().Add(w.ahead) })
	if err != nil {
		t.Fatal(err)
	}
	if w.signer, err = cdp.New(cdp.Options{URL: server.URL + standin.BasePath, Credentials: credentials, Timeout: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.signer.Close)
	return w
}

func (w *world) wallet(t *testing.T) pay.Wallet {
	t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	made, err := w.signer.Create(t.Context(), id, "base")
	if err != nil {
		t.Fatal(err)
	}
	return pay.Wallet{ID: id, ProviderID: made.ProviderID, Network: "base", Address: made.Address}
}

func message(w pay.Wallet) pay.Message {
	base := x402.Networks()[0]
	a := x402.Authorization{From: *w.Address, To: x402.EVMAddress([20]byte{1}), Value: money.New(1), ValidBefore: 1_900_000_000, Nonce: x402.Nonce{7}}
	return pay.MessageOf(a, base.Assets[0], base.ChainID)
}

func TestSigns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.signer.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, b := w.wallet(t), w.wallet(t)
	if a.ProviderID != "cdp_"+a.Address.String() || *a.Address == *b.Address || w.signer.Name() != "cdp" {
		t.Errorf("wallets %+v, %+v", a, b)
	}
	m := message(a)
	for range 2 { // each with tokens of its own
		signature, err := w.signer.Sign(t.Context(), a, m)
		if err != nil {
			t.Fatal(err)
		}
		if by, err := x402.Recover(m.Digest, signature); err != nil || by != *a.Address {
			t.Errorf("signed by %s, %v", by, err)
		}
	}
	if _, err := w.signer.Sign(t.Context(), b, m); err == nil || !strings.Contains(err.Error(), "the message is from") {
		t.Errorf("error %v", err)
	}
}

// The answer to a creation is lost. The next try gets the account that is there already.
func TestCreatesOneAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lost := 0
	w.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if lost++; lost > 1 {
			return false
		}
		w.platform.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
	w.wallet(t)
	if n := w.platform.Accounts(); n != 1 || w.calls() < 2 {
		t.Errorf("%d accounts by %d calls", n, w.calls())
	}
}

func TestFaultsOfCDP(t *testing.T) {
	t.Parallel()
	says := func(status int, kind, text string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]string{"errorType": kind, "errorMessage": text, "correlationId": "abc-123"})
			return true
		}
	}
	for name, c := range map[string]struct {
		before   func(http.ResponseWriter, *http.Request) bool
		ahead    time.Duration
		fault    pay.SignerFault
		unsigned bool
		text     string
		calls    int
	}{
		"401": {
			before: says(401, "unauthorized", "Wallet authentication error."),
			fault:  pay.SignerDenied, unsigned: true, text: "401 Unauthorized: unauthorized, Wallet authentication error. (correlation abc-123)", calls: 1,
		},
		"a clock that is ahead":  {ahead: 3 * time.Minute, fault: pay.SignerClock, unsigned: true, text: "the clock of this machine is 3m", calls: 1},
		"a clock that is behind": {ahead: -5 * time.Minute, fault: pay.SignerClock, unsigned: true, text: "the signer's", calls: 1},
		"402":                    {before: says(402, "payment_method_required", "Add one."), fault: pay.SignerRefused, unsigned: true, text: "payment_method_required", calls: 1},
		"403":                    {before: says(403, "policy_violation", "No."), fault: pay.SignerRefused, unsigned: true, text: "policy_violation", calls: 1},
		"404":                    {before: says(404, "not_found", "No account."), fault: pay.SignerUnknown, unsigned: true, text: "not_found", calls: 1},
		"409":                    {before: says(409, "already_exists", "Taken."), fault: pay.SignerConflict, unsigned: true, text: "already_exists", calls: 1},
		"422":                    {before: says(422, "idempotency_error", "Used."), fault: pay.SignerConflict, unsigned: true, text: "idempotency_error", calls: 1},
		"429":                    {before: says(429, "rate_limit_exceeded", "Slower."), fault: pay.SignerBusy, unsigned: true, text: "rate_limit_exceeded", calls: 3},
		"500":                    {before: says(500, "internal_server_error", "Oh."), fault: pay.SignerFailing, text: "internal_server_error", calls: 3},
		"a page": {before: func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = io.WriteString(w, "<html>")
			return true
		}, fault: pay.SignerUnreadable, text: "something else than a signature", calls: 1},
		"a short signature": {before: func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = io.WriteString(w, `{"signature":"0x12"}`)
			return true
		}, fault: pay.SignerUnreadable, text: "a signature has 65 bytes", calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			made := w.wallet(t)
			calls := w.calls()
			w.ahead = c.ahead
			w.set(c.before)
			_, err := w.signer.Sign(t.Context(), made, message(made))
			signer, ok := errors.AsType[*pay.SignerError](err)
			if !ok || signer.Fault != c.fault || signer.Unsigned != c.unsigned || !strings.Contains(signer.Error(), c.text) {
				t.Fatalf("error %#v: %v", signer, err)
			}
			if n := w.calls() - calls; n != c.calls {
				t.Errorf("%d calls, want %d", n, c.calls)
			}
			for _, secret := range w.secrets {
				if strings.Contains(err.Error(), secret) {
					t.Error("a secret is in the error")
				}
			}
		})
	}
}

// Retry-After is kept to when the time allows it, else the answer counts.
func TestBusyForLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set(func(out http.ResponseWriter, _ *http.Request) bool {
		out.Header().Set("Retry-After", "60")
		out.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	began := time.Now()
	_, err := w.signer.Create(t.Context(), uuid.NewString(), "base")
	if signer, _ := errors.AsType[*pay.SignerError](err); signer == nil || signer.Fault != pay.SignerBusy || w.calls() != 1 || time.Since(began) > time.Second {
		t.Errorf("error %v after %d calls and %s", err, w.calls(), time.Since(began))
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := base64.StdEncoding.EncodeToString(private)
	broken := base64.StdEncoding.EncodeToString(append(append([]byte{}, private[:32]...), make([]byte, 32)...))
	ec, der := ecKey(t)
	wallet := base64.StdEncoding.EncodeToString(der)
	sec1, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	inPEM := string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1}))
	curve, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.MarshalPKCS8PrivateKey(curve)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ id, key, wallet, text string }{
		{keyID, good, wallet, ""},
		{keyID, inPEM, wallet, ""},
		{keyID, strings.ReplaceAll(inPEM, "\n", `\n`), "", ""},
		{"", good, wallet, "CDP_API_KEY_ID is not set"},
		{keyID, "", wallet, "CDP_API_KEY_SECRET is not set"},
		{keyID, "c2hvcnQ=", wallet, "CDP_API_KEY_SECRET: neither"},
		{keyID, broken, wallet, "CDP_API_KEY_SECRET: the two halves"},
		{keyID, good, "?", "CDP_WALLET_SECRET: not base64"},
		{keyID, good, base64.StdEncoding.EncodeToString(other), "CDP_WALLET_SECRET: not an EC key"},
	} {
		credentials, err := cdp.NewCredentials(c.id, c.key, c.wallet, nil)
		if c.text != "" {
			if err == nil || !strings.Contains(err.Error(), c.text) || len(c.key) > 9 && strings.Contains(err.Error(), c.key) {
				t.Errorf("want %q, got %v", c.text, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := credentials.Bearer(http.MethodGet, &url.URL{Scheme: "https", Host: "a.example", Path: "/b"}); err != nil {
			t.Error(err)
		}
		if _, err := cdp.New(cdp.Options{Credentials: credentials}); (err == nil) != (c.wallet != "") {
			t.Errorf("wallet secret %t, error %v", c.wallet != "", err)
		}
	}
}
