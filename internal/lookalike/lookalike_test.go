package lookalike_test

import (
	"testing"

	"golang.org/x/net/idna"

	"github.com/purserpay/purser/internal/lookalike"
)

func TestLookAlikes(t *testing.T) {
	t.Parallel()
	for host, real := range map[string]string{
		"api.examp1e.com":     "api.example.com", // a digit for a letter
		"exarnple.com":        "example.com",
		"exmaple.com":         "example.com", // two letters swapped
		"examplle.com":        "www.example.com",
		"exampl.com":          "example.com",
		"exampla.com":         "example.com",
		"api.example.co":      "api.example.com", // another ending
		"example.com.au":      "example.com",
		"weather.fly.dev":     "weather.vercel.app",
		"wheather.vercel.app": "weather.vercel.app",
		"exаmple.com":         "example.com", // Cyrillic а
		"ехамрӏе.com":         "examp1e.com", // no Latin letter at all
		"éxample.com":         "example.com",
		"example.com.pay.net": "api.example.com",
		"example-com.net":     "example.com",
		"api.example-com.net": "example.com",
		"аbc.test":            "abc.test", // short, and written to deceive
		"stableenrlch.dev":    "stableenrich.dev",
		"EXAMPLE.ORG.":        "example.com",
	} {
		ascii, err := idna.Punycode.ToASCII(host)
		if err != nil {
			t.Fatal(err)
		}
		if got := lookalike.Of(ascii, []string{"other.test", real}); got != real {
			t.Errorf("%s (%s) looks like %q, want %q", host, ascii, got, real)
		}
	}
}

func TestHostsThatAreNoLookAlikes(t *testing.T) {
	t.Parallel()
	for host, other := range map[string]string{
		"api2.example.com":     "api1.example.com", // one owner
		"example.com":          "www.example.com",
		"other.com":            "example.com",
		"api.dev":              "api.com", // short
		"seller2.test":         "seller3.test",
		"seller-b.test":        "seller-a.test",
		"seller22.test":        "seller2.test",
		"bing.com":             "ping.com", // short, and one character
		"127.0.0.1":            "127.0.0.2",
		"[::1]":                "[::2]",
		"sellers":              "seller",
		"sellers.internal":     "seller.internal",
		"seller-one.localhost": "seller-two.localhost",
		"mail.com":             "example.com.cdn.net",
		"exampleshop.com":      "example.com",
		"":                     "example.com",
		"com":                  "example.com",
	} {
		if got := lookalike.Of(host, []string{other}); got != "" {
			t.Errorf("%s looks like %s", host, got)
		}
	}
}
