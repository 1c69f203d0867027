package x402_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/x402"
)

// What @x402/extensions 2.27.0 has signed with the key 0x0101…01.
const (
	goldenSigner = "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1"
	goldenURL    = "https://api.example.com/report?x=1&y=ü"
	goldenOffer  = `{"format":"eip712","acceptIndex":0,"payload":{"version":1,"resourceUrl":"` + goldenURL + `","scheme":"exact",` +
		`"network":"eip155:8453","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","payTo":"` + goldenSigner + `","amount":"10000",` +
		`"validUntil":1763200060},"signature":"0x2dc7642db49244bd7b39e194716b6c8ca1de4d6dda0478f83f888a086a7eabee657276aaf09a7671c41c0cdca0cce` +
		`6487687ead6e3ec0b8d3e2b2c9946874b601c"}`
	goldenReceipt = `{"format":"eip712","payload":{"version":1,"network":"eip155:8453","resourceUrl":"` + goldenURL + `",` +
		`"payer":"0x0700000000000000000000000000000000000000","issuedAt":1763200000,"transaction":"` + receiptTx + `"},` +
		`"signature":"0x43d41d018b64e313856677f29bf3043d581ce6c14026473f8adb60563cfae0eb2ffd30dd31990c153ad89999af8f5d7f0c53627cc06f2dfa5fe2c` +
		`2d9ca1401db1c"}`
)

func TestSignaturesOfTheReferencePackage(t *testing.T) {
	t.Parallel()
	now := time.Unix(1763200060, 0)
	c, err := x402.DecodeHeader(`{"x402Version":2,"resource":{"url":"` + goldenURL + `"},"accepts":[{"scheme":"exact","network":"eip155:8453",` +
		`"amount":"10000","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","payTo":"` + goldenSigner + `","maxTimeoutSeconds":60}],` +
		`"extensions":{"offer-receipt":{"info":{"offers":[` + goldenOffer + `]},"schema":{}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if said, err := c.SignedOffers().Of(0, now); said != x402.OfferVerified || err != nil {
		t.Errorf("the offer: %d, %v", said, err)
	}
	if _, err := c.SignedOffers().Of(0, now.Add(time.Second)); err == nil {
		t.Error("the offer is valid after its end")
	}
	r, err := x402.DecodeReceipt(`{"success":true,"transaction":"` + receiptTx + `","network":"eip155:8453",` +
		`"extensions":{"offer-receipt":{"info":{"receipt":` + goldenReceipt + `},"schema":{}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	of := x402.ReceiptTerms{
		Network: "base", Payer: x402.EVMAddress([20]byte{7}), Payee: c.Accepts[0].PayTo, Resources: []string{goldenURL},
		NotBefore: now.Add(-time.Hour), NotAfter: now,
	}
	if kept, err := r.SignedReceipt(of); string(kept) != goldenReceipt || err != nil || !x402.VerifiedReceipt(kept) {
		t.Errorf("the receipt: %s, %v", kept, err)
	}
}

// Whatever stands beside a requirement, reading it ends with a word on it or a fault that has a name.
func FuzzSignedOffer(f *testing.F) {
	f.Add(`{"offer-receipt":{"info":{"offers":[` + goldenOffer + `]}}}`)
	f.Add(`{"offer-receipt":{"info":{"offers":[` + strings.Replace(goldenOffer, "eip712", "jws", 1) + `,{"format":"eip712"}]}}}`)
	f.Add(`{"offer-receipt":null}`)
	f.Add(`{"offer-receipt":{"info":`)
	f.Fuzz(func(t *testing.T, extensions string) {
		c, err := x402.DecodeHeader(challengeV2)
		if err != nil {
			t.Fatal(err)
		}
		c.Extensions = json.RawMessage(extensions)
		if said, err := c.SignedOffers().Of(0, time.Unix(1763200000, 0)); err != nil && (said != x402.OfferNone || !strings.HasPrefix(err.Error(), "signed offer (")) {
			t.Errorf("%d, %v", said, err)
		}
		receipt := `{"success":true,"extensions":` + extensions + `}`
		if r, err := x402.DecodeReceipt(receipt); err == nil {
			if kept, err := r.SignedReceipt(x402.ReceiptTerms{}); kept != nil && err != nil {
				t.Errorf("kept %s, %v", kept, err)
			}
		}
	})
}
