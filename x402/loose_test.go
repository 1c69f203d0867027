package x402_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/x402"
)

// Machines on the way join fields of one name, and frameworks put values in quotes.
func TestJoinedValues(t *testing.T) {
	t.Parallel()
	terms := `{"x402Version":2,"accepts":[` + entryV2 + `]}`
	other := strings.Replace(terms, "10000", "20000", 1)
	for name, c := range map[string]struct {
		values []string
		reads  bool
	}{
		"one":                       {[]string{b64(terms)}, true},
		"joined with itself":        {[]string{b64(terms) + ", " + b64(terms)}, true},
		"joined three times":        {[]string{b64(terms) + "," + b64(terms) + " ,\t" + b64(terms)}, true},
		"with an empty one":         {[]string{b64(terms) + ", ,"}, true},
		"two fields, one joined":    {[]string{b64(terms), b64(terms) + "," + b64(terms)}, true},
		"in quotes":                 {[]string{`"` + b64(terms) + `"`}, true},
		"in single quotes":          {[]string{`'` + b64(terms) + `'`}, true},
		"as bytes of RFC 9651":      {[]string{":" + b64(terms) + ":"}, true},
		"quoted and joined":         {[]string{`"` + b64(terms) + `", ` + b64(terms)}, true},
		"JSON":                      {[]string{terms}, true},
		"JSON joined with itself":   {[]string{terms + ", " + terms}, true},
		"JSON in quotes":            {[]string{`"` + strings.ReplaceAll(terms, `"`, `\"`) + `"`}, true},
		"two values":                {[]string{b64(terms), b64(other)}, false},
		"two values, joined":        {[]string{b64(terms) + ", " + b64(other)}, false},
		"two values of JSON":        {[]string{terms + "," + other}, false},
		"two values, in quotes":     {[]string{`"` + b64(terms) + `","` + b64(other) + `"`}, false},
		"JSON with something after": {[]string{terms + ";q=1"}, false},
		"a flood of copies":         {[]string{strings.Repeat("{},", 40_000) + "{}"}, false},
		"an open quote":             {[]string{`"` + b64(terms)}, false},
	} {
		c2, found, err := x402.FromResponse(http.Header{"Payment-Required": c.values}, nil)
		if !found || (err == nil) != c.reads || c.reads && c2.Accepts[0].Amount.String() != "10000" {
			t.Errorf("%s: %v, %v", name, found, err)
		}
		one, err := x402.DecodeHeader(strings.Join(c.values, ", "))
		if (err == nil) != c.reads || c.reads && len(one.Accepts) != 1 {
			t.Errorf("%s as text: %v", name, err)
		}
	}
	receipt := `{"success":true,"transaction":"0x` + strings.Repeat("44", 32) + `","network":"base"}`
	failed := `{"success":false,"errorReason":"expired","transaction":"","network":"base"}`
	for value, reads := range map[string]bool{
		b64(receipt) + ", " + b64(receipt): true, `"` + b64(receipt) + `"`: true, receipt + "," + receipt: true,
		b64(receipt) + ", " + b64(failed): false, receipt + "," + failed: false,
	} {
		if r, err := x402.DecodeReceipt(value); (err == nil) != reads || r.Success != reads {
			t.Errorf("%q: %+v, %v", value, r, err)
		}
		r, has, err := x402.ReceiptFromHeader(http.Header{"Payment-Response": {value}})
		if !has || (err == nil) != reads || r.Success != reads {
			t.Errorf("%q in the header: %+v, %v", value, r, err)
		}
	}
}

// Frameworks put what an error carries into an object of their own.
func TestWrappedTerms(t *testing.T) {
	t.Parallel()
	v1 := `{"x402Version":1,"error":"pay","accepts":[` + entryV1 + `]}`
	v2 := `{"x402Version":2,"accepts":[` + entryV2 + `]}`
	other := strings.Replace(v2, "10000", "20000", 1)
	for body, want := range map[string]string{ // "": read
		`{"detail":` + v1 + `}`:                                     "",
		`{"error":` + v1 + `}`:                                      "",
		`{"data":` + v1 + `,"success":false}`:                       "",
		`{"paymentRequired":` + v1 + `}`:                            "",
		`{"statusCode":402,"detail":` + v2 + `}`:                    "",
		`{"detail":` + v2 + `,"data":` + v2 + `}`:                   "",
		`{"error":"Payment required","paymentRequired":` + v2 + `}`: "",
		`{"detail":` + v2 + `,"data":` + other + `}`:                "detail and data differ",
		`{"detail":` + v2 + `,"data":{"inner":` + other + `}}`:      "detail and data.inner differ",
		`{"error":{"details":` + v2 + `}}`:                          "in error.details",
		`{"payment":` + v2 + `}`:                                    "in payment",
		`{"detail":[` + v2 + `]}`:                                   "in detail[0]",
		`{"detail":"` + strings.ReplaceAll(v2, `"`, `\"`) + `"}`:    "in detail (as a text)",
		`{"x402Version":2,"data":` + v2 + `}`:                       "in data",
		`{"a":{"b":{"c":{"d":{"e":` + v2 + `}}}}}`:                  "neither",
		`{"\u0007<b>":` + v2 + `}`:                                  "in <b> and",
	} {
		c, found, err := x402.FromResponse(http.Header{}, []byte(body))
		switch {
		case !found:
			t.Errorf("%s: not found", body)
		case want == "" && (err != nil || len(c.Accepts) != 1):
			t.Errorf("%s: %v", body, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) && want != "neither"):
			t.Errorf("%s: %v, want %q", body, err, want)
		}
		if want != "" {
			continue
		}
		if in, err := x402.DecodeHeader(b64(body)); err != nil || len(in.Accepts) != 1 {
			t.Errorf("%s in a header: %v", body, err)
		}
	}
}

// A reason names the field and the seller's value, which is quoted, cut and cleaned.
func TestReasonsNameValues(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		strings.Replace(entryV2, `"10000"`, `"1000.0"`, 1):                        `amount: "1000.0" is not a whole number of smallest units below 2^256`,
		strings.Replace(entryV2, `"10000"`, `"$0.001"`, 1):                        `amount: "$0.001" is not a whole number`,
		strings.Replace(entryV2, `"10000"`, `"0,001"`, 1):                         `amount: "0,001" is not a whole number`,
		strings.Replace(entryV2, `"10000"`, `1000.5`, 1):                          `amount: 1000.5 is not a string`,
		strings.Replace(entryV2, `"10000"`, `"1\u0007\u202e\""`, 1):               `amount: "1\"" is not a whole number`,
		strings.Replace(entryV2, `"10000"`, `"`+strings.Repeat("9", 5000)+`"`, 1): `amount: "` + strings.Repeat("9", 64) + `" is not`,
		strings.Replace(entryV2, `:60`, `:"1m"`, 1):                               `maxTimeoutSeconds: "1m" is not a positive whole number of seconds`,
		strings.Replace(entryV2, `"version":"2"`, `"version":2`, 1):               `extra.version: 2 is not a string`,
		strings.Replace(entryV2, `"asset":"0x`, `"asset":"0X`, 1):                 `asset: "0X`,
	} {
		c, err := x402.DecodeHeader(`{"x402Version":2,"accepts":[` + entry + `]}`)
		if err != nil || c.Accepts[0].Problem == nil || !strings.HasPrefix(c.Accepts[0].Problem.Error(), want) {
			t.Errorf("%v, %v; want %s", c.Accepts, err, want)
		}
	}
}
