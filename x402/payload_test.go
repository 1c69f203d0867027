package x402_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

var (
	someAuthorization = x402.Authorization{
		From: x402.EVMAddress([20]byte{1}), To: x402.EVMAddress([20]byte{2}), Value: money.New(10000), ValidBefore: 1800000000, Nonce: x402.Nonce{3},
	}
	someSignature = x402.Signature{4, 64: 27}
)

// strange is a v2 challenge that an ordinary JSON round trip would change in many places.
const (
	strangeEntry = "{ \"scheme\" : \"exact\",\n\t\"network\":\"eip155:8453\", \"amount\":\"10000\", \"asset\":\"0x833589fcd6edb6e08f4c7c32d4f71b54bda02913\"," +
		"\"payTo\":\"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\",\"maxTimeoutSeconds\":60.0, \"big\":123456789012345678901234567890," +
		"\"tiny\":1.0E-5, \"html\":\"<script>&\u2028\", \"esc\":\"\\u0041\\/\", \"extra\":{ \"name\":\"USD Coin\",\"version\":\"2\" ,\"z\":null} }"
	strangeResource   = "{\"url\" : \"https://api.example.com/?a=1&b=<2>\", \"tags\":[ ] }"
	strangeExtensions = "{ \"z\":{\"info\":{ \"n\":1e2 }}, \"a\":null }"
	strangeChallenge  = "{\"extensions\":" + strangeExtensions + " ,\"accepts\":[null, " + strangeEntry + " ], \"resource\":" + strangeResource + ",\"x402Version\":2}"
)

func TestPayloadEchoesByteForByte(t *testing.T) {
	t.Parallel()
	c := must(x402.DecodeHeader(b64(strangeChallenge)))
	offer := c.Offer(1)
	kept := must(json.Marshal(struct{ Offer x402.Offer }{offer}))
	var restored struct{ Offer x402.Offer }
	if err := json.Unmarshal(kept, &restored); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]x402.Offer{"fresh": offer, "kept": restored.Offer} {
		p, err := o.Payload(someAuthorization, someSignature)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sent, err := base64.StdEncoding.DecodeString(p.Header())
		if err != nil || p.HeaderName() != "PAYMENT-SIGNATURE" {
			t.Fatalf("%s: %s, %v", name, p.HeaderName(), err)
		}
		want := `{"x402Version":2,"resource":` + strangeResource + `,"accepted":` + strangeEntry + `,"payload":` + signedJSON + `,"extensions":` + strangeExtensions + `}`
		if string(sent) != want {
			t.Errorf("%s: sent\n%s\nwant\n%s", name, sent, want)
		}
	}
}

// signedJSON is the wire form of someAuthorization and someSignature.
var signedJSON = `{"signature":"0x04` + strings.Repeat("00", 63) + `1b","authorization":{` +
	`"from":"0x0100000000000000000000000000000000000000","to":"0x0200000000000000000000000000000000000000","value":"10000",` +
	`"validAfter":"0","validBefore":"1800000000","nonce":"0x03` + strings.Repeat("00", 31) + `"}}`

func TestPayloadV1(t *testing.T) {
	t.Parallel()
	c := must(x402.DecodeBody([]byte(challengeV1)))
	p := must(c.Offer(0).Payload(someAuthorization, someSignature))
	want := `{"x402Version":1,"scheme":"exact","network":"base-sepolia","payload":` + signedJSON + `}`
	if string(p.JSON) != want || p.HeaderName() != "X-PAYMENT" {
		t.Errorf("%s: %s\nwant %s", p.HeaderName(), p.JSON, want)
	}
}

func TestPayloadWithoutOptionalParts(t *testing.T) {
	t.Parallel()
	c := must(x402.DecodeHeader(entryV2))
	p, err := c.Offer(0).Payload(someAuthorization, someSignature)
	if want := `{"x402Version":2,"accepted":` + entryV2 + `,"payload":` + signedJSON + `}`; err != nil || string(p.JSON) != want {
		t.Errorf("%s, %v\nwant %s", p.JSON, err, want)
	}
}

func TestPayloadComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := drawAuthorization(t)
		s := x402.Signature(rapid.SliceOfN(rapid.Byte(), 65, 65).Draw(t, "signature"))
		challenge := rapid.SampledFrom([]string{challengeV1, challengeV2, strangeChallenge}).Draw(t, "challenge")
		c := must(x402.DecodeHeader(challenge))
		p := must(c.Offer(len(c.Accepts)-1).Payload(a, s))
		received, err := x402.DecodePayload(p.Header())
		if err != nil || received.Version != c.Version || string(received.JSON) != string(p.JSON) {
			t.Fatalf("received %+v, %v", received, err)
		}
		if gotA, gotS, err := received.Authorization(); err != nil || gotA != a || gotS != s {
			t.Fatalf("%v, %v, %v", gotA, gotS, err)
		}
	})
}

func TestOfferJSONIsLossless(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		in := x402.Offer{Version: 2, Accepted: json.RawMessage(text.Draw(t, "accepted")), Resource: json.RawMessage(text.Draw(t, "resource"))}
		var out x402.Offer
		if err := json.Unmarshal(must(json.Marshal(in)), &out); err != nil {
			t.Fatal(err)
		}
		if out.Version != 2 || !slices.Equal(out.Accepted, in.Accepted) || !slices.Equal(out.Resource, in.Resource) || out.Extensions != nil {
			t.Fatalf("%+v came back as %+v", in, out)
		}
	})
	if _, err := json.Marshal(x402.Offer{Accepted: json.RawMessage("\xff")}); err == nil {
		t.Error("bytes that would be lost were kept")
	}
	if err := json.Unmarshal([]byte(`{"accepted":{}}`), &x402.Offer{}); err == nil {
		t.Error("an object instead of text was taken")
	}
}

func TestBadOffers(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]x402.Offer{
		"empty":          {},
		"no version":     {Accepted: json.RawMessage(entryV2)},
		"version 3":      {Version: 3, Accepted: json.RawMessage(entryV2)},
		"not an object":  {Version: 2, Accepted: json.RawMessage(`[]`)},
		"v1 scheme":      {Version: 1, Accepted: json.RawMessage(`{"network":"base"}`)},
		"v1 network":     {Version: 1, Accepted: json.RawMessage(`{"scheme":"exact","network":null}`)},
		"injection":      {Version: 2, Accepted: json.RawMessage(entryV2 + `,"payload":{}`)},
		"bad resource":   {Version: 2, Accepted: json.RawMessage(entryV2), Resource: json.RawMessage(`{`)},
		"bad extensions": {Version: 2, Accepted: json.RawMessage(entryV2), Extensions: json.RawMessage(`}`)},
	} {
		if p, err := o.Payload(someAuthorization, someSignature); err == nil {
			t.Errorf("%s: %s", name, p.JSON)
		}
	}
}

func TestBadPayloads(t *testing.T) {
	t.Parallel()
	good := `{"x402Version":1,"scheme":"exact","network":"base","payload":` + signedJSON + `}`
	for name, value := range map[string]string{
		"empty": "", "plain JSON": good, "unpadded": strings.TrimRight(b64(good+" "), "=") + "A", "url-safe": base64.URLEncoding.EncodeToString([]byte(good + `???>>>`)),
		"array": b64("[]"), "no version": b64("{}"), "version 3": b64(`{"x402Version":3}`), "two versions": b64(`{"x402Version":1,"x402Version":2}`),
		"deep": b64(strings.Repeat("[", 100)), "large": strings.Repeat("AAAA", x402.MaxHeaderBytes),
	} {
		if p, err := x402.DecodePayload(value); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for _, c := range []struct{ old, replacement string }{
		{`"10000"`, `10000`},
		{`"10000"`, `"-1"`},
		{`"0"`, `"00"`},
		{`"1800000000"`, `"99999999999999999999"`},
		{`"1800000000"`, `"1.5"`},
		{`"nonce"`, `"Nonce"`},
		{`"to"`, `"from"`},
		{`"signature":"0x04`, `"signature":"0x0404`},
		{`"signature"`, `"sig"`},
		{`"authorization"`, `"permit2Authorization"`},
		{`"payload"`, `"payloads"`},
		{signedJSON, `null`},
	} {
		p, err := x402.DecodePayload(b64(strings.Replace(good, c.old, c.replacement, 1)))
		if err != nil {
			t.Errorf("%s: %v", c.replacement, err)
		}
		if a, _, err := p.Authorization(); err == nil {
			t.Errorf("%s: %+v", c.replacement, a)
		}
	}
	if _, _, err := (x402.Payload{}).Authorization(); err == nil {
		t.Error("an empty payload has an authorization")
	}
	if _, err := x402.DecodePayload(strings.Repeat("AAAA", x402.MaxHeaderBytes)); !errors.Is(err, x402.ErrTooLarge) {
		t.Errorf("large: %v", err)
	}
}

// Fits goes by the form that is kept, even where it need not make that form.
func TestOfferFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune{'<', '\u2028', 0, 'a', '"'}), 0, 200, -1))
		draw := func(label string) json.RawMessage { return json.RawMessage(part.Draw(t, label)) }
		o := x402.Offer{Version: 2, Accepted: draw("accepted"), Resource: draw("resource"), Extensions: draw("extensions")}
		size := len(must(o.MarshalJSON()))
		for _, most := range []int{size, size - 1, 10 * size} {
			if o.Fits(most) != (size <= most) {
				t.Fatalf("%d bytes in %d: %t", size, most, o.Fits(most))
			}
		}
	})
	if (x402.Offer{Accepted: json.RawMessage("\xff")}).Fits(1 << 20) {
		t.Error("what cannot be kept fits")
	}
}
