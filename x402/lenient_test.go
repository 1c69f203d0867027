package x402_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/x402"
)

// Sellers write challenges in ways that the official client reads, too.
func TestLenient(t *testing.T) {
	t.Parallel()
	asV1 := strings.NewReplacer(`"amount"`, `"maxAmountRequired"`, `"eip155:8453"`, `"base"`).Replace(entryV2)
	for name, c := range map[string]struct {
		value   string
		version int // of the entry
	}{
		"an amount as a number":        {`{"x402Version":2,"accepts":[` + strings.Replace(entryV2, `"10000"`, `10000`, 1) + `]}`, 2},
		"a timeout as a text":          {`{"x402Version":2,"accepts":[` + strings.Replace(entryV2, `:60`, `:"60"`, 1) + `]}`, 2},
		"a byte order mark":            {"\ufeff" + `{"x402Version":2,"accepts":[` + entryV2 + `]}`, 2},
		"version 2.0":                  {`{"x402Version":2.0,"accepts":[` + entryV2 + `]}`, 2},
		"version 1.0":                  {`{"x402Version":1.0,"accepts":[` + entryV1 + `]}`, 1},
		"an entry of version 1 in 2":   {`{"x402Version":2,"accepts":[` + asV1 + `]}`, 1},
		"the same with a v2 network":   {`{"x402Version":2,"accepts":[` + strings.Replace(entryV2, `"amount"`, `"amount":null,"maxAmountRequired"`, 1) + `]}`, 0},
		"payable, and 80 others after": {`{"x402Version":2,"accepts":[` + entryV2 + strings.Repeat(",{}", 80) + `]}`, 2},
	} {
		for form, decode := range map[string]func() (x402.Challenge, error){
			"header": func() (x402.Challenge, error) { return x402.DecodeHeader(c.value) },
			"base64": func() (x402.Challenge, error) { return x402.DecodeHeader(b64(c.value)) },
			"body":   func() (x402.Challenge, error) { return x402.DecodeBody([]byte(c.value)) },
		} {
			got, err := decode()
			if err != nil || len(got.Accepts) == 0 || len(got.Accepts) > 64 {
				t.Errorf("%s in the %s: %d entries, %v", name, form, len(got.Accepts), err)
				continue
			}
			r := got.Accepts[0]
			_, _, err = r.Supports()
			if c.version == 0 {
				if err == nil {
					t.Errorf("%s in the %s is paid", name, form)
				}
				continue
			}
			if err != nil || r.Version != c.version || r.MaxTimeout != time.Minute && c.version == 2 || got.Offer(0).Version != c.version {
				t.Errorf("%s in the %s: version %d, %s, %v", name, form, r.Version, r.MaxTimeout, err)
			}
		}
	}
}

// Clients of version 1 knew the token's domain. In version 2 the seller has to name it.
func TestWithoutDomain(t *testing.T) {
	t.Parallel()
	for _, extra := range []string{`null`, `{}`, `{"name":"USD Coin"}`, `{"version":"2"}`} {
		entry := strings.Replace(entryV2, `{"name":"USD Coin","version":"2"}`, extra, 1)
		_, _, err := must(x402.DecodeHeader(`{"x402Version":2,"accepts":[` + entry + `]}`)).Accepts[0].Supports()
		if _, is := errors.AsType[*x402.UnsupportedError](err); !is {
			t.Errorf("version 2 with %s: %v", extra, err)
		}
		asV1 := strings.NewReplacer(`"amount"`, `"maxAmountRequired"`, `"eip155:8453"`, `"base"`).Replace(entry)
		if _, _, err := must(x402.DecodeHeader(`{"x402Version":1,"accepts":[` + asV1 + `]}`)).Accepts[0].Supports(); err != nil {
			t.Errorf("version 1 with %s: %v", extra, err)
		}
	}
}

// A payload of version 1 has no extensions. Where the seller requires the payment's id, none may leave.
func TestRequiredIDInVersion1(t *testing.T) {
	t.Parallel()
	asV1 := strings.NewReplacer(`"amount"`, `"maxAmountRequired"`, `"eip155:8453"`, `"base"`).Replace(entryV2)
	for required, refused := range map[string]bool{"true": true, "false": false} {
		c := must(x402.DecodeHeader(`{"x402Version":2,"accepts":[` + asV1 + `],"extensions":{"payment-identifier":{"info":{"required":` + required + `}}}}`))
		got, err := identifiedBy(c.Offer(0), "7d5d747b-e160-4c80-b5dd-5b6f2c3e3c11")
		if _, is := errors.AsType[*x402.UnsupportedError](err); is != refused {
			t.Errorf("required %s: %v", required, err)
		}
		if !refused && (err != nil || got.Extensions != nil) {
			t.Errorf("required %s: %s, %v", required, got.Extensions, err)
		}
	}
}
