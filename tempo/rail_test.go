package tempo_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/protocol/mpp"
	"github.com/purserpay/purser/tempo"
	"github.com/purserpay/purser/x402"
)

var now = time.Unix(1_800_000_000, 0)

// ask returns the requirement of a challenge with a request.
func ask(t testing.TB, request, more string) x402.Requirement {
	t.Helper()
	list, _, err := mpp.Parse([]string{fmt.Sprintf(`Payment id="an id", realm="api.example.test", method="tempo", intent="charge", request="%s"%s`,
		base64.RawURLEncoding.EncodeToString([]byte(request)), more)})
	if err != nil || len(list) != 1 {
		t.Fatal(err)
	}
	r, err := list[0].Charge()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// plain is the request of a charge, with some methodDetails.
func plain(details string) string {
	return `{"amount":"10000","currency":"0x20c0000000000000000000000000000000000000","recipient":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","methodDetails":{"chainId":4217` + details + `}}`
}

func splits(list string) string { return plain(`,"splits":[` + list + `]`) }

func split(amount, more string) string {
	return `{"amount":"` + amount + `","recipient":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"` + more + `}`
}

// hints are an RPC's answers of play.
type hints struct {
	base, tip, gas uint64
	err            error
}

func (h hints) Price(context.Context) (base, tip money.Amount, err error) {
	return money.New(h.base), money.New(h.tip), h.err
}

func (h hints) Gas(context.Context, x402.Address, []tempo.Call) (uint64, error) { return h.gas, h.err }

func (h hints) Submit(context.Context, string) error { return h.err }

var usual = hints{base: 1_000_000_000, tip: 100, gas: 300_000}

func TestRailTakes(t *testing.T) {
	t.Parallel()
	rail := tempo.NewRail(usual, func() time.Time { return now })
	memo := `,"memo":"0x` + strings.Repeat("ab", 32) + `"`
	attributed := fmt.Sprintf(`,"memo":"%s"`, tempo.Attribution("r", "i", [tempo.ClientSize]byte{}))
	for _, c := range []struct{ name, request, refusal string }{
		{"a charge", plain(""), ""},
		{"sponsored", plain(`,"feePayer":true`), ""},
		{"not sponsored", plain(`,"feePayer":false`), ""},
		{"both modes", plain(`,"supportedModes":["push","pull"]`), ""},
		{"splits", splits(split("1", "") + "," + split("9998", memo)), ""},
		{"no splits", splits(""), ""},
		{"the other token", strings.Replace(plain(""), "0x20c0000000000000000000000000000000000000", "0x20C000000000000000000000b9537d11c60E8b50", 1), ""},
		{"push", plain(`,"supportedModes":["push"]`), "supportedModes"},
		{"no list of modes", plain(`,"supportedModes":"pull"`), "supportedModes"},
		{"another chain", strings.Replace(plain(""), "4217", "42431", 1), "chain id"},
		{"no chain", strings.Replace(plain(""), `"chainId":4217`, "", 1), "chain id"},
		{"a memo", plain(memo), "memo of its own"},
		{"a sponsor of sorts", plain(`,"feePayer":1`), "feePayer"},
		{"nothing", strings.Replace(plain(""), "10000", "0", 1), "amount is 0"},
		{"splits of all", splits(split("10000", "")), "leave nothing"},
		{"splits of more", splits(split("9000", "") + "," + split("9000", "")), "leave nothing"},
		{"a split of nothing", splits(split("0", "")), "above 0"},
		{"a negative split", splits(split("-1", "")), "above 0"},
		{"a split to nobody", splits(`{"amount":"1","recipient":"0x0000000000000000000000000000000000000000"}`), "not an address"},
		{"a split with a memo of MPP", splits(split("1", attributed)), "another challenge"},
		{"a split with half a memo", splits(split("1", `,"memo":"0xab"`)), "memo of a split"},
		{"eleven splits", splits(strings.Repeat(split("1", "")+",", 10) + split("1", "")), "more than 10"},
		{"splits of sorts", plain(`,"splits":{}`), "no array"},
		{"a text as split", splits(`"1"`), "a split"},
	} {
		err := rail.Takes(ask(t, c.request, ""))
		unsupported, is := errors.AsType[*x402.UnsupportedError](err)
		if c.refusal == "" && err != nil || c.refusal != "" && (!is || !strings.Contains(unsupported.Detail, c.refusal)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	other := ask(t, plain(""), "")
	other.Amount = money.New(9_999)
	if rail.Takes(other) == nil {
		t.Error("the terms and the request differ")
	}
	if got := rail.Payees(ask(t, splits(split("1", "")+","+split("2", "")), "")); len(got) != 2 {
		t.Errorf("payees %s", got)
	}
	if n := rail.Network(); n.Name != "tempo" || n.CAIP2() != "eip155:4217" || n.Rail != rail.Number() || len(n.Assets) != 2 {
		t.Errorf("%+v", n)
	}
}

func authorization(key *x402.Key, r x402.Requirement) x402.Authorization {
	return x402.Authorization{
		From: key.Address(), To: r.PayTo, Value: r.Amount, ValidBefore: uint64(now.Unix()) + 60, Nonce: x402.Nonce{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, Rail: tempo.Number,
	}
}

// A payment binds the challenge and its own name, ends soon, and holds the fee beside the price.
func TestRailAuthorizes(t *testing.T) {
	t.Parallel()
	key, err := x402.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	rail := tempo.NewRail(usual, func() time.Time { return now })
	memo := tempo.Attribution("api.example.test", "an id", [tempo.ClientSize]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	for _, c := range []struct {
		name, request, more string
		value, lasts        uint64
	}{
		{"plain", plain(""), "", 10_000 + 1_101, 25}, // 550,000 × 2,000,000,100
		{"sponsored", plain(`,"feePayer":true`), "", 10_000, 25},
		{"splits", splits(split("1", "") + "," + split("9998", "")), "", 10_000 + 2_101, 25}, // for a transfer each
		{"ends early", plain(""), `, expires="` + now.Add(12*time.Second).UTC().Format(time.RFC3339) + `"`, 10_000 + 1_101, 12},
	} {
		r := ask(t, c.request, c.more)
		a, err := rail.Authorize(t.Context(), authorization(key, r), r)
		if err != nil || a.Value != money.New(c.value) || a.ValidBefore != uint64(now.Unix())+c.lasts || a.Nonce != memo {
			t.Errorf("%s: %+v, %v", c.name, a, err)
			continue
		}
		m := rail.Sign(a)
		s, err := key.Sign([32]byte(x402.Keccak256(m.Bytes)))
		if err != nil || m.Verify(s) != nil || m.From != a.From {
			t.Errorf("%s: %v, %v", c.name, err, m.Verify(s))
		}
		if m.Verify(x402.Signature{}) == nil {
			t.Errorf("%s: any signature will do", c.name)
		}
		again, err := rail.Authorize(t.Context(), authorization(key, r), r)
		if err != nil || again != a {
			t.Errorf("%s: %+v is another time %+v, %v", c.name, a, again, err)
		}
		p, err := rail.Payload(x402.Offer{Version: mpp.Version, Accepted: r.Raw}, a, s)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		text, err := mpp.Credential(p)
		var credential struct {
			Challenge map[string]string
			Payload   struct{ Type, Signature string }
			Source    string
		}
		if err := errors.Join(err, json.Unmarshal(text, &credential)); err != nil || credential.Challenge["id"] != "an id" ||
			credential.Payload.Type != "transaction" || credential.Source != "did:pkh:eip155:4217:"+key.Address().String() {
			t.Errorf("%s: %s, %v", c.name, text, err)
			continue
		}
		tx, by, err := tempo.Decode(unhex(t, credential.Payload.Signature))
		if err != nil || by != s || tx.Sponsored != (c.name == "sponsored") || tx.FeeToken.IsZero() != tx.Sponsored || len(tx.Calls) != 1+len(rail.Payees(r)) {
			t.Errorf("%s: %+v, %v", c.name, tx, err)
		}
	}
}

func TestRailAuthorizesNot(t *testing.T) {
	t.Parallel()
	key, err := x402.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	soon := func(d time.Duration) string { return `, expires="` + now.Add(d).UTC().Format(time.RFC3339) + `"` }
	own := strings.Replace(plain(""), "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", key.Address().String(), 1)
	dear := usual
	dear.base = 90_000_000_000
	tooDear := usual
	tooDear.base = 101_000_000_000
	for _, c := range []struct {
		name, request, more string
		hints               hints
		refusal             string
	}{
		{"it ends", plain(""), soon(9 * time.Second), usual, "ends in less"},
		{"a sponsor needs more", plain(`,"feePayer":true`), soon(15 * time.Second), usual, "ends in less"},
		{"it has ended", plain(""), soon(-time.Hour), usual, "ends in less"},
		{"to itself", own, "", usual, "wallet that would pay"},
		{"no RPC", plain(""), "", hints{err: errors.New("no RPC")}, "no RPC"},
		{"5 cents", plain(""), "", hints{base: 90_000_000_000, gas: 1_000_000}, "too dear"},
		{"a price above all bounds", plain(`,"feePayer":true`), "", tooDear, "too dear"},
		{"a dear sponsor", plain(`,"feePayer":true`), "", dear, ""},
		{"another offer", plain(`,"memo":"0x"`), "", usual, "memo"},
	} {
		r := ask(t, c.request, c.more)
		a, err := tempo.NewRail(c.hints, func() time.Time { return now }).Authorize(t.Context(), authorization(key, r), r)
		if (err == nil) != (c.refusal == "") || err != nil && !strings.Contains(err.Error(), c.refusal) {
			t.Errorf("%s: %+v, %v", c.name, a, err)
		}
	}
	rail := tempo.NewRail(usual, nil)
	var unknown x402.Authorization
	if m := rail.Sign(unknown); m.Bytes != nil || m.Verify(x402.Signature{}) == nil {
		t.Errorf("%+v", m)
	}
	if p, err := rail.Payload(x402.Offer{}, unknown, x402.Signature{}); err == nil {
		t.Errorf("%+v", p)
	}
}
