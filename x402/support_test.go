package x402_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/x402"
)

// decodeEntry decodes the good v2 entry with old replaced by new.
func decodeEntry(t *testing.T, old, replacement string) x402.Requirement {
	t.Helper()
	entry := strings.Replace(entryV2, old, replacement, 1)
	if entry == entryV2 && old != replacement {
		t.Fatalf("%q is not in the entry", old)
	}
	c, err := x402.DecodeHeader(`{"x402Version":2,"accepts":[` + entry + `,` + entryV2 + `]}`)
	if err != nil {
		t.Fatalf("%s: %v", replacement, err)
	}
	if c.Accepts[1].Problem != nil {
		t.Errorf("%s spoilt its neighbour: %v", replacement, c.Accepts[1].Problem)
	}
	return c.Accepts[0]
}

func TestProblems(t *testing.T) {
	t.Parallel()
	const payTo = `"0x209693Bc6afc0C5328bA36FaF03C514EF312287C"`
	for _, c := range []struct{ old, replacement, field string }{
		{`"10000"`, `"-1"`, "amount"},
		{`"10000"`, `"0.01"`, "amount"},
		{`"10000"`, `"0x2710"`, "amount"},
		{`"10000"`, `"1e4"`, "amount"},
		{`"10000"`, `"` + strings.Repeat("9", 90) + `"`, "amount"},
		{`"10000"`, `"010000"`, "amount"},
		{`"10000"`, `""`, "amount"},
		{`"10000"`, `10000.0`, "amount"},
		{`"10000"`, `null`, "amount"},
		{`"10000"`, `["10000"]`, "amount"},
		{`"10000"`, `" 10000"`, "amount"},
		{`"amount":"10000"`, `"maxAmountRequired":"10000"`, "amount"},
		{`"amount"`, `"Amount"`, "amount"},
		{payTo, `"0x0000000000000000000000000000000000000000"`, "payTo"},
		{payTo, `"0x209693"`, "payTo"},
		{payTo, `"vitalik.eth"`, "payTo"},
		{payTo, `null`, "payTo"},
		{payTo, `{}`, "payTo"},
		{`"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"`, `"USDC"`, "asset"},
		{`"asset"`, `"token"`, "asset"},
		{`"scheme":"exact",`, ``, "scheme"},
		{`"exact"`, `null`, "scheme"},
		{`"exact"`, `1`, "scheme"},
		{`"eip155:8453"`, `8453`, "network"},
		{`"network":"eip155:8453",`, ``, "network"},
		{`:60`, `:0`, "maxTimeoutSeconds"},
		{`:60`, `:-1`, "maxTimeoutSeconds"},
		{`:60`, `:0.5`, "maxTimeoutSeconds"},
		{`:60`, `:"60.5"`, "maxTimeoutSeconds"},
		{`:60`, `:"1e2"`, "maxTimeoutSeconds"},
		{`:60`, `:""`, "maxTimeoutSeconds"},
		{`:60`, `:"NaN"`, "maxTimeoutSeconds"},
		{`:60`, `:1e999`, "maxTimeoutSeconds"},
		{`:60`, `:true`, "maxTimeoutSeconds"},
		{`{"name":"USD Coin","version":"2"}`, `[]`, "extra"},
		{`{"name":"USD Coin","version":"2"}`, `"x"`, "extra"},
		{`"version":"2"`, `"version":2`, "extra.version"},
		{`"USD Coin"`, `{}`, "extra.name"},
		{`"version":"2"`, `"version":"2","version":"1"`, "extra"},
		{`"version":"2"`, `"version":"2","assetTransferMethod":1`, "extra.assetTransferMethod"},
		{`"amount":"10000"`, `"amount":"1","amount":"10000"`, "accepts"},
		{`"amount":"10000"`, `"amount":"1","\u0061mount":"10000"`, "accepts"},
	} {
		r := decodeEntry(t, c.old, c.replacement)
		if r.Problem == nil || r.Problem.Field != c.field || r.Problem.Reason == "" {
			t.Errorf("%s: problem is %v, want one with %s", c.replacement, r.Problem, c.field)
		}
		_, _, err := r.Supports()
		if f, ok := errors.AsType[*x402.FieldError](err); !ok || f != r.Problem {
			t.Errorf("%s: Supports says %v", c.replacement, err)
		}
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		":1": time.Second, ":60.0": time.Minute, ":6e1": time.Minute, ":300": 5 * time.Minute,
		":946080000": x402.MaxTimeoutCap, ":9223372036854775807": x402.MaxTimeoutCap, ":1e300": x402.MaxTimeoutCap, // 30 years and more
	} {
		if r := decodeEntry(t, ":60", text); r.MaxTimeout != want || r.Problem != nil {
			t.Errorf("%s: %v, %v", text, r.MaxTimeout, r.Problem)
		}
	}
}

func TestUnsupported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, replacement, kind, mentions string }{
		{`"exact"`, `"deferred"`, "scheme", "deferred"},
		{`"exact"`, `"Exact"`, "scheme", "Exact"},
		{`"version":"2"`, `"version":"2","assetTransferMethod":"permit3"`, "scheme", "permit3"},
		{`"version":"2"`, `"version":"2","paymentFlow":"escrow"`, "scheme", "escrow"},
		{`"eip155:8453"`, `"eip155:1"`, "asset", "ethereum"},
		{`"eip155:8453"`, `"eip155:42220"`, "network", "eip155:42220"},
		{`"eip155:8453"`, `"eip155:*"`, "network", "eip155:*"},
		{`"eip155:8453"`, `"eip155:84532"`, "asset", "base-sepolia"},
		{`02913"`, `02914"`, "asset", "base"},
		{`"USD Coin"`, `"USDC"`, "asset", "USDC"},
		{`"version":"2"`, `"version":"1"`, "asset", `"1"`},
		{`"exact"`, `"` + strings.Repeat("x", 5000) + `"`, "scheme", "xxx"},
	} {
		_, _, err := decodeEntry(t, c.old, c.replacement).Supports()
		u, ok := errors.AsType[*x402.UnsupportedError](err)
		if !ok || u.Kind != c.kind || !strings.Contains(u.Error(), c.mentions) || len(u.Error()) > 300 {
			t.Errorf("%.40s: %v, want an unsupported %s", c.replacement, err, c.kind)
		}
	}
	upto := strings.Replace(entryV2, `"exact"`, `"upto"`, 1)
	for entry, problem := range map[string]string{
		upto: "no facilitatorAddress",
		strings.Replace(upto, `"version":"2"`, `"version":"2","facilitatorAddress":"0x1"`, 1):                                                                "extra.facilitatorAddress",
		strings.Replace(upto, `"version":"2"`, `"version":"2","assetTransferMethod":"eip3009"`, 1):                                                           "eip3009",
		strings.Replace(upto, `"version":"2"`, `"version":"2","facilitatorAddress":"0x209693Bc6afc0C5328bA36FaF03C514EF312287C","paymentFlow":"upfront"`, 1): "upfront",
	} {
		c := must(x402.DecodeBody([]byte(`{"x402Version":2,"accepts":[` + entry + `]}`)))
		if _, _, err := c.Accepts[0].Supports(); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v", entry, err)
		}
	}
	first := must(x402.DecodeBody([]byte(strings.Replace(challengeV1, `"extra":{`, `"extra":{"assetTransferMethod":"permit2",`, 1))))
	if _, _, err := first.Accepts[0].Supports(); err == nil {
		t.Error("version 1 has permit2")
	}
	for _, extra := range []string{`"assetTransferMethod":"permit2"`, `"assetTransferMethod":"eip3009"`, `"paymentFlow":"authorization"`, `"paymentFlow":"upfront"`, `"other":1`, `"paymentFlow":null`} {
		if _, _, err := decodeEntry(t, `"version":"2"`, `"version":"2",`+extra).Supports(); err != nil {
			t.Errorf("%s: %v", extra, err)
		}
	}
}
