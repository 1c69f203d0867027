package e2e

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

// buyer pays by itself, with nothing of purser but package x402.
type buyer struct {
	key     *ecdsa.PrivateKey
	address common.Address
}

func newBuyer(t *testing.T) *buyer {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	b := &buyer{key, crypto.PubkeyToAddress(key.PublicKey)}
	env.fund(t, b.address)
	return b
}

// pay signs what the first requirement of a challenge asks.
func (b *buyer) pay(t *testing.T, challenge x402.Challenge) x402.Payload {
	t.Helper()
	want := challenge.Accepts[0]
	network, asset, err := want.Supports()
	if err != nil {
		t.Fatalf("requirement %s: %v", want.Raw, err)
	}
	authorization := x402.Authorization{
		From:        x402.EVMAddress(b.address),
		To:          want.PayTo,
		Value:       want.Amount,
		ValidBefore: uint64(time.Now().Add(want.MaxTimeout).Unix()),
	}
	if _, err := rand.Read(authorization.Nonce[:]); err != nil {
		t.Fatal(err)
	}
	signature, err := x402test.Sign(authorization.Digest(asset, network.ChainID), b.key)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := challenge.Offer(0).Payload(authorization, signature)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

type answer = process.Answer

// direct talks to sellers without any proxy.
var direct = process.Client(nil, nil)

// send makes one request; header holds names and values in turn.
func send(t *testing.T, client *http.Client, method, url, body string, header ...string) answer {
	t.Helper()
	got, err := process.Ask(t.Context(), client, method, url, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return got
}

// challengeOf decodes the 402 of a seller.
func challengeOf(t *testing.T, a answer) x402.Challenge {
	t.Helper()
	if a.Status != http.StatusPaymentRequired {
		t.Fatalf("status %d, want 402: %s", a.Status, a.Body)
	}
	challenge, found, err := x402.FromResponse(a.Header, []byte(a.Body))
	if err != nil || !found {
		t.Fatalf("no challenge in %v %s: %v", a.Header, a.Body, err)
	}
	return challenge
}

// requireStatus fails unless an answer has a status.
func requireStatus(t *testing.T, a answer, want int) {
	t.Helper()
	if a.Status != want {
		t.Fatalf("status %d, want %d\n%v\n%s", a.Status, want, a.Header, a.Body)
	}
}

// order is one thing to buy from a seller.
type order struct {
	method, path, body string
}

var (
	getPaid  = order{"GET", "/paid?city=Kiel", ""}
	postEcho = order{"POST", "/echo", `{"question":"how much is the fish?"}`}
)

// delivered reports whether a body is what the seller makes for the order.
func (o order) delivered(body string) bool {
	if o.method == "POST" {
		return strings.Contains(body, `how much is the fish?`) && strings.Contains(body, "application/json")
	}
	return strings.Contains(body, `"sunny"`)
}

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
