package x402_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/x402"
)

// official has payloads that the clients of @x402/evm 2.27.0 made, with the digests that they signed.
// accepted is also what a seller would have sent.
type official struct {
	Accepted, Payload json.RawMessage
	Digest            x402.Nonce
}

func officialPayloads(t *testing.T) []official {
	t.Helper()
	var all []official
	if err := json.Unmarshal(must(os.ReadFile("testdata/permit2.json")), &all); err != nil || len(all) == 0 {
		t.Fatalf("%d vectors, %v", len(all), err)
	}
	return all
}

// The official clients sign the same bytes as purser, and write the payload as purser does.
func TestOfficialPermit2Payloads(t *testing.T) {
	t.Parallel()
	for _, v := range officialPayloads(t) {
		challenge := must(x402.DecodeBody([]byte(`{"x402Version":2,"accepts":[` + string(v.Accepted) + `]}`)))
		want := challenge.Accepts[0]
		network, asset, err := want.Supports()
		if err != nil {
			t.Fatal(err)
		}
		a, s, err := x402.Payload{Version: 2, JSON: json.RawMessage(`{"payload":` + string(v.Payload) + `}`)}.Authorization()
		if err != nil {
			t.Fatal(err)
		}
		if a.Rail != want.Rail() || a.To != want.PayTo || a.Value != want.Amount || a.Facilitator != want.Facilitator {
			t.Errorf("read as %+v from %+v", a, want)
		}
		if got := a.Digest(asset, network.ChainID); got != v.Digest {
			t.Errorf("%s: digest %x, want %s", a.Rail, got, v.Digest)
		}
		if signer, err := x402.Recover(a.Digest(asset, network.ChainID), s); err != nil || signer != a.From {
			t.Errorf("%s: signed by %s, %v", a.Rail, signer, err)
		}
		var sent struct{ Payload any }
		p := must(challenge.Offer(0).Payload(a, s))
		if err := json.Unmarshal(p.JSON, &sent); err != nil {
			t.Fatal(err)
		}
		var theirs any
		if err := json.Unmarshal(v.Payload, &theirs); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(sent.Payload, theirs) {
			t.Errorf("sent\n%v\nwant\n%v", sent.Payload, theirs)
		}
	}
}

func drawPermit2(t *rapid.T) x402.Authorization {
	a := drawAuthorization(t)
	a.Rail, a.ValidBefore = x402.RailPermit2, max(a.ValidBefore, 1)
	if rapid.Bool().Draw(t, "upto") {
		a.Rail = x402.RailUpto
		a.Facilitator = x402.EVMAddress([20]byte(rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "facilitator")))
	}
	return a
}

func TestTypedDataOfPermit2(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := drawPermit2(t)
		asset, chainID := drawAsset(t)
		want := a.Digest(asset, chainID)
		if got := hashOf(t, a.TypedData(asset, chainID)); string(got) != string(want[:]) {
			t.Fatalf("hash %x, want %x", got, want)
		}
	})
}

func TestPermit2PayloadsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	c := must(x402.DecodeBody([]byte(challengeV2)))
	rapid.Check(t, func(t *rapid.T) {
		a := drawPermit2(t)
		s := x402.Signature(rapid.SliceOfN(rapid.Byte(), 65, 65).Draw(t, "signature"))
		p := must(c.Offer(0).Payload(a, s))
		if gotA, gotS, err := p.Authorization(); err != nil || gotA != a || gotS != s {
			t.Fatalf("%+v, %v, %v", gotA, gotS, err)
		}
	})
}

func TestBadPermit2Payloads(t *testing.T) {
	t.Parallel()
	v := officialPayloads(t)[1]
	good := `{"payload":` + string(v.Payload) + `}`
	if _, _, err := (x402.Payload{Version: 2, JSON: []byte(good)}).Authorization(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, replacement string }{
		{x402.UptoProxy.String(), x402.Permit2.String()},
		{`"nonce": "`, `"nonce": "0x`},
		{`"deadline": "`, `"deadline": "18446744073709551615`},
		{`"witness"`, `"witnes"`},
		{`"facilitator"`, `"agent"`},
		{`"permitted"`, `"permits"`},
		{`"amount": "12345"`, `"amount": 12345`},
		{`"signature": "0x`, `"signature": "0`},
		{`"permit2Authorization"`, `"authorization": {}, "permit2Authorization"`},
	} {
		bad := strings.Replace(good, c.old, c.replacement, 1)
		if bad == good {
			t.Fatalf("%q is not in the payload", c.old)
		}
		if a, _, err := (x402.Payload{Version: 2, JSON: []byte(bad)}).Authorization(); err == nil {
			t.Errorf("%s: %+v", c.replacement, a)
		}
	}
	first := must(x402.DecodeBody([]byte(challengeV1)))
	if p, err := first.Offer(0).Payload(x402.Authorization{Rail: x402.RailPermit2}, someSignature); err == nil {
		t.Errorf("version 1 has %s", p.JSON)
	}
	second := must(x402.DecodeBody([]byte(challengeV2)))
	if p, err := second.Offer(0).Payload(x402.Authorization{Rail: 9}, someSignature); err == nil {
		t.Errorf("a rail from the future has %s", p.JSON)
	}
}

func TestRailTexts(t *testing.T) {
	t.Parallel()
	for rail, text := range map[x402.Rail]string{x402.RailEIP3009: `{}`, x402.RailPermit2: `{"rail":"permit2"}`, x402.RailUpto: `{"rail":"upto"}`} {
		type holder struct {
			Rail x402.Rail `json:"rail,omitzero"`
		}
		var back holder
		if got := must(json.Marshal(holder{rail})); string(got) != text {
			t.Errorf("%d is %s, want %s", rail, got, text)
		}
		if err := json.Unmarshal([]byte(text), &back); err != nil || back.Rail != rail || !rail.Known() {
			t.Errorf("%s is %s, %v", text, back.Rail, err)
		}
	}
	if _, err := x402.Rail(9).MarshalText(); err == nil || x402.Rail(9).Known() {
		t.Error("rail 9 is known")
	}
	if err := new(x402.Rail).UnmarshalText([]byte("batch")); err == nil {
		t.Error("a batch is a rail")
	}
}

func TestNonceSlot(t *testing.T) {
	t.Parallel()
	place, bit := x402.Authorization{Nonce: x402.Nonce{0: 1, 30: 2, 31: 200}}.NonceSlot()
	if want := ([32]byte{1: 1, 31: 2}); place != want || bit != 200 {
		t.Errorf("word %x, bit %d", place, bit)
	}
}
