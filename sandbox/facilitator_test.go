package sandbox

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

// offered holds the seller's challenges by protocol version.
func offered(t *testing.T, w *World, version int) x402.Challenge {
	t.Helper()
	path := map[int]string{1: "/v1/weather", 2: "/weather"}[version]
	return request(t, w, "GET", w.SellerURL()+path, "", nil).challenge(t)
}

func TestFacilitatorRefusals(t *testing.T) {
	t.Parallel()
	w := start(t, Options{})
	rich, poor, stranger := newBuyer(t, w, 1_000_000), newBuyer(t, w, 9_999), newBuyer(t, w, 0)
	now := uint64(time.Now().Unix())

	// change edits the authorization before who signs it. edit then changes the text of the call's
	// body.
	type change struct {
		who     buyer
		message func(*x402.Authorization)
		edit    func(string) string
	}
	replace := func(pairs ...string) func(string) string { return strings.NewReplacer(pairs...).Replace }
	for name, test := range map[string]struct {
		change
		version int // 0: both
		want    string
	}{
		"another scheme":     {change: change{edit: replace(`"exact"`, `"upto"`)}, want: honest.BadScheme},
		"no domain":          {change: change{edit: replace(`"name":"USD Coin",`, ``)}, want: honest.NoDomain},
		"another network v2": {change{edit: replace(`eip155:8453`, `eip155:84532`)}, 2, honest.BadNetwork},
		"another network v1": {change{edit: replace(`"base"`, `"base-sepolia"`)}, 1, honest.BadNetwork},
		"somebody else signed": {
			change: change{who: stranger, message: func(a *x402.Authorization) { a.From = rich.address }}, want: honest.BadSignature,
		},
		"changed after signing": {
			change: change{edit: func(s string) string {
				return strings.Replace(s, `"validAfter":"0"`, `"validAfter":"1"`, 1)
			}}, want: honest.BadSignature,
		},
		"no signature":  {change: change{edit: replace(`"signature":"0x`, `"signature":"0xzz`)}, want: "invalid_payload"},
		"another payee": {change: change{message: func(a *x402.Authorization) { a.To = stranger.address }}, want: honest.BadRecipient},
		"expires soon":  {change: change{message: func(a *x402.Authorization) { a.ValidBefore = now + 3 }}, want: honest.Expired},
		"not yet valid": {change: change{message: func(a *x402.Authorization) { a.ValidAfter = now + 3600 }}, want: honest.NotYetValid},
		"too little v1": {change{message: func(a *x402.Authorization) { a.Value = money.New(1) }}, 1, honest.BadValueV1},
		"too little v2": {change{message: func(a *x402.Authorization) { a.Value = money.New(1) }}, 2, honest.BadValueV2},
		"too much v2":   {change{message: func(a *x402.Authorization) { a.Value = money.New(10_001) }}, 2, honest.BadValueV2},
		"poor":          {change: change{who: poor}, want: honest.TooPoor},
		"mixed versions": {
			// The payload's comes first.
			change: change{edit: func(s string) string {
				return strings.Replace(s, `"x402Version":`, `"x402Version":3`, 1)
			}}, want: "invalid_x402_version",
		},
	} {
		for version := 1; version <= 2; version++ {
			if test.version != 0 && test.version != version {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := offered(t, w, version)
				who := test.who
				if who.key == nil {
					who = rich
				}
				a := who.authorize(t, c.Accepts[0])
				if test.message != nil {
					test.message(&a)
				}
				body := callBody(t, who.sign(t, c, a), c.Accepts[0])
				if test.edit != nil {
					edited := test.edit(body)
					if edited == body {
						t.Fatalf("nothing to edit in %s", body)
					}
					body = edited
				}
				status, verdict := facilitate(t, w, "/verify", body)
				if status != http.StatusOK || verdict["isValid"] != false || verdict["invalidReason"] != test.want {
					t.Errorf("v%d /verify: %d %v, want %s", version, status, verdict, test.want)
				}
				status, verdict = facilitate(t, w, "/settle", body)
				if status != http.StatusOK || verdict["success"] != false || verdict["errorReason"] != test.want || verdict["transaction"] != "" {
					t.Errorf("v%d /settle: %d %v, want %s", version, status, verdict, test.want)
				}
			})
		}
	}
}

// Only the chain refuses a payload that was signed for a token of another name.
func TestFacilitatorKnowsTheToken(t *testing.T) {
	t.Parallel()
	w := start(t, Options{})
	b := newBuyer(t, w, 1_000_000)
	c := offered(t, w, 2)
	chain, usdc := honest.Network()
	a := b.authorize(t, c.Accepts[0])
	for name, test := range map[string]struct {
		asset        x402.Asset
		edit         [2]string
		want, settle string
	}{
		"name":    {x402.Asset{Name: "USDC", Version: "2", Address: usdc.Address}, [2]string{`"USD Coin"`, `"USDC"`}, honest.BadTokenName, honest.BadSignature},
		"version": {x402.Asset{Name: "USD Coin", Version: "1", Address: usdc.Address}, [2]string{`"version":"2"`, `"version":"1"`}, honest.BadTokenVersion, honest.BadSignature},
		"address": {x402.Asset{Name: "USD Coin", Version: "2", Address: b.address}, [2]string{usdc.Address.String(), b.address.String()}, honest.NoAsset, honest.NoAsset},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			signature, err := x402test.Sign(a.Digest(test.asset, chain.ChainID), b.key)
			if err != nil {
				t.Fatal(err)
			}
			p, err := c.Offer(0).Payload(a, signature)
			if err != nil {
				t.Fatal(err)
			}
			body := strings.ReplaceAll(callBody(t, p, c.Accepts[0]), test.edit[0], test.edit[1])
			if _, verdict := facilitate(t, w, "/verify", body); verdict["invalidReason"] != test.want {
				t.Errorf("/verify: %v, want %s", verdict, test.want)
			}
			if _, verdict := facilitate(t, w, "/settle", body); verdict["errorReason"] != test.settle || verdict["success"] != false {
				t.Errorf("/settle: %v, want %s", verdict, test.settle)
			}
		})
	}
	t.Cleanup(func() { wantBalance(t, w, b.address, 1_000_000) })
}

func TestFacilitatorTakesNoNonsense(t *testing.T) {
	t.Parallel()
	w := start(t, Options{})
	for name, body := range map[string]string{
		"empty":          ``,
		"no JSON":        `{`,
		"no requirement": `{"x402Version":2,"paymentPayload":{}}`,
		"wrong types":    `{"x402Version":2,"paymentPayload":[],"paymentRequirements":"x"}`,
		"too long":       `{"x402Version":2,"pad":"` + strings.Repeat("x", honest.MaxCall) + `"}`,
	} {
		for _, path := range []string{"/verify", "/settle"} {
			status, verdict := facilitate(t, w, path, body)
			if text, _ := verdict["error"].(string); status != http.StatusBadRequest || text == "" {
				t.Errorf("%s %s: %d %v", path, name, status, verdict)
			}
		}
	}
	got := request(t, w, "GET", w.FacilitatorURL()+"/supported", "", nil)
	var supported struct {
		Kinds []struct {
			X402Version     int
			Scheme, Network string
		}
	}
	if err := json.Unmarshal([]byte(got.body), &supported); err != nil || len(supported.Kinds) != 2 ||
		supported.Kinds[0].Network != "eip155:8453" || supported.Kinds[1].Network != "base" {
		t.Errorf("/supported: %d %s", got.status, got.body)
	}
	if got := request(t, w, "GET", w.FacilitatorURL()+"/settle", "", nil); got.status != http.StatusMethodNotAllowed {
		t.Errorf("GET /settle: %d", got.status)
	}
}
