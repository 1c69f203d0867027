package x402_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

const (
	entryV2 = `{"scheme":"exact","network":"eip155:8453","amount":"10000","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",` +
		`"payTo":"0x209693Bc6afc0C5328bA36FaF03C514EF312287C","maxTimeoutSeconds":60,"extra":{"name":"USD Coin","version":"2"}}`
	entryV1 = `{"scheme":"exact","network":"base-sepolia","maxAmountRequired":"10000","resource":"https://api.example.com/v1",` +
		`"description":"weather","mimeType":"","payTo":"0x209693bc6afc0c5328ba36faf03c514ef312287c","maxTimeoutSeconds":300,` +
		`"asset":"0x036CbD53842c5426634e7929541eC2318f3dCF7e","outputSchema":null,"extra":{"name":"USDC","version":"2"}}`
	challengeV2 = `{"x402Version":2,"error":"Payment required","resource":{"url":"https://api.example.com/v2","description":"a <b> & c"},` +
		`"accepts":[` + entryV2 + `],"extensions":{"bazaar":{"info":{},"schema":{}}}}`
	challengeV1 = `{"x402Version":1,"error":"X-PAYMENT header is required","accepts":[` + entryV1 + `]}`
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestDecodeHeaderV2(t *testing.T) {
	t.Parallel()
	odd := strings.Replace(challengeV2, "a <b> & c", "???>>>~~~", 1) // has both characters that URL-safe base64 replaces
	if encoded := b64(odd); !strings.ContainsAny(encoded, "+/") {
		t.Fatal("the sample has no + or /")
	}
	for name, value := range map[string]string{
		"standard":          b64(odd),
		"standard unpadded": base64.RawStdEncoding.EncodeToString([]byte(odd)),
		"url":               base64.URLEncoding.EncodeToString([]byte(odd)),
		"url unpadded":      base64.RawURLEncoding.EncodeToString([]byte(odd)),
		"plain":             odd,
		"spaces around":     " " + b64(odd) + "\t",
	} {
		c, err := x402.DecodeHeader(value)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.Version != 2 || c.Bare || c.Error != "Payment required" || c.ResourceURL != "https://api.example.com/v2" ||
			len(c.Accepts) != 1 || string(c.Extensions) != `{"bazaar":{"info":{},"schema":{}}}` {
			t.Errorf("%s: %+v", name, c)
		}
		checkEntry(t, name, c.Accepts[0], entryV2, 2, "eip155:8453", time.Minute, "USD Coin")
	}
}

func checkEntry(t *testing.T, name string, r x402.Requirement, raw string, version int, network string, timeout time.Duration, domain string) {
	t.Helper()
	if string(r.Raw) != raw {
		t.Errorf("%s: Raw is %s, want %s", name, r.Raw, raw)
	}
	if r.Problem != nil || r.Version != version || r.Scheme != "exact" || r.Network != network || r.Amount != money.New(10000) ||
		r.PayTo.String() != "0x209693Bc6afc0C5328bA36FaF03C514EF312287C" || r.MaxTimeout != timeout ||
		r.DomainName != domain || r.DomainVersion != "2" || r.TransferMethod != "" || r.PaymentFlow != "" {
		t.Errorf("%s: %+v", name, r)
	}
	if n, asset, err := r.Supports(); err != nil || asset.Symbol != "USDC" || !x402.SameNetwork(n.Name, network) {
		t.Errorf("%s: Supports is %v, %v, %v", name, n, asset, err)
	}
}

func TestDecodeV1(t *testing.T) {
	t.Parallel()
	body := must(x402.DecodeBody([]byte("\n " + challengeV1 + "\n")))
	header := must(x402.DecodeHeader(b64(challengeV1)))
	for name, c := range map[string]x402.Challenge{"body": body, "header": header} {
		if c.Version != 1 || c.Bare || c.Resource != nil || c.Extensions != nil || c.ResourceURL != "https://api.example.com/v1" ||
			c.Error != "X-PAYMENT header is required" || c.Accepts[0].Description != "weather" {
			t.Errorf("%s: %+v", name, c)
		}
		checkEntry(t, name, c.Accepts[0], entryV1, 1, "base-sepolia", 5*time.Minute, "USDC")
	}
}

func TestDecodeBare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value   string
		version int
	}{
		"v2 by amount":  {entryV2, 2},
		"v1":            {entryV1, 1},
		"v2 by network": {`{"network":"eip155:8453","maxAmountRequired":"1","scheme":"exact"}`, 2},
		"spec":          {`{"scheme":"exact","network":"base","maxAmountRequired":"1","asset":"x","payTo":"y"}`, 1},
		"two members":   {`{"scheme":"exact","network":"base"}`, 1},
	} {
		got, err := x402.DecodeHeader(b64(" " + c.value + " "))
		if err != nil || !got.Bare || got.Version != c.version || len(got.Accepts) != 1 ||
			string(got.Accepts[0].Raw) != c.value || got.Accepts[0].Version != c.version {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if _, err := x402.DecodeBody([]byte(c.value)); !errors.Is(err, x402.ErrNotChallenge) {
			t.Errorf("%s: a body that is a bare requirement: %v", name, err)
		}
	}
}

func TestHeaderWithoutVersion(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]int{entryV1: 1, entryV2: 2} {
		value := `{"accepts":[` + entry + `]}`
		if c, err := x402.DecodeHeader(value); err != nil || c.Version != want || c.Accepts[0].Problem != nil {
			t.Errorf("version %d: %+v, %v", want, c, err)
		}
		if _, err := x402.DecodeBody([]byte(value)); !errors.Is(err, x402.ErrNotChallenge) {
			t.Errorf("a body without x402Version: %v", err)
		}
	}
}

func TestNullIsAbsent(t *testing.T) {
	t.Parallel()
	entry := strings.NewReplacer(`,"extra":`, `,"more":null,"extra":`, `:60`, `:null`).Replace(entryV2)
	c := must(x402.DecodeHeader(`{"x402Version":2,"error":null,"resource":null,"accepts":[` + entry + `],"extensions":null}`))
	r := c.Accepts[0]
	if c.Error != "" || c.Resource != nil || c.Extensions != nil || r.Problem != nil || r.MaxTimeout != 0 {
		t.Errorf("%+v", c)
	}
	if _, _, err := r.Supports(); err != nil {
		t.Errorf("without a timeout: %v", err)
	}
}

func TestOrderIsKept(t *testing.T) {
	t.Parallel()
	solana := `{"scheme":"exact","network":"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp","amount":"0.01","asset":"EPjFWdd5","payTo":"abc","maxTimeoutSeconds":60}`
	c, err := x402.DecodeHeader(`{"x402Version":2,"accepts":[` + solana + `, null, ` + entryV2 + ` ,[],"x"]}`)
	if err != nil || len(c.Accepts) != 5 {
		t.Fatalf("%+v, %v", c, err)
	}
	for i, usable := range []bool{false, false, true, false, false} {
		if (c.Accepts[i].Problem == nil) != usable {
			t.Errorf("entry %d: %v", i, c.Accepts[i].Problem)
		}
	}
	checkEntry(t, "third", c.Accepts[2], entryV2, 2, "eip155:8453", time.Minute, "USD Coin")
	_, _, err = c.Accepts[0].Supports()
	if u, ok := errors.AsType[*x402.UnsupportedError](err); !ok || u.Kind != "network" {
		t.Errorf("solana: %v, want an unsupported network", err)
	}
}

func TestNotChallenges(t *testing.T) {
	t.Parallel()
	whole := b64(challengeV2)
	for name, value := range map[string]string{
		"empty": "", "space": "  ", "words": "pay me", "html": "<!doctype html><html>402</html>", "html in base64": b64("<html>"),
		"truncated base64": whole[:len(whole)/2], "one byte short": whole[:len(whole)-5], "both alphabets": "-" + whole + "+/",
		"truncated JSON": challengeV2[:len(challengeV2)-1], "trailing": challengeV2 + "{}", "array": "[" + challengeV2 + "]",
		"string": b64(`"x"`), "number": b64("402"), "null": b64("null"), "empty object": "{}", "empty object in base64": b64("{}"),
		"no accepts": `{"x402Version":2}`, "null accepts": `{"x402Version":2,"accepts":null}`,
		"accepts object": `{"x402Version":1,"accepts":{}}`, "accepts no version": `{"accepts":["application/json"]}`,
		"version 3":              strings.Replace(challengeV2, `"x402Version":2`, `"x402Version":3`, 1),
		"version text":           strings.Replace(challengeV2, `"x402Version":2`, `"x402Version":"2"`, 1),
		"version 1e0":            strings.Replace(challengeV2, `"x402Version":2`, `"x402Version":1e0`, 1),
		"double version":         strings.Replace(challengeV2, `"x402Version":2`, `"x402Version":2,"x402Version":1`, 1),
		"double accepts":         `{"x402Version":2,"accepts":[],"accepts":[` + entryV2 + `]}`,
		"double escaped accepts": `{"x402Version":2,"accepts":[],"\u0061ccepts":[` + entryV2 + `]}`,
		"double resource url":    `{"x402Version":2,"accepts":[],"resource":{"url":"a","url":"b"}}`,
		"resource array":         `{"x402Version":2,"accepts":[],"resource":[]}`,
		"other letter case":      `{"X402version":2,"Accepts":[` + entryV2 + `]}`,
		"not UTF-8":              `{"x402Version":2,"accepts":[],"error":"` + "\xff" + `"}`,
		"control character":      `{"x402Version":2,"accepts":[],"error":"` + "\x01" + `"}`,
	} {
		if c, err := x402.DecodeHeader(value); !errors.Is(err, x402.ErrNotChallenge) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		if c, err := x402.DecodeBody([]byte(value)); !errors.Is(err, x402.ErrNotChallenge) {
			t.Errorf("%s in the body: %+v, %v", name, c, err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	list := func(n int) string {
		return `{"x402Version":2,"accepts":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}`
	}
	nested := func(n int) string {
		return `{"x402Version":2,"accepts":[],"extensions":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	padded := func(size int) string {
		const around = `{"x402Version":2,"accepts":[],"error":""}`
		return strings.Replace(around, `""`, `"`+strings.Repeat("x", size-len(around))+`"`, 1)
	}
	crowded := func(n int) string {
		others := ""
		for i := range n {
			others += fmt.Sprintf(`"%d":1,`, i)
		}
		return `{` + others + `"x402Version":2,"accepts":[]}`
	}
	for name, value := range map[string]string{
		"65 entries": list(65), "huge array": list(20000), "31 levels in": nested(31), "64 KiB": padded(x402.MaxChallengeBytes), "256 members": crowded(254),
	} {
		if _, err := x402.DecodeHeader(b64(value)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, value := range map[string]string{
		"32 levels in": nested(32), "64 KiB and a byte": padded(x402.MaxChallengeBytes + 1),
		"bottomless":   `{"x402Version":1,"accepts":` + strings.Repeat("[", 30000),
		"many members": crowded(255),
	} {
		if _, err := x402.DecodeHeader(value); !errors.Is(err, x402.ErrTooLarge) || errors.Is(err, x402.ErrNotChallenge) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := x402.DecodeBody([]byte(value)); !errors.Is(err, x402.ErrTooLarge) {
			t.Errorf("%s in the body: %v", name, err)
		}
	}
	if _, err := x402.DecodeHeader(strings.Repeat("A", x402.MaxHeaderBytes+1)); !errors.Is(err, x402.ErrTooLarge) {
		t.Errorf("header: %v", err)
	}
}

func TestFromResponse(t *testing.T) {
	t.Parallel()
	headers := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		return h
	}
	v2, other := b64(challengeV2), b64(`{"x402Version":2,"accepts":[]}`)
	for name, c := range map[string]struct {
		header  http.Header
		body    string
		version int // 0: none decoded
		found   bool
	}{
		"header before body":      {headers("payment-required", v2), challengeV1, 2, true},
		"header alone":            {headers(x402.HeaderRequired, v2), `{}`, 2, true},
		"header twice alike":      {headers(x402.HeaderRequired, v2, x402.HeaderRequired, v2), ``, 2, true},
		"header twice unlike":     {headers(x402.HeaderRequired, v2, x402.HeaderRequired, other), challengeV1, 0, true},
		"bad header hides body":   {headers(x402.HeaderRequired, "true"), challengeV1, 0, true},
		"empty header":            {headers(x402.HeaderRequired, " "), challengeV1, 1, true},
		"extra before body":       {headers("X-Terms", v2), challengeV1, 2, true},
		"header before extra":     {headers("X-Terms", other, x402.HeaderRequired, b64(challengeV1)), ``, 1, true},
		"extra of something else": {headers("X-Terms", "see website"), challengeV1, 1, true},
		"second extra":            {headers("X-Terms", "see website", "X-Other", v2), ``, 2, true},
		"extra too large":         {headers("X-Terms", strings.Repeat("A", x402.MaxHeaderBytes+1)), challengeV1, 0, true},
		"body v1":                 {headers(), challengeV1, 1, true},
		"body v2":                 {headers(), challengeV2, 2, true},
		"broken body":             {headers(), challengeV1[:200], 0, true},
		"large body":              {headers(), challengeV1 + strings.Repeat(" ", x402.MaxChallengeBytes), 0, true},
		"nothing":                 {nil, ``, 0, false},
		"html":                    {headers(), `<html>pay</html>`, 0, false},
		"other JSON":              {headers(), `{"error":"upgrade your plan"}`, 0, false},
		"large other JSON":        {headers(), `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, 0, false},
	} {
		got, found, err := x402.FromResponse(c.header, []byte(c.body), "X-Terms", "x-other")
		if found != c.found || got.Version != c.version || (err != nil) != (c.found && c.version == 0) {
			t.Errorf("%s: version %d, %v, %v", name, got.Version, found, err)
		}
	}
}

func TestErrorsTellNothingSecret(t *testing.T) {
	t.Parallel()
	_, err := x402.DecodeHeader(b64(`{"x402Version":2,"accepts":[],"token":"hunter2"`))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error is %v", err)
	}
}

func TestBodyIsNotShared(t *testing.T) {
	t.Parallel()
	body := []byte(challengeV1)
	c := must(x402.DecodeBody(body))
	clear(body)
	if string(c.Accepts[0].Raw) != entryV1 {
		t.Error("the challenge changes with the caller's buffer")
	}
}
