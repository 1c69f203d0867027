package mpp_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/purserpay/purser/protocol/mpp"
)

const charge = `{"amount":"10000","currency":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",` +
	`"methodDetails":{"chainId":8453},"recipient":"0x00000000000000000000000000000000000000cc"}`

// challenge writes a challenge with these parameters in front.
func challenge(request, more string) string {
	return `Payment ` + more + `realm="api", method="evm", intent="charge", request="` + base64.RawURLEncoding.EncodeToString([]byte(request)) + `"`
}

func TestChallengesInHeaders(t *testing.T) {
	t.Parallel()
	one := challenge(charge, `id="a", `)
	for _, test := range []struct {
		name   string
		values []string
		ids    string // of the challenges that can be read
		found  bool
		fails  bool
	}{
		{"none", []string{`Bearer realm="x"`}, "", false, false},
		{"nothing", nil, "", false, false},
		{"one", []string{one}, "a", true, false},
		{"two lines", []string{one, challenge(charge, `id="b", `)}, "ab", true, false},
		{"two in a line", []string{one + ", " + challenge(charge, `id="b", `)}, "ab", true, false},
		{"beside another scheme", []string{`Bearer realm="Payment id=x", ` + one + `, Negotiate abc/def==, ` + challenge(charge, `id="b", `)}, "ab", true, false},
		{"behind base64", []string{`Negotiate a2V5, ` + one}, "a", true, false},
		{"a bare scheme in front", []string{`Negotiate, ` + one}, "a", true, false},
		{"mixed case", []string{strings.NewReplacer("Payment", "pAYMENT", "id=", "ID=", "realm", "Realm").Replace(one)}, "a", true, false},
		{"spaces around =", []string{strings.ReplaceAll(one, `="`, ` = "`)}, "a", true, false},
		{"tokens", []string{strings.Replace(one, `method="evm"`, `method=evm`, 1)}, "a", true, false},
		{"a scheme in a quoted string", []string{challenge(charge, `id="a", description="Payment id=\"b\", realm", `)}, "a", true, false},
		{"an unknown parameter", []string{challenge(charge, `id="a", flavour="x", `)}, "a", true, false},
		{"no id", []string{challenge(charge, ``)}, "", true, true},
		{"an empty id", []string{challenge(charge, `id="", `)}, "", true, true},
		{"two ids", []string{challenge(charge, `id="a", ID="b", `)}, "", true, true},
		{"an open string", []string{one + `, Payment id="b`}, "a", true, true},
		{"an open escape", []string{`Payment id="a\`}, "", true, true},
		{"nothing but the scheme", []string{`Payment`}, "", true, true},
		{"many parameters", []string{challenge(charge, `id="a", `+strings.Repeat(`x="1", `, 40))}, "", true, true},
		{"a long request", []string{`Payment id="a", realm="r", method="evm", intent="charge", request="` + strings.Repeat("a", 20<<10) + `"`}, "", true, true},
		{"a long line", []string{strings.Repeat("x", 200<<10)}, "", true, true},
		{"no list", []string{`"""=,,=;` + one}, "", false, false},
	} {
		list, found, err := mpp.Parse(test.values)
		var ids strings.Builder
		for _, c := range list {
			ids.WriteString(c.Get("id"))
		}
		if ids.String() != test.ids || found != test.found || (err != nil) != test.fails {
			t.Errorf("%s: %q, %v, %v", test.name, ids.String(), found, err)
		}
	}
}

func TestTextsOfChallenges(t *testing.T) {
	t.Parallel()
	list, _, err := mpp.Parse([]string{challenge(charge, "id=\"a\", description=\"M\xfcller \\\"&\\\" S\\\\hne \\u2014 \\ud83d\\ude00\", ")})
	if err != nil || len(list) != 1 || list[0].Get("description") != `Müller "&" S\hne — 😀` {
		t.Errorf("%q, %v", list, err)
	}
	for written, want := range map[string]string{
		`\ud83d\ude00`: "😀", `\ud83d\u0041`: "\ufffdA", `\ud83dA`: "\ufffdA", `\ude00\ud83d`: "\ufffd\ufffd", `\u20`: "u20",
	} {
		list, _, err := mpp.Parse([]string{challenge(charge, `id="a", description="`+written+`", `)})
		if err != nil || list[0].Get("description") != want {
			t.Errorf("%s: %q, %v", written, list, err)
		}
	}
}

func TestCharges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, request, more string
		unpaid, problem     string // a part of it
	}{
		{"charge", charge, "", "", ""},
		{"no object", `[]`, "", "no JSON object", ""},
		{"two amounts", `{"amount":"1","amount":"2"}`, "", "twice", ""},
		{"a number", strings.Replace(charge, `"10000"`, `10000`, 1), "", "", "amount"},
		{"a fraction", strings.Replace(charge, `"10000"`, `"1.5"`, 1), "", "", "amount"},
		{"a negative amount", strings.Replace(charge, `"10000"`, `"-1"`, 1), "", "", "amount"},
		{"a bad payee", strings.Replace(charge, `00cc"`, `00c"`, 1), "", "", "recipient"},
		{"nobody", strings.Replace(charge, `cc"`, `00"`, 1), "", "", "zero address"},
		{"a bad chain", strings.Replace(charge, `8453`, `"8453"`, 1), "", "chainId", ""},
		{"splits", strings.Replace(charge, `8453`, `8453,"splits":[{"amount":"1"}]`, 1), "", "several", ""},
		{"no splits", strings.Replace(charge, `8453`, `8453,"splits":[]`, 1), "", "", ""},
		{"permit2 only", strings.Replace(charge, `8453`, `8453,"credentialTypes":["permit2"]`, 1), "", "no authorization", ""},
		{"both types", strings.Replace(charge, `8453`, `8453,"credentialTypes":["permit2","authorization"]`, 1), "", "", ""},
		{"a cookie", charge, `header="Cookie", `, "Cookie", ""},
		{"a proxy's credential", charge, `header="Proxy-Authorization", `, "Proxy-Authorization", ""},
		{"its own field", charge, `header="payment-authorization", `, "", ""},
		{"a bad time", charge, `expires="tomorrow", `, "", "RFC 3339"},
		{"a digest", charge, `digest="sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:", `, "", ""},
		{"a digest of a draft", charge, `digest="sha-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", `, "", ""},
		{"another digest", charge, `digest="sha-512=47DE", `, "", "SHA-256"},
	} {
		list, _, err := mpp.Parse([]string{challenge(test.request, `id="a", `+test.more)})
		if err != nil || len(list) != 1 {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		r, err := list[0].Charge()
		if test.unpaid != "" {
			if err == nil || !strings.Contains(err.Error(), test.unpaid) {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		if got := r.Problem; err != nil || (got == nil) != (test.problem == "") || got != nil && !strings.Contains(got.Error(), test.problem) {
			t.Errorf("%s: %v, %v", test.name, err, got)
		}
	}
	for _, other := range []string{"session", "authorize"} {
		list, _, _ := mpp.Parse([]string{strings.Replace(challenge(charge, `id="a", `), `"charge"`, `"`+other+`"`, 1)})
		if _, err := list[0].Charge(); err == nil || !strings.Contains(err.Error(), other) {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// Clients hand in a header as text: one character for each of its bytes.
func TestBytesOfHeaders(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"Müller": "M\xfcller", "plain": "plain", "—": "—"} {
		if got := mpp.Bytes(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(challenge(charge, `id="a", `))
	f.Add(`Payment id="a\u00e9", , ,Bearer x=", Payment`)
	f.Fuzz(func(t *testing.T, value string) {
		list, found, err := mpp.Parse([]string{value})
		if (len(list) > 0 || err != nil) && !found {
			t.Error("read, and not found")
		}
		for _, c := range list {
			for _, p := range c.Parameters {
				if !utf8.ValidString(p.Value) {
					t.Errorf("%q is no text", p.Value)
				}
			}
			if r, err := c.Charge(); err == nil {
				if kept, _, _ := mpp.ReadEcho(r.Raw); kept.Get("id") != c.Get("id") {
					t.Errorf("kept %q of %q", kept, c)
				}
			}
		}
	})
}
