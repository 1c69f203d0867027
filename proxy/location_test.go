package proxy

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

func TestLocationsAreWrittenInOneSpelling(t *testing.T) {
	t.Parallel()
	base, err := url.Parse("http://shop.test/a/b?c=d")
	if err != nil {
		t.Fatal(err)
	}
	for location, want := range map[string]string{
		"x?n=1":                               "http://shop.test/a/x?n=1",
		"/x":                                  "http://shop.test/x",
		"?e":                                  "http://shop.test/a/b?e",
		"":                                    "http://shop.test/a/b?c=d",
		"#part":                               "http://shop.test/a/b?c=d#part",
		"//other.test/x":                      "http://other.test/x",
		"HTTPS://Shop.Test:443/x":             "https://shop.test/x",
		"http://shop.test:80":                 "http://shop.test/",
		"http://shop.test:0080/":              "http://shop.test/",
		"http://shop.test:/x":                 "http://shop.test/x",
		"http://shop.test./x":                 "http://shop.test/x",
		"http://user:secret@shop.test/x":      "http://shop.test/x",
		"/%2D%2e%7e%41":                       "http://shop.test/-.~A",
		"/%c3%a9 é|\"<>{}^`'":                 "http://shop.test/%C3%A9%20%C3%A9%7C%22%3C%3E%7B%7D%5E%60%27",
		"/a%2fb/../c/%2E%2e/./d":              "http://shop.test/d",
		"/../../x":                            "http://shop.test/x",
		"/x?a=%zz&b=100%&c=%2d+[1]":           "http://shop.test/x?a=%25zz&b=100%25&c=-+%5B1%5D",
		"/x%":                                 "http://shop.test/x%25",
		`/\evil.test/x`:                       "http://shop.test/%5Cevil.test/x",
		`\\evil.test/x`:                       "http://shop.test/a/%5C%5Cevil.test/x",
		"http://b\u00fccher.test/":            "http://xn--bcher-kva.test/",
		"http://[::FFFF:7f00:1]:80/":          "http://[::ffff:127.0.0.1]/",
		"http://my_shop.test/":                "http://my_shop.test/",
		"/x#a b":                              "http://shop.test/x#a%20b",
		"http:x":                              "", // clients differ
		"http:/other.test/x":                  "",
		"http:///other.test/x":                "",
		"///other.test/x":                     "",
		`http:\\other.test\x`:                 "",
		`http://other.test\@shop.test/`:       "",
		"ht\ttp://other.test/":                "",
		"/x\ty":                               "",
		"http://%6fther.test/":                "",
		"http://2130706433/":                  "",
		"http://0x7f.1/":                      "",
		"http://other.test:70000/":            "",
		"http://[fe80::1%25eth0]/":            "",
		"ws://shop.test/x":                    "",
		"magnet:?xt=urn:btih:0":               "magnet:?xt=urn:btih:0",
		"http://shop.test/x?redirect=http://": "http://shop.test/x?redirect=http://",
	} {
		resp := &http.Response{StatusCode: 302, Header: http.Header{"Location": {location, "/another"}}}
		rewrite(resp, base, false)
		if got := resp.Header.Values("Location"); len(got) > 1 || resp.Header.Get("Location") != want {
			t.Errorf("%q is written as %q, not %q", location, got, want)
		}
		if want == "" || want == location {
			continue
		}
		again, err := url.Parse(want)
		if err != nil || normal(again).String() != want {
			t.Errorf("%q is not written as itself: %v", want, err)
		}
	}
	for status, leads := range map[int]bool{200: false, 201: false, 299: false, 300: true, 304: true, 399: true, 400: false} {
		resp := &http.Response{StatusCode: status, Header: http.Header{"Location": {"x"}}}
		if rewrite(resp, base, false); (resp.Header.Get("Location") != "x") != leads {
			t.Errorf("%d: %s", status, resp.Header.Get("Location"))
		}
	}
}

// A server in front of a sidecar may have given the client another scheme and name.
func TestLocationsOfTheSameOriginStayWithoutIt(t *testing.T) {
	t.Parallel()
	base, err := url.Parse("http://LOCALHOST:8403/api/x")
	if err != nil {
		t.Fatal(err)
	}
	for location, want := range map[string]string{
		"y?n=1":                       "/api/y?n=1",
		"http://localhost:8403/%79":   "/y",
		"//localhost:8403":            "/",
		"http://localhost:8403//y":    "http://localhost:8403//y",
		"https://localhost:8403/y":    "https://localhost:8403/y",
		"https://api.example.com/v1/": "https://api.example.com/v1/",
	} {
		resp := &http.Response{StatusCode: 302, Header: http.Header{"Location": {location}}}
		if rewrite(resp, base, true); resp.Header.Get("Location") != want {
			t.Errorf("%q is written as %q, not %q", location, resp.Header.Get("Location"), want)
		}
	}
}

func TestRefreshesAreWrittenInOneSpelling(t *testing.T) {
	t.Parallel()
	base, err := url.Parse("http://shop.test/a/b")
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"0; url=x":                   "0; url=http://shop.test/a/x",
		"3;URL='/x%2Dy'":             "3; url=http://shop.test/x-y",
		" 10 , Url = \"//o.test/\" ": "10; url=http://o.test/",
		"0;/x":                       "0; url=http://shop.test/x",
		"1.5; url=/x":                "1; url=http://shop.test/x",
		"5":                          "5; url=http://shop.test/a/b",
		"5;":                         "5; url=http://shop.test/a/b",
		"301; url=/x":                "",
		"; url=/x":                   "",
		"0url=/x":                    "",
		"0; url=http:/x":             "",
		"0; url=javascript:alert()":  "",
		"99999999999999999999":       "",
	} {
		resp := &http.Response{StatusCode: 200, Header: http.Header{"Refresh": {value, "0; url=/another"}}}
		rewrite(resp, base, false)
		if got := resp.Header.Values("Refresh"); len(got) > 1 || resp.Header.Get("Refresh") != want {
			t.Errorf("%q is written as %q, not %q", value, got, want)
		}
	}
}

func TestPlacesAreTheSameInEverySpelling(t *testing.T) {
	t.Parallel()
	place := func(raw string) string {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return placeOf(u)
	}
	for _, same := range [][]string{
		{"http://shop.test/x-y?a=b", "HTTP://SHOP.test.:80/x%2Dy?%61=b", "https://shop.test/./z/..//x-y?a=b", "http://u:p@shop.test/x-y?a=b#part"},
		{"http://shop.test", "https://shop.test:443/?"},
		{"http://shop.test/%7c%27?q=%5b", "http://shop.test/|'?q=["},
	} {
		for _, other := range same[1:] {
			if place(other) != place(same[0]) {
				t.Errorf("%s is another place than %s", other, same[0])
			}
		}
	}
	for _, other := range []string{"http://shop.test/x", "http://shop.test/x?n=1", "http://shop.test:81/x-y", "http://other.test/x-y"} {
		if place(other) == place("http://shop.test/x-y") {
			t.Errorf("%s is the same place", other)
		}
	}
}

func TestWaitsOfAnswers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "90": 90 * time.Second, "301": 0, "never": 0, "-5": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(time.Hour).Format(http.TimeFormat): 0,
	} {
		resp := &http.Response{Header: http.Header{"Retry-After": {value}}}
		if got := retryAfter(resp, now); got != want {
			t.Errorf("%q waits %s, not %s", value, got, want)
		}
		if (value == "301" || value == "never") && resp.Header.Get("Retry-After") != "" {
			t.Errorf("%q was handed on", value)
		}
	}
}
