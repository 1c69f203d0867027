package x402_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/purserpay/purser/x402"
)

func addChallenges(add func(s string)) {
	for _, s := range []string{
		challengeV1, challengeV2, strangeChallenge, identifiedChallenge, entryV1, entryV2, "", "{}", "[]", "null", `{"x402Version":2,"accepts":[{},null,[]]}`,
		`{"accepts":[` + entryV2 + `]}`, `{"x402Version":1,"accepts":[{"scheme":"\ud800","network":"\\\"","extra":{"":[{"a":"]}"}]}}]}`,
	} {
		add(s)
	}
}

func FuzzDecodeHeader(f *testing.F) {
	addChallenges(func(s string) { f.Add(s); f.Add(b64(s)) })
	f.Fuzz(func(t *testing.T, value string) {
		c, err := x402.DecodeHeader(value)
		if err != nil {
			return
		}
		checkChallenge(t, c)
	})
}

func FuzzDecodeBody(f *testing.F) {
	addChallenges(func(s string) { f.Add([]byte(s)) })
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		c, err := x402.DecodeBody(body)
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			return
		}
		checkChallenge(t, c)
		// A second reader must see the very same entries.
		var top map[string]json.RawMessage
		var accepts []json.RawMessage
		if err := json.Unmarshal(body, &top); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(top["accepts"], &accepts); err != nil {
			t.Fatal(err)
		}
		if len(accepts) != len(c.Accepts) {
			t.Fatalf("%d entries, want %d", len(c.Accepts), len(accepts))
		}
		for i := range accepts {
			if !bytes.Equal(accepts[i], c.Accepts[i].Raw) {
				t.Fatalf("entry %d is %q, want %q", i, c.Accepts[i].Raw, accepts[i])
			}
		}
	})
}

// checkChallenge checks promises that hold for every decoded challenge.
func checkChallenge(t *testing.T, c x402.Challenge) {
	if (c.Version != 1 && c.Version != 2) || len(c.Accepts) > 32 {
		t.Fatalf("version %d, %d entries", c.Version, len(c.Accepts))
	}
	for i, r := range c.Accepts {
		_, _, supported := r.Supports()
		if r.Problem != nil {
			if supported == nil {
				t.Fatalf("supported in spite of %v", r.Problem)
			}
			continue
		}
		if r.PayTo.IsZero() || r.MaxTimeout < 0 || r.MaxTimeout > x402.MaxTimeoutCap || r.Scheme == "" || r.Network == "" {
			t.Fatalf("taken for good: %+v", r)
		}
		var fields map[string]any
		if err := json.Unmarshal(r.Raw, &fields); err != nil {
			t.Fatal(err)
		}
		amount := fields["amount"]
		if c.Version == 1 {
			amount = fields["maxAmountRequired"]
		}
		if amount != r.Amount.String() || fields["scheme"] != r.Scheme || fields["network"] != r.Network {
			t.Fatalf("%+v read from %s", r, r.Raw)
		}
		p := must(c.Offer(i).Payload(someAuthorization, someSignature))
		if c.Version == 2 && !bytes.Contains(p.JSON, r.Raw) {
			t.Fatalf("%s does not echo %s", p.JSON, r.Raw)
		}
		checkIdentified(t, c.Offer(i))
		if a, s, err := p.Authorization(); err == nil && (a != someAuthorization || s != someSignature) {
			t.Fatalf("the payload says %+v", a)
		}
	}
}

func FuzzDecodeReceipt(f *testing.F) {
	for _, s := range []string{
		receiptV2, b64(receiptV2), `{"success":false}`, `{"success":true,"amount":1}`, `{"success":true,"payer":null}`, "", "e30=",
		`{"success":false,"amount":"","payer":[],"errorMessage":"\u0000"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		r, err := x402.DecodeReceipt(value)
		if err != nil {
			return
		}
		var fields map[string]any
		if err := json.Unmarshal(r.Raw, &fields); err != nil {
			t.Fatal(err)
		}
		if fields["success"] != r.Success {
			t.Fatalf("success is %v, want %v", r.Success, fields["success"])
		}
		if text, ok := fields["transaction"].(string); ok && text != r.Transaction {
			t.Fatalf("transaction is %q, want %q", r.Transaction, text)
		}
		if text, ok := fields["amount"].(string); ok && r.Amount != nil && text != r.Amount.String() {
			t.Fatalf("amount is %v, want %s", r.Amount, text)
		}
	})
}

func FuzzDecodePayload(f *testing.F) {
	for _, s := range []string{
		`{"x402Version":1,"scheme":"exact","network":"base","payload":` + signedJSON + `}`,
		`{"x402Version":2,"accepted":` + entryV2 + `,"payload":` + signedJSON + `}`, `{"x402Version":2}`, `{}`, ``,
	} {
		f.Add(b64(s))
	}
	f.Fuzz(func(t *testing.T, header string) {
		p, err := x402.DecodePayload(header)
		if err != nil {
			return
		}
		again, err := x402.DecodePayload(p.Header())
		if err != nil || again.Version != p.Version || !bytes.Equal(again.JSON, p.JSON) {
			t.Fatalf("%+v came back as %+v, %v", p, again, err)
		}
		a, _, err := p.Authorization()
		if err != nil {
			return
		}
		var reread x402.Authorization
		if err := json.Unmarshal(must(json.Marshal(a)), &reread); err != nil || reread != a {
			t.Fatalf("%+v came back as %+v, %v", a, reread, err)
		}
	})
}
