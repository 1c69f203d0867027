package x402_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

const (
	offeredURL = "https://api.example.com/report?x=1"
	baseUSDC   = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
)

// offered is a challenge with one requirement of a seller and the given offers.
func offered(t testing.TB, s x402test.Seller, offers ...any) x402.Challenge {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"x402Version": 2, "resource": map[string]any{"url": offeredURL},
		"accepts": []any{map[string]any{
			"scheme": "exact", "network": "eip155:8453", "amount": "10000", "asset": strings.ToLower(baseUSDC), "payTo": s.Address().String(),
			"maxTimeoutSeconds": 60, "extra": map[string]any{"name": "USD Coin", "version": "2"},
		}},
		"extensions": x402test.Extensions(t, "offers", offers),
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := x402.DecodeHeader(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func honestOffer(s x402test.Seller, until int64) x402test.Fields {
	return x402test.Fields{
		"version": 1, "resourceUrl": offeredURL, "scheme": "exact", "network": "eip155:8453", "asset": baseUSDC,
		"payTo": s.Address().String(), "amount": "10000", "validUntil": until,
	}
}

// Terms that the payee has signed may be paid; terms that differ may not.
func TestSignedOffers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s, another := x402test.NewSeller(t), x402test.NewSeller(t)
	payload := honestOffer(s, now.Unix()+60)
	good := s.Offer(payload)
	changed := func(name string, value any) x402test.Fields { return s.Offer(payload.With(name, value)) }
	jws := x402test.Fields{"format": "jws", "acceptIndex": 0, "signature": "eyJhbGciOiJFUzI1NiJ9.e30.c2ln"}
	for name, tt := range map[string]struct {
		offers []any
		said   x402.OfferWord
		fault  x402.OfferFault
	}{
		"none":                            {nil, x402.OfferNone, ""},
		"its own":                         {[]any{good}, x402.OfferVerified, ""},
		"its own, named":                  {[]any{good.With("acceptIndex", 0)}, x402.OfferVerified, ""},
		"its own, named wrongly":          {[]any{good.With("acceptIndex", 7)}, x402.OfferVerified, ""},
		"without an end":                  {[]any{changed("validUntil", nil)}, x402.OfferVerified, ""},
		"with its own end of 0":           {[]any{changed("validUntil", 0)}, x402.OfferVerified, ""},
		"beside one of another chain":     {[]any{changed("network", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"), good}, x402.OfferVerified, ""},
		"beside a JWS":                    {[]any{jws, good}, x402.OfferVerified, ""},
		"only a JWS":                      {[]any{jws}, x402.OfferUnchecked, ""},
		"only a later version":            {[]any{changed("version", 2)}, x402.OfferUnchecked, ""},
		"only another format":             {[]any{good.With("format", "cose")}, x402.OfferUnchecked, ""},
		"another payee":                   {[]any{changed("payTo", another.Address().String())}, 0, x402.OfferDiffers},
		"another payee, who has signed":   {[]any{another.Offer(payload.With("payTo", another.Address().String()))}, 0, x402.OfferDiffers},
		"another amount":                  {[]any{changed("amount", "1")}, 0, x402.OfferDiffers},
		"another amount, named":           {[]any{changed("amount", "1").With("acceptIndex", 0), good}, 0, x402.OfferDiffers},
		"another network":                 {[]any{changed("network", "eip155:84532")}, 0, x402.OfferDiffers},
		"another asset":                   {[]any{changed("asset", "0x036CbD53842c5426634e7929541eC2318f3dCF7e")}, 0, x402.OfferDiffers},
		"another scheme":                  {[]any{changed("scheme", "upto")}, 0, x402.OfferDiffers},
		"another resource":                {[]any{changed("resourceUrl", "https://api.example.com/cheap")}, 0, x402.OfferDiffers},
		"twice":                           {[]any{good, good}, 0, x402.OfferDiffers},
		"twice with another end":          {[]any{good, changed("validUntil", now.Unix()+90)}, 0, x402.OfferDiffers},
		"expired":                         {[]any{changed("validUntil", now.Unix()-1)}, 0, x402.OfferExpired},
		"signed by another":               {[]any{another.Offer(payload)}, 0, x402.OfferForged},
		"changed after it was signed":     {[]any{good.With("payload", payload.With("validUntil", now.Unix()+61))}, 0, x402.OfferForged},
		"with a signature of a receipt":   {[]any{s.Receipt(payload).With("payload", payload)}, 0, x402.OfferForged},
		"with no signature":               {[]any{good.With("signature", "0x")}, 0, x402.OfferForged},
		"with a signature of another v":   {[]any{good.With("signature", good["signature"].(string)[:130]+"1d")}, 0, x402.OfferForged},
		"without a payload":               {[]any{good.With("payload", nil)}, 0, x402.OfferUnreadable},
		"without a payee":                 {[]any{changed("payTo", nil)}, 0, x402.OfferUnreadable},
		"with a number for a text":        {[]any{good.With("payload", payload.With("amount", 10000))}, 0, x402.OfferUnreadable},
		"with an end that is no number":   {[]any{good.With("payload", payload.With("validUntil", "soon"))}, 0, x402.OfferUnreadable},
		"with an end before 1970":         {[]any{good.With("payload", payload.With("validUntil", -1))}, 0, x402.OfferUnreadable},
		"without a signature":             {[]any{good.With("signature", nil)}, 0, x402.OfferUnreadable},
		"with an index that is no number": {[]any{good.With("acceptIndex", "0")}, 0, x402.OfferUnreadable},
		"not an object":                   {[]any{"offer"}, 0, x402.OfferUnreadable},
		"65 of them":                      {many(good, 65), 0, x402.OfferUnreadable},
	} {
		said, err := offered(t, s, tt.offers...).SignedOffers().Of(0, now)
		wrong, _ := errors.AsType[*x402.SignedOfferError](err)
		if name == "another amount, named" && !strings.Contains(err.Error(), "signed 0.000001 USDC and asks 0.01 USDC") {
			t.Errorf("%s: %v", name, err)
		}
		if tt.fault == "" && err != nil || tt.fault != "" && (wrong == nil || wrong.Fault != tt.fault) || said != tt.said {
			t.Errorf("%s: %d, %v", name, said, err)
		}
	}
}

func many(offer any, n int) (list []any) {
	for range n {
		list = append(list, offer)
	}
	return list
}

// A seller that is paid at an address without a key signs with another one, which the caller must know.
func TestOfferSigners(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s, signer, thief := x402test.NewSeller(t), x402test.NewSeller(t), x402test.NewSeller(t)
	payload := honestOffer(s, 0)
	if said, err := offered(t, s, signer.Offer(payload)).SignedOffers().Of(0, now, thief.Address(), signer.Address()); said != x402.OfferVerified || err != nil {
		t.Errorf("a known signer: %d, %v", said, err)
	}
	if said, err := offered(t, s, s.Offer(payload)).SignedOffers().Of(0, now, signer.Address()); said != x402.OfferVerified || err != nil {
		t.Errorf("the payee beside a known signer: %d, %v", said, err)
	}
	if _, err := offered(t, s, thief.Offer(payload)).SignedOffers().Of(0, now, signer.Address()); err == nil {
		t.Error("another signer than the known one")
	}
	if _, err := offered(t, s, signer.Offer(payload.With("amount", "1"))).SignedOffers().Of(0, now, signer.Address()); err == nil {
		t.Error("other terms by a known signer")
	}
}

// An extension that two readers could read in two ways is not read at all.
func TestSignedOffersInTwoWays(t *testing.T) {
	t.Parallel()
	s := x402test.NewSeller(t)
	good, err := json.Marshal(s.Offer(honestOffer(s, 0)))
	if err != nil {
		t.Fatal(err)
	}
	c := offered(t, s)
	for name, extensions := range map[string]string{
		"two extensions": `{"offer-receipt":{"info":{"offers":[%[1]s]}},"offer-receipt":{}}`,
		"two infos":      `{"offer-receipt":{"info":{"offers":[%[1]s]},"info":{}}}`,
		"two lists":      `{"offer-receipt":{"info":{"offers":[%[1]s],"offers":[]}}}`,
		"no info":        `{"offer-receipt":{}}`,
		"no list":        `{"offer-receipt":{"info":{"offers":%[1]s}}}`,
		"no object":      `{"offer-receipt":[%[1]s]}`,
		"not JSON":       `{"offer-receipt":{"info":{"offers":[%[1]s]}}`,
	} {
		c.Extensions = fmt.Appendf(nil, extensions, good)
		_, err := c.SignedOffers().Of(0, time.Now())
		if wrong, _ := errors.AsType[*x402.SignedOfferError](err); wrong == nil || wrong.Fault != x402.OfferUnreadable {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Extensions = json.RawMessage(`{"offer-receipt":{"info":{"receipt":{}}},"other":1}`)
	if said, err := c.SignedOffers().Of(0, time.Now()); said != x402.OfferNone || err != nil {
		t.Errorf("without offers: %d, %v", said, err)
	}
}

// Once the seller signs, each of several requirements needs an offer of its own.
func TestSignedOffersOfSeveralRequirements(t *testing.T) {
	t.Parallel()
	s := x402test.NewSeller(t)
	payload := honestOffer(s, 0)
	c := offered(t, s, s.Offer(payload.With("amount", "20000")).With("acceptIndex", 1))
	second, err := x402.DecodeHeader(strings.Replace(string(c.Accepts[0].Raw), `"10000"`, `"20000"`, 1))
	if err != nil {
		t.Fatal(err)
	}
	c.Accepts = append(c.Accepts, second.Accepts[0])
	if _, err := c.SignedOffers().Of(0, time.Now()); err == nil {
		t.Error("the first requirement is paid without an offer")
	}
	if said, err := c.SignedOffers().Of(1, time.Now()); said != x402.OfferVerified || err != nil {
		t.Errorf("the second requirement: %d, %v", said, err)
	}
}

// Each recovered signer costs as much as a signature, so a challenge gets few of them.
func TestForgedOffersOfOneChallenge(t *testing.T) {
	t.Parallel()
	s, thief := x402test.NewSeller(t), x402test.NewSeller(t)
	payload := honestOffer(s, 0)
	offers := []any{}
	c := offered(t, s)
	first := string(c.Accepts[0].Raw)
	for i := range 6 {
		amount := fmt.Sprint(10_000 + i)
		by := thief
		if i == 5 {
			by = s
		}
		offers = append(offers, by.Offer(payload.With("amount", amount)))
		one, err := x402.DecodeHeader(strings.Replace(first, `"10000"`, `"`+amount+`"`, 1))
		if err != nil {
			t.Fatal(err)
		}
		c.Accepts = append(c.Accepts[:i:i], one.Accepts[0])
	}
	c.Extensions = x402test.Extensions(t, "offers", offers)
	read := c.SignedOffers()
	for i := range 6 {
		_, err := read.Of(i, time.Now())
		wrong, _ := errors.AsType[*x402.SignedOfferError](err)
		if wrong == nil || wrong.Fault != x402.OfferForged || (i >= 4) != strings.Contains(wrong.Detail, "4 other offers") {
			t.Errorf("requirement %d: %v", i, err)
		}
	}
	if said, err := c.SignedOffers().Of(5, time.Now()); said != x402.OfferVerified || err != nil {
		t.Errorf("the honest offer alone: %d, %v", said, err)
	}
}
