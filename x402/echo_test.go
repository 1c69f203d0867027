package x402_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/purserpay/purser/x402"
)

// An offer that would be too large goes without the parts that sellers do not need. Any other stays whole.
func TestOfferWithin(t *testing.T) {
	t.Parallel()
	const most = 8 << 10
	words := strings.Repeat("ä word ", 1300)
	short := `{"url":"https://a.example/x","description":"` + words[:104] + `","mimeType":"a/b","serviceName":"A"}`
	cut := `{"url":"https://a.example/x","description":"` + strings.Repeat("ä word ", 70)[:500] + `","mimeType":"a/b"}`
	long := `{"url":"https://a.example/x","description":"` + words + `","mimeType":"a/b","serviceName":"A","tags":["` + words + `"]}`
	some := `{"bazaar":{"info":{"n":1}}}`
	id := `{"payment-identifier":{"info":{"id":"` + someID + `","required":true}}}`
	entryOf1 := `{"scheme":"exact","network":"base","maxAmountRequired":"1","resource":"https://a.example/x","description":"%s","mimeType":"","outputSchema":{"text":"%s"},` +
		`"payTo":"0x209693Bc6afc0C5328bA36FaF03C514EF312287C","maxTimeoutSeconds":60,"asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","extra":{"name":"USD Coin","version":"2"}}`
	v2 := func(resource, extensions string) string {
		return `{"x402Version":2,"accepts":[` + entryV2 + `],"resource":` + resource + `,"extensions":` + extensions + `}`
	}
	for name, c := range map[string]struct{ challenge, resource, extensions string }{
		"all":           {v2(short, some), short, some},
		"schema":        {v2(short, `{"bazaar":{"info":{"n":1},"schema":{"text":"`+words+`"}}}`), short, some},
		"mppx":          {v2(short, `{"mppx":{"info":{"method":"GET"},"schema":{}}}`), short, `{"mppx":{"info":{"method":"GET"},"schema":{}}}`},
		"description":   {v2(long, some), cut, some},
		"a text":        {v2(`"https://a.example/x"`, some), `"https://a.example/x"`, some},
		"info":          {v2(short, `{"bazaar":{"info":{"example":"`+words+`"}}}`), short, ""},
		"both":          {v2(long, `{"bazaar":{"info":{"example":"`+words+`"}},"list":["`+words+`"]}`), cut, ""},
		"id beside":     {v2(long, `{"bazaar":{"info":{"example":"`+words+`"}},"payment-identifier":{"info":{"required":true},"schema":`+officialSchema+`}}`), cut, id},
		"only the id":   {v2(short, `{"payment-identifier":{"schema":{"description":"`+words+`"},"info":{"required":true}}}`), short, id},
		"version 1":     {`{"x402Version":1,"accepts":[` + fmt.Sprintf(entryOf1, "", words) + `]}`, "", ""},
		"version 1, it": {`{"x402Version":1,"accepts":[` + fmt.Sprintf(entryOf1, words, "") + `]}`, "", ""},
		"1 inside of 2": {`{"x402Version":2,"accepts":[` + fmt.Sprintf(entryOf1, words, words) + `],"resource":` + long + `,"extensions":` + some + `}`, "", ""},
	} {
		challenge := must(x402.DecodeHeader(c.challenge))
		received := challenge.Offer(0)
		got, err := challenge.Identify(someID).Within(received, most)
		if err != nil || !got.Fits(most) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if string(got.Extensions) != c.extensions || got.Version == 2 && (string(got.Resource) != c.resource || string(got.Accepted) != string(received.Accepted)) {
			t.Errorf("%s: %s, %s\nwant %s, %s", name, got.Resource, got.Extensions, c.resource, c.extensions)
		}
		if got.Version == 1 {
			var kept map[string]any
			if err := json.Unmarshal(got.Accepted, &kept); err != nil || len(kept) != 10 || kept["outputSchema"] != nil {
				t.Errorf("%s: %s, %v", name, got.Accepted, err)
			}
			mine, seller := must(got.Payload(someAuthorization, someSignature)), must(received.Payload(someAuthorization, someSignature))
			if mine.Header() != seller.Header() {
				t.Errorf("%s: the payload depends on what is kept", name)
			}
		}
		if got.ResourceURL() != "https://a.example/x" || len(got.Description()) > 500 {
			t.Errorf("%s: %s, %q", name, got.ResourceURL(), got.Description())
		}
	}

	for name, text := range map[string]string{
		"accepted": `{"x402Version":2,"accepts":[` + strings.Replace(entryV2, "{", `{"more":"`+words+`",`, 1) + `]}`,
		"URL":      v2(`{"url":"https://a.example/`+strings.ReplaceAll(words, " ", "-")+`"}`, "null"),
	} {
		challenge := must(x402.DecodeHeader(text))
		if _, err := challenge.Identify(someID).Within(challenge.Offer(0), most); !errors.Is(err, x402.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A slim payload has the same authorization and signature, and what no seller can do without.
func TestSlimOffer(t *testing.T) {
	t.Parallel()
	resource := json.RawMessage(`{"url":"https://a.example/x"}`)
	for extensions, kept := range map[string]string{
		"":                         "",
		`{"bazaar":{"info":{}}}`:   "",
		`[]`:                       "",
		`{"payment-identifier":1}`: "",
		`{"a":{"info":{}},"payment-identifier":{"info":{"id":"` + someID + `","required":false}}}`: "",
		`{"a":{"info":{}},"payment-identifier":{"info":{"id":"` + someID + `","required":true}}}`:  `{"payment-identifier":{"info":{"id":"` + someID + `","required":true}}}`,
	} {
		o := offerWith(extensions)
		if o.Resource = resource; extensions == "" {
			o.Extensions = nil
		}
		slim := o.Slim()
		if slim.Resource != nil || string(slim.Extensions) != kept {
			t.Errorf("%s: %s, %s", extensions, slim.Resource, slim.Extensions)
		}
		p := must(slim.Payload(someAuthorization, someSignature))
		a, s, err := p.Authorization()
		if err != nil || a != someAuthorization || s != someSignature || !strings.Contains(string(p.JSON), `"accepted":`+entryV2) {
			t.Errorf("%s: %s, %v", extensions, p.JSON, err)
		}
	}
}
