package x402_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/x402"
)

const (
	someID = "019aad71-5b3c-7cc1-9d5e-0123456789ab"
	idText = `"id":"` + someID + `"`
	// officialSchema is the one that @x402/extensions 2.27.0 declares.
	officialSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{` +
		`"required":{"type":"boolean"},"id":{"type":"string","minLength":16,"maxLength":128,"pattern":"^[a-zA-Z0-9_-]+$"}},"required":["required"]}`
	identifiedChallenge = `{"x402Version":2,"accepts":[` + entryV2 + `],"extensions":{"payment-identifier":{"info":{"required":true},"schema":` + officialSchema + `}}}`
)

func offerWith(extensions string) x402.Offer {
	return x402.Offer{Version: 2, Accepted: json.RawMessage(entryV2), Extensions: json.RawMessage(extensions)}
}

// identifiedBy returns the offer as a payment with this id echoes it.
func identifiedBy(o x402.Offer, id string) (x402.Offer, error) {
	return x402.Challenge{Version: 2, Extensions: o.Extensions}.Identify(id).Within(o, 1<<20)
}

// The id goes into info, of which every other byte is echoed as it came. Members beside info are not echoed.
func TestIDIsAdded(t *testing.T) {
	t.Parallel()
	const begin, end = `{"payment-identifier":{"info":{`, `}}}`
	for name, c := range map[string]struct{ before, info, after, echoed string }{
		"official":          {begin, `"required":false`, `},"schema":` + officialSchema + `}}`, ""},
		"required":          {begin, `"required":true`, `},"schema":` + officialSchema + `}}`, ""},
		"schema first":      {`{"payment-identifier":{"schema":` + officialSchema + `,"info":{`, `"required":true`, end, ""},
		"no schema":         {begin, `"required":true`, end, ""},
		"empty info":        {begin, ``, ` }}}`, `{"payment-identifier":{"info":{ID }}}`},
		"strange":           {"{ \"z\":{\"info\":{ \"n\":1e2 }},\n\"payment\\u002didentifier\" :\t{ \"info\" : {", ` "x" : "</>\u0041" , "required":true `, "} } }", "{ \"z\":{\"info\":{ \"n\":1e2 }},\n\"payment\\u002didentifier\" :\t{\"info\":{ID, \"x\" : \"</>\\u0041\" , \"required\":true }} }"},
		"not a boolean":     {begin, `"required":"yes"`, end, ""},
		"closed schema":     {begin, `"required":true`, `},"schema":{"additionalProperties":false,"properties":{"id":true,"required":{}},"required":["id","required"]}}}`, ""},
		"schema of the old": {begin, ``, `},"schema":{"type":"object","properties":{"id":{"type":"string","minLength":16.0,"maxLength":1.28e2,"title":"id"}}}}}`, `{"payment-identifier":{"info":{ID}}}`},
		"UUID only":         {begin, `"required":true`, `},"schema":{"properties":{"id":{"pattern":"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$"}}}}}`, ""},
		"beside others":     {`{"bazaar":{"info":{"a":[1]},"schema":{"b":2}},"bare":{"c":3},"list":[4],"payment-identifier":{"info":{`, `"required":true`, end, `{"bazaar":{"info":{"a":[1]}},"bare":{"c":3},"list":[4],"payment-identifier":{"info":{ID,"required":true}}}`},
	} {
		o := offerWith(c.before + c.info + c.after)
		want := strings.Replace(c.echoed, "ID", idText, 1)
		if want == "" {
			want = begin + idText + "," + c.info + end
		}
		got, err := identifiedBy(o, someID)
		if err != nil || string(got.Extensions) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got.Extensions, want)
			continue
		}
		if string(o.Extensions) != c.before+c.info+c.after || string(got.Accepted) != entryV2 {
			t.Errorf("%s: the echo was changed", name)
		}
		p := must(got.Payload(someAuthorization, someSignature))
		if !strings.Contains(string(p.JSON), `,"extensions":`+string(got.Extensions)+`}`) {
			t.Errorf("%s: payload %s", name, p.JSON)
		}
	}
}

// An id that cannot be added is left out where it is optional. Where it is required, there is no
// offer, so that no payload leaves without it.
func TestIDCannotBeAdded(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		`{"info":{"required":REQUIRED},"schema":[]}`:                                                                   "its schema: not an object",
		`{"info":{"required":REQUIRED},"schema":false}`:                                                                "its schema: not an object",
		`{"info":{"required":REQUIRED,"id":null}}`:                                                                     "has an id already",
		`{"info":{"required":REQUIRED,"id":"pay_0123456789abcdef"}}`:                                                   "has an id already",
		`{"info":{"required":REQUIRED},"schema":{"type":"array"}}`:                                                     "type",
		`{"info":{"required":REQUIRED},"schema":{"not":{"required":["id"]}}}`:                                          "not",
		`{"info":{"required":REQUIRED},"schema":{"required":["id","order"]}}`:                                          "required",
		`{"info":{"required":REQUIRED},"schema":{"required":"id"}}`:                                                    "required",
		`{"info":{"required":REQUIRED},"schema":{"additionalProperties":false,"properties":{"required":{}}}}`:          "allows no id",
		`{"info":{"required":REQUIRED},"schema":{"additionalProperties":{"type":"number"}}}`:                           "allows no id",
		`{"info":{"required":REQUIRED},"schema":{"properties":7}}`:                                                     "properties",
		`{"info":{"required":REQUIRED},"schema":{"properties":{"id":false}}}`:                                          "not an object",
		`{"info":{"required":REQUIRED},"schema":{"properties":{"id":{"type":"number"}}}}`:                              "type",
		`{"info":{"required":REQUIRED},"schema":{"properties":{"id":{"minLength":37}}}}`:                               "minLength",
		`{"info":{"required":REQUIRED},"schema":{"properties":{"id":{"maxLength":35}}}}`:                               "maxLength",
		`{"info":{"required":REQUIRED},"schema":{"properties":{"id":{"maxLength":"128"}}}}`:                            "maxLength",
		`{"info":{"required":REQUIRED},"schema":{"properties":{"id":{"pattern":"^pay_[0-9a-f]{32}$"}}}}`:               "pattern",
		`{"info":{"required":REQUIRED},"schema":{"properties":{"id":{"pattern":"^(?=0)"}}}}`:                           "pattern",
		`{"info":{"required":REQUIRED},"schema":{"properties":{"id":{"pattern":"` + strings.Repeat("-?", 65) + `"}}}}`: "pattern",
		`{"info":{"required":REQUIRED},"schema":{"properties":{"id":{"const":"x"}}}}`:                                  "const",
	} {
		for said, required := range map[string]bool{"true": true, "1": true, "false": false, "null": false} {
			o := offerWith(`{"a":1,"payment-identifier":` + strings.Replace(text, "REQUIRED", said, 1) + `}`)
			checkNotAdded(t, o, required, why)
		}
	}
	const ours = `"payment-identifier"`
	for text, why := range map[string]string{
		`{` + ours + `:{"info":{}},` + ours + `:{"info":{}}}`:              "twice",
		`{` + ours + `:{"info":{"required":false},"info":{}}}`:             "twice",
		`{` + ours + `:{"info":{"required":false,"required":false}}}`:      "twice",
		`{` + ours + `:{"info":{"required":true},"schema":1,"schema":{}}}`: "twice",
		`{` + ours + `:{"info":{"required":true},"x":1,"x":1}}`:            "twice",
	} {
		checkNotAdded(t, offerWith(text), true, why)
	}
	for _, text := range []string{
		`[]`, `"payment-identifier"`, `{}`, `{"Payment-Identifier":{"info":{"required":true}}}`, `{` + ours + `:null}`, `{` + ours + `:true}`,
		`{` + ours + `:[{"info":{"required":true}}]}`, `{` + ours + `:{"required":true}}`, `{` + ours + `:{"info":[]}}`, `{` + ours + `:{"info":null}}`,
		`{"bazaar":{"payment-identifier":{"info":{"required":true}}}}`,
	} {
		checkNotAdded(t, offerWith(text), false, "")
	}
	checkNotAdded(t, x402.Offer{Version: 1, Accepted: json.RawMessage(entryV1)}, false, "")
	checkNotAdded(t, x402.Offer{Version: 2, Accepted: json.RawMessage(entryV2)}, false, "")
	for _, id := range []string{"", "short", strings.Repeat("a", 129), someID + `"`, someID + "\n", someID + "é"} {
		if got, err := identifiedBy(offerWith(`{`+ours+`:{"info":{"required":true}}}`), id); err == nil {
			t.Errorf("id %q: %s", id, got.Extensions)
		}
	}
	if got, err := identifiedBy(offerWith(`{`+ours+`:{"info":{"required":true}`), someID); err == nil {
		t.Errorf("half an object: %s", got.Extensions)
	}
}

// checkNotAdded checks that an offer is refused because of a required id, or stays as it is.
func checkNotAdded(t *testing.T, o x402.Offer, required bool, why string) {
	t.Helper()
	got, err := identifiedBy(o, someID)
	if !required {
		if err != nil || !sameEcho(got.Extensions, o.Extensions) {
			t.Errorf("%s became %s, %v", o.Extensions, got.Extensions, err)
		}
		return
	}
	unsupported, _ := errors.AsType[*x402.UnsupportedError](err)
	if unsupported == nil || unsupported.Kind != "extension" || unsupported.Value != "payment-identifier" || !strings.Contains(unsupported.Detail, why) {
		t.Errorf("%s: %s, %v; want an error with %q", o.Extensions, got.Extensions, err, why)
	}
}

// sameEcho reports whether an echo has the infos of extensions, and all of those without an info.
func sameEcho(echoed, extensions json.RawMessage) bool {
	all, err := strictjson.Object(extensions)
	if err != nil { // it is no object, or can be read in two ways
		return json.Valid(echoed) == json.Valid(extensions)
	}
	got, err := strictjson.Object(echoed)
	for name, value := range all {
		want := value
		if one, err := strictjson.Object(value); err == nil && one["info"] != nil {
			want = json.RawMessage(`{"info":` + string(one["info"]) + `}`)
		}
		if string(got[name]) != string(want) {
			return false
		}
	}
	return err == nil && len(got) == len(all)
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// checkIdentified checks promises that hold for every offer of a challenge: a payload has the id, or
// the seller did not require it; nothing else changes; and the same id makes the same payload.
func checkIdentified(t failer, o x402.Offer) {
	t.Helper()
	got, err := identifiedBy(o, someID)
	if err != nil {
		if _, ok := errors.AsType[*x402.UnsupportedError](err); !ok {
			t.Fatal(err)
		}
		return
	}
	if again := must(identifiedBy(o, someID)); string(again.Extensions) != string(got.Extensions) {
		t.Fatalf("%s, then %s", got.Extensions, again.Extensions)
	}
	var all map[string]any
	_ = json.Unmarshal(got.Extensions, &all)
	extension, _ := all["payment-identifier"].(map[string]any)
	info, _ := extension["info"].(map[string]any)
	if info["id"] != someID && info["required"] == true {
		t.Fatalf("no id in %s", got.Extensions)
	}
	if added := regexp.MustCompile(idText+`,?`).ReplaceAllLiteralString(string(got.Extensions), ""); !sameEcho(json.RawMessage(added), o.Extensions) {
		t.Fatalf("%s became %s", o.Extensions, got.Extensions)
	}
	if p := must(got.Payload(someAuthorization, someSignature)); !json.Valid(p.JSON) {
		t.Fatalf("not JSON: %s", p.JSON)
	}
}

func TestIdentifiedProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		space := rapid.StringOfN(rapid.SampledFrom([]rune(" \t\r\n")), 0, 2, -1)
		object := func(label string, most int, members ...string) string {
			var out []string
			for _, m := range rapid.SliceOfN(rapid.SampledFrom(members), 0, most).Draw(t, label) {
				out = append(out, space.Draw(t, "before")+m+space.Draw(t, "after"))
			}
			return "{" + strings.Join(out, ",") + "}"
		}
		id := object("id", 3, `"type":"string"`, `"type":1`, `"minLength":16`, `"minLength":99`, `"maxLength" : 128`, `"pattern":"^[a-z0-9-]+$"`, `"pattern":"^[a-z]+$"`, `"enum":[]`)
		schema := object("schema", 3, `"type":"object"`, `"properties":{"id":`+id+`}`, `"properties":{}`, `"required":["required"]`, `"required":["id"]`, `"additionalProperties":false`, `"anyOf":[]`)
		info := object("info", 3, `"required":true`, `"required": false`, `"required":null`, `"x":"\"}"`, `"id":"`+strings.Repeat("a", 16)+`"`, `"y":[{}]`)
		extension := object("extension", 3, `"info":`+info, `"info" : `+info, `"schema":`+schema, `"schema" :true`, `"other":{"info":{"required":true}}`)
		extensions := object("extensions", 3, `"payment-identifier":`+extension, `"payment-identifier" : []`, `"bazaar":{"info":{"required":true}}`, `"payment\u002Didentifier":`+extension)
		checkIdentified(t, offerWith(extensions))
	})
}

// patterned is an offer whose seller takes ids of a pattern.
func patterned(pattern string) x402.Offer {
	quoted, _ := json.Marshal(pattern)
	return offerWith(`{"payment-identifier":{"info":{},"schema":{"properties":{"id":{"pattern":` + string(quoted) + `}}}}}`)
}

// The forms of patterns that sellers use are known. With any other one there is no id, whatever the
// pattern would cost to compile.
func TestPatternsOfIDs(t *testing.T) {
	t.Parallel()
	for pattern, added := range map[string]bool{
		`^[a-zA-Z0-9_-]+$`: true, `^[A-Za-z0-9_\-]+$`: true, `^[\w-]+$`: true, `^[\w-]{16,128}$`: true, `^[a-z0-9-]{16,}$`: true,
		`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`:       true,
		`^[\da-f]{8}-[\da-f]{4}-[1-7][\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$`: true,
		`^[0-9a-fA-F]{8}\-[0-9a-fA-F]{4}\-7[0-9a-fA-F]{3}\-[0-9a-fA-F-]{17}$`:  true,
		`[a-z]`: true, `^0`: true, `ab$`: true, ``: true, `^.{16,128}$`: true, `^.*$`: true, `^0?1?9a*`: true, `^[A-Za-z0-9._:-]+$`: true,
		`^pay_[a-zA-Z0-9_-]+$`: false, `^[a-zA-Z0-9]+$`: false, `^[0-9a-f]{32}$`: false, `^[a-z0-9-]{37,}$`: false, `^.{1,35}$`: false, `A`: false, `^1`: false,
		`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$`: false,
		`^(0|1)`: false, `(?i)^[A-Z0-9-]+$`: false, `^[^/]+$`: false, `^[[:alnum:]-]+$`: false, `\S+`: false, `^\p{L}`: false, `[`: false, `[a`: false, `[z-a]`: false,
		`0|.*`: false, `.*?`: false, `.++`: false, `.{`: false, `.{x}`: false, `.{2,1}`: false, `.{1,2}{3}`: false, `.{,5}`: false, `*`: false, `^^0`: false, `0$0`: false, `\`: false,
	} {
		got, err := identifiedBy(patterned(pattern), someID)
		if err != nil || strings.Contains(string(got.Extensions), someID) != added {
			t.Errorf("%s: %v, %s", pattern, err, got.Extensions)
		}
	}
}

// An id is only added if the seller's own reading of its pattern takes it.
func TestPatternsAreReadAsSellersDo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		class := rapid.SampledFrom([]string{"[0-9a-f]", `[\w-]`, `\d`, `\w`, `\-`, ".", "-", "0", "a", "[a-z-]", `[\d-a]`, `[_-z]`, `[\w-z]`, "[", "(", "|", "^", "$", "[^a]"})
		quantifier := rapid.SampledFrom([]string{"", "", "+", "*", "?", "{8}", "{4}", "{0,999}", "{2,}", "{3,1}", "+?", "{"})
		pattern := rapid.SampledFrom([]string{"", "^"}).Draw(t, "begins")
		for range rapid.IntRange(0, 12).Draw(t, "length") {
			pattern += class.Draw(t, "class") + quantifier.Draw(t, "quantifier")
		}
		pattern += rapid.SampledFrom([]string{"", "$"}).Draw(t, "ends")
		got, err := identifiedBy(patterned(pattern), someID)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got.Extensions), someID) {
			return
		}
		if is, err := regexp.MatchString(pattern, someID); err != nil || !is {
			t.Fatalf("%q: %t, %v", pattern, is, err)
		}
	})
}
