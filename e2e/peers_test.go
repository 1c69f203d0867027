package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/x402"
)

// clientAnswer is the output of client.mjs. Status is 0 if the client failed with an error.
type clientAnswer struct {
	Status               int
	Body, Receipt, Error string
}

// The harness itself: if this fails, nothing else here means anything.
func TestOfficialClientPaysOfficialSeller(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		seller  seller
		version string
	}{
		"v2":                        {env.v2, "2"},
		"v1":                        {env.v1, "1"},
		"v1 by a newer facilitator": {env.v1Modern, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuyer(t)
			var got clientAnswer
			runPeer(t, "client.mjs", map[string]string{
				"URL": tt.seller.url + "/paid", "PRIVATE_KEY": hexKey(b.key), "VERSION": tt.version,
			}, &got)
			if got.Status != http.StatusOK || !getPaid.delivered(got.Body) {
				t.Fatalf("got %+v", got)
			}
			env.requirePaid(t, b.address, tt.seller.payTo, 1)
		})
	}
}

// Official sellers take what package x402 signs, and give a receipt that it understands.
func TestOfficialSellersTakeOurPayloads(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		seller seller
		order  order
		header string
	}{
		"v2 GET":                     {env.v2, getPaid, x402.HeaderSignature},
		"v2 POST":                    {env.v2, postEcho, x402.HeaderSignature},
		"v2 upfront":                 {env.v2, order{"GET", "/upfront", ""}, x402.HeaderSignature},
		"v1 GET":                     {env.v1, getPaid, x402.HeaderV1Payment},
		"v1 POST":                    {env.v1, postEcho, x402.HeaderV1Payment},
		"v1 POST, newer facilitator": {env.v1Modern, postEcho, x402.HeaderV1Payment},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuyer(t)
			url := tt.seller.url + tt.order.path
			challenge := challengeOf(t, send(t, direct, tt.order.method, url, tt.order.body))
			payload := b.pay(t, challenge)
			if payload.HeaderName() != tt.header {
				t.Fatalf("payload goes into %s, want %s", payload.HeaderName(), tt.header)
			}
			got := send(t, direct, tt.order.method, url, tt.order.body, payload.HeaderName(), payload.Header())
			requireStatus(t, got, http.StatusOK)
			if !tt.order.delivered(got.Body) {
				t.Fatalf("got %s", got.Body)
			}
			receipt, found, err := x402.ReceiptFromHeader(got.Header)
			if err != nil || !found || !receipt.Success {
				t.Fatalf("receipt %+v, found %v: %v", receipt, found, err)
			}
			env.requirePaid(t, b.address, tt.seller.payTo, 1)
			if tx := env.paid(t, b.address)[0].Tx; tx != receipt.Transaction || !x402.ValidTransaction(tx) {
				t.Fatalf("receipt names %s, the chain %s", receipt.Transaction, tx)
			}
			if !x402.SameNetwork(receipt.Network, "base") {
				t.Fatalf("receipt names the network %s", receipt.Network)
			}

			// The same payload once more moves nothing. The words with which the current packages refuse it are those that
			// purser's evidence rests on. The first generation does not say why, and what is paid upfront has no challenge then.
			again := send(t, direct, tt.order.method, url, tt.order.body, payload.HeaderName(), payload.Header())
			requireStatus(t, again, http.StatusPaymentRequired)
			if tt.seller != env.v1 && tt.order.path != "/upfront" && !strings.Contains(challengeOf(t, again).Error, "nonce_already_used") {
				t.Errorf("refused with %v", again)
			}
			env.requirePaid(t, b.address, tt.seller.payTo, 1)
		})
	}
}
