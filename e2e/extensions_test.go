package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/go-jose/go-jose/v4"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/x402"
)

// startExtensions starts a seller with the extensions that protect buyers.
func startExtensions(t *testing.T) seller {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	payTo := crypto.PubkeyToAddress(key.PublicKey)
	s, err := env.startSeller("seller-extensions.mjs", env.facilitator, map[string]string{"PRIVATE_KEY": hexKey(key), "PAY_TO": payTo.Hex()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// signedReceipt is a seller's signed receipt in the API's answers.
type signedReceipt struct {
	Verified bool
	Receipt  struct {
		Format, Signature string
		Payload           struct{ ResourceURL, Payer, Transaction string }
	}
}

// receiptOf returns the signed receipt that is kept with a payment.
func (p *payer) receiptOf(t *testing.T, id string) *signedReceipt {
	t.Helper()
	var one struct {
		Payment struct{ SignedReceipt *signedReceipt }
	}
	decode(t, p.call(t, "GET", "/v1/payments/"+id, ""), http.StatusOK, &one)
	return one.Payment.SignedReceipt
}

// purser reads what the official seller signs, and keeps its receipt with the payment.
func TestSignedOfferAndReceipt(t *testing.T) {
	t.Parallel()
	s, p := startExtensions(t), sharedPurser(t)
	for path, want := range map[string]signedReceipt{"/signed": {Verified: true}, "/jws": {}} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			payer := p.newPayer(t)
			said, err := challengeOf(t, send(t, direct, "GET", s.url+path, "")).SignedOffers().Of(0, time.Now())
			if err != nil || (said == x402.OfferVerified) != want.Verified {
				t.Fatalf("the offer: %d, %v", said, err)
			}
			got := send(t, payer.proxied(), "GET", s.url+path, "")
			requireStatus(t, got, http.StatusOK)
			payer.requireOnce(t, s.payTo)
			kept := payer.receiptOf(t, got.Header.Get("Purser-Payment"))
			if kept == nil || kept.Verified != want.Verified {
				t.Fatalf("kept %+v", kept)
			}
			if tx := kept.Receipt.Payload.Transaction; tx != "" && tx != got.Header.Get("Purser-Transaction") {
				t.Errorf("the receipt names %q", tx)
			}
		})
	}
}

// No payment is made where the seller's signature says something else than its price.
func TestOfferRefused(t *testing.T) {
	t.Parallel()
	s, p := startExtensions(t), sharedPurser(t)
	to, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	// It stands between purser and the seller, and has the money paid to itself.
	thief := httputil.NewSingleHostReverseProxy(to)
	thief.ModifyResponse = func(resp *http.Response) error {
		if value := resp.Header.Get(x402.HeaderRequired); value != "" {
			resp.Header.Set(x402.HeaderRequired, redirected(t, value))
		}
		return nil
	}
	between := httptest.NewServer(thief)
	t.Cleanup(between.Close)
	for name, tt := range map[string]struct{ url, reason string }{
		"another payee":     {between.URL + "/signed", "offer-differs"},
		"signed by another": {s.url + "/forged", "offer-signature"},
		"expired":           {s.url + "/expired", "offer-expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payer := p.newPayer(t)
			got := send(t, payer.proxied(), "GET", tt.url, "")
			requireStatus(t, got, http.StatusPaymentRequired)
			if reason := got.Header.Get("Purser-Declined"); reason != tt.reason {
				t.Errorf("declined with %q, want %q", reason, tt.reason)
			}
			if all := payer.payments(t, ""); len(all) != 0 {
				t.Errorf("journaled %+v", all)
			}
			env.requirePaid(t, payer.wallet, s.payTo, 0)
		})
	}
}

// The refusal names the signer. Once the operator lists it, the seller is paid and its receipt counts.
func TestOfferSigner(t *testing.T) {
	t.Parallel()
	s := startExtensions(t)
	careful := sharedPurser(t).newPayer(t)
	got := send(t, careful.proxied(), "GET", s.url+"/forged", "")
	requireStatus(t, got, http.StatusPaymentRequired)
	p := newPurser(t, env.facilitator, "PURSER_OFFER_SIGNERS="+address.FindString(got.Header.Get("Purser-Declined-Detail")))
	p.start(t)
	payer := p.newPayer(t)
	got = send(t, payer.proxied(), "GET", s.url+"/forged", "")
	requireStatus(t, got, http.StatusOK)
	payer.requireOnce(t, s.payTo)
	if kept := payer.receiptOf(t, got.Header.Get("Purser-Payment")); kept == nil || !kept.Verified {
		t.Errorf("kept %+v", kept)
	}
}

// redirected replaces the payee of a challenge's requirements, and leaves its offers.
func redirected(t *testing.T, value string) string {
	var challenge map[string]json.RawMessage
	text, err := base64.StdEncoding.DecodeString(value)
	if err == nil {
		err = json.Unmarshal(text, &challenge)
	}
	var accepts []map[string]any
	if err == nil {
		err = json.Unmarshal(challenge["accepts"], &accepts)
	}
	if err != nil {
		t.Error(err)
		return value
	}
	accepts[0]["payTo"] = common.HexToAddress("0x00000000000000000000000000000000000A11cE").Hex()
	challenge["accepts"], _ = json.Marshal(accepts)
	text, _ = json.Marshal(challenge)
	return base64.StdEncoding.EncodeToString(text)
}

// proof has the members of SIGN-IN-WITH-X that the seller got.
type proof struct{ Path, Domain, Address, URI, Nonce, ChainID string }

func proofs(t *testing.T, s seller) (list []proof) {
	t.Helper()
	decode(t, send(t, direct, "GET", s.url+"/proofs", ""), http.StatusOK, &list)
	return list
}

// startMember starts a purser that may sign in to a seller, and a seller.
func startMember(t *testing.T) (*purser, seller) {
	t.Helper()
	s := startExtensions(t)
	// The seller's origin is that of its first request.
	requireStatus(t, send(t, direct, "GET", s.url+"/member", ""), http.StatusPaymentRequired)
	p := preparePurser(t, filepath.Join(t.TempDir(), "data"), env.settlements.url, "PURSER_SIGN_IN_HOSTS=127.0.0.1")
	p.start(t)
	return p, s
}

// A page that was paid once is served for a signature, and no money moves.
func TestSignIn(t *testing.T) {
	t.Parallel()
	p, s := startMember(t)
	payer := p.newPayer(t)
	client := payer.proxied()
	first := send(t, client, "GET", s.url+"/member?page=1", "")
	requireStatus(t, first, http.StatusOK)
	payer.requireOnce(t, s.payTo)
	if seen := proofs(t, s); len(seen) != 0 {
		t.Fatalf("signed in before anything was paid: %+v", seen)
	}
	for _, order := range []order{{"GET", "/member?page=2", ""}, {"POST", "/member", "a body that is sent again"}} {
		got := send(t, client, order.method, s.url+order.path, order.body)
		requireStatus(t, got, http.StatusOK)
		if got.Header.Get("Purser-Payment") != "" || !strings.Contains(got.Header.Get("Cache-Control"), "no-store") || !strings.Contains(got.Body, order.body) {
			t.Errorf("%s %s: %v %s", order.method, order.path, got.Header, got.Body)
		}
	}
	env.requirePaid(t, payer.wallet, s.payTo, 1)
	seen := proofs(t, s)
	if len(seen) != 2 || seen[0].Nonce == seen[1].Nonce {
		t.Fatalf("signed in with %+v", seen)
	}
	for _, one := range seen {
		if one.Address != payer.wallet.Hex() || "http://"+one.Domain != s.url || !strings.HasPrefix(one.URI, s.url+"/member") || one.ChainID != "eip155:8453" {
			t.Errorf("signed in with %+v", one)
		}
	}

	// Another page is paid for, and a client that wants a purchase of its own buys.
	requireStatus(t, send(t, client, "GET", s.url+"/other", ""), http.StatusOK)
	requireStatus(t, send(t, client, "GET", s.url+"/other", "", "Purser-Again", "new"), http.StatusOK)
	payer.requireSettled(t, s.payTo, 3)
	if len(proofs(t, s)) != 2 {
		t.Errorf("signed in with %+v", proofs(t, s))
	}
}

// A signer outside purser signs in if it has personal_sign. With one that has not, purser pays.
func TestSignInWithASigner(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		settings func() (string, []string)
		payments int
	}{
		"external": {func() (string, []string) {
			return env.facilitator, []string{"PURSER_WALLETS=external", "PURSER_SIGNER_URL=" + process.StartSigner(t)}
		}, 1},
		"cdp": {func() (string, []string) { return cdpSettings(t, jose.EdDSA) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startExtensions(t)
			facilitator, settings := tt.settings()
			p := newPurser(t, facilitator, append(settings, "PURSER_SIGN_IN_HOSTS=127.0.0.1")...)
			p.start(t)
			payer := p.newPayer(t)
			for range 2 {
				requireStatus(t, send(t, payer.proxied(), "GET", s.url+"/member", ""), http.StatusOK)
			}
			payer.requireSettled(t, s.payTo, tt.payments)
		})
	}
}

// Over TLS, the name that the seller is reached by is that it signs for, at the proxy and at the sidecar.
func TestSignInOverTLS(t *testing.T) {
	t.Parallel()
	for _, door := range []string{"proxy", "sidecar"} {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			s := startExtensions(t)
			var payer *payer
			client, base := direct, ""
			if door == "sidecar" {
				payer = startSidecar(t, s.tls, "PURSER_SIGN_IN_HOSTS=127.0.0.1")
				base = payer.sidecar()
			} else {
				p := newPurser(t, env.facilitator, "PURSER_SIGN_IN_HOSTS="+nameV2)
				p.start(t)
				payer = p.newPayer(t)
				client, base = payer.behind(t, true), s.under(t, "https")
			}
			for range 3 {
				requireStatus(t, send(t, client, "GET", base+"/member", ""), http.StatusOK)
				payer.requireSettled(t, s.payTo, 1) // the next one is signed in to once the chain has the payment
			}
		})
	}
}

// No signature leaves for a key that has not paid, for a host that is not listed, for another domain, or where
// nothing can be bought.
func TestNoSignIn(t *testing.T) {
	t.Parallel()
	p, s := startMember(t)
	payer := p.newPayer(t)
	requireStatus(t, send(t, payer.proxied(), "GET", s.url+"/member", ""), http.StatusOK)

	another := p.newPayer(t)
	requireStatus(t, send(t, another.proxied(), "GET", s.url+"/member", ""), http.StatusOK)
	another.requireOnce(t, s.payTo)

	unlisted := sharedPurser(t).newPayer(t)
	for range 2 {
		requireStatus(t, send(t, unlisted.proxied(), "GET", s.url+"/member", ""), http.StatusOK)
	}
	unlisted.requireSettled(t, s.payTo, 2)

	// It is reached by another name than it signs for, so its sign-in could be another site's.
	relay := startRelay(t, s.url)
	for range 2 {
		requireStatus(t, send(t, payer.proxied(), "GET", relay.url+"/member", ""), http.StatusOK)
	}
	payer.requireSettled(t, s.payTo, 3)

	got := send(t, payer.proxied(), "GET", s.url+"/member-only", "")
	requireStatus(t, got, http.StatusPaymentRequired)
	if reason := got.Header.Get("Purser-Declined"); reason != "unsupported" {
		t.Errorf("declined with %q", reason)
	}
	if seen := proofs(t, s); len(seen) != 0 {
		t.Errorf("signed in with %+v", seen)
	}
}

// A sign-in that the seller does not accept is paid for.
func TestSignInRefused(t *testing.T) {
	t.Parallel()
	p, s := startMember(t)
	payer := p.newPayer(t)
	for n := range 3 {
		got := send(t, payer.proxied(), "GET", s.url+"/forgetful", "")
		requireStatus(t, got, http.StatusOK)
		if got.Header.Get("Purser-Payment") == "" || len(proofs(t, s)) != n {
			t.Errorf("request %d: %v, signed in %+v", n, got.Header, proofs(t, s))
		}
	}
	payer.requireSettled(t, s.payTo, 3)
}
