package policy

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestSites(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://api.example.com/x":           "api.example.com",
		"HTTPS://API.Example.COM/x":           "api.example.com",
		"https://api.example.com./x":          "api.example.com",
		"https://api.example.com:443/x":       "api.example.com",
		"https://api.example.com.:443/x":      "api.example.com",
		"https://api.example.com:0443/x":      "api.example.com",
		"https://api.example.com:/x":          "api.example.com",
		"https://api.example.com:80":          "api.example.com:80",
		"http://api.example.com:80/x":         "api.example.com",
		"http://api.example.com:443":          "api.example.com:443",
		"https://api.example.com.:8443/":      "api.example.com:8443",
		"https://user:pw@api.example.com/":    "api.example.com",
		"https://api%2eexample.com/":          "", // no URL
		"https://ap%69.example.com/":          "",
		"https://192.0.2.1/":                  "192.0.2.1",
		"https://[2001:DB8:0::1]/":            "[2001:db8::1]",
		"https://[2001:db8::1]:443/":          "[2001:db8::1]",
		"https://[2001:db8::1]:8443/":         "[2001:db8::1]:8443",
		"https://[::443]/":                    "[::443]", // no port
		"https://[::ffff:192.0.2.1]/":         "192.0.2.1",
		"http://[0:0:0:0:0:0:0:1]:80/":        "[::1]",
		"https://evil.example@good.example/":  "good.example",
		"https://good.example#@evil.example/": "good.example",
		"ftp://api.example.com:21/":           "api.example.com:21",
		"":                                    "",
		"api.example.com":                     "",
		"/path":                               "",
		"https:///path":                       "",
		"https://:443/":                       "",
		"mailto:a@example.com":                "",
		"https://a b/":                        "",
		"https://[::1":                        "",
	} {
		if got := SiteOf(url).String(); got != want {
			t.Errorf("%q leads to %q, want %q", url, got, want)
		}
	}
}

func TestPatternsMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		matches []string
		others  []string
	}{
		{
			pattern: "example.com",
			matches: []string{"https://example.com/", "http://EXAMPLE.com.:80/a?b", "https://example.com:8443/", "https://x@example.com"},
			others: []string{
				"https://evil-example.com/", "https://example.com.evil/", "https://api.example.com/", "https://example.co/",
				"https://example.com.evil.org/", "https://com/", "https://example.com@evil.org/", "https://evil.org/example.com",
				"https://evil.org/?example.com", "https://evil.org#example.com", "https://example.com%2eevil.org/", "https://xexample.com", "",
			},
		},
		{
			pattern: "*.example.com",
			matches: []string{"https://api.example.com/", "https://a.b.c.example.com:8443/", "http://API.EXAMPLE.COM./"},
			others: []string{
				"https://example.com/", "https://evil-example.com/", "https://api.example.com.evil/", "https://apiexample.com/",
				"https://api.evil-example.com/", "https://example.com.evil.org/",
			},
		},
		{
			pattern: "example.com:8443",
			matches: []string{"https://example.com:8443/", "https://example.com.:08443/"},
			others:  []string{"https://example.com/", "https://example.com:443", "https://example.com:84430/", "https://example.com:844/"},
		},
		{
			pattern: "example.com:443",
			matches: []string{"https://example.com/", "https://example.com:443/", "http://example.com:443/"},
			others:  []string{"http://example.com/", "https://example.com:80/"},
		},
		{
			pattern: "example.com:80",
			matches: []string{"http://example.com/", "https://example.com:80/"},
			others:  []string{"https://example.com/"},
		},
		{
			pattern: "[::1]",
			matches: []string{"http://[::1]/", "http://[::1]:8080/", "https://[0:0::0:1]:443/"},
			others:  []string{"http://[::1:8080]/", "http://[::2]/", "http://[::]/", "http://1/"},
		},
		{
			pattern: "[::1]:8080",
			matches: []string{"http://[::1]:8080/"},
			others:  []string{"http://[::1]/", "http://[::1:8080]/"},
		},
		{
			pattern: "192.0.2.1",
			matches: []string{"http://192.0.2.1/", "http://[::ffff:192.0.2.1]:9/", "http://192.0.2.1./"},
			others:  []string{"http://192.0.2.10/", "http://1.192.0.2.1/", "http://192.0.2.1.evil/"},
		},
		{pattern: "*.0.2.1", others: []string{"http://192.0.2.1/"}}, // an address is below nothing
		{pattern: "*.com", matches: []string{"https://example.com"}, others: []string{"https://com", "https://example.org"}},
	} {
		for _, url := range c.matches {
			if !slices.Contains(SiteOf(url).Patterns(), c.pattern) {
				t.Errorf("%s does not match %q, but %q", c.pattern, url, SiteOf(url).Patterns())
			}
		}
		for _, url := range c.others {
			if slices.Contains(SiteOf(url).Patterns(), c.pattern) {
				t.Errorf("%s matches %q", c.pattern, url)
			}
		}
	}
}

func TestMostSpecificPattern(t *testing.T) {
	t.Parallel()
	all := []string{"a.b.example.com:8443", "a.b.example.com", "*.b.example.com", "*.example.com", "*.com"}
	if got := SiteOf("https://A.b.example.com:8443/").Patterns(); !slices.Equal(got, all) {
		t.Fatalf("patterns are %q", got)
	}
	for i := range all {
		pol := Policy{Hosts: map[string]Budget{"other.example.com": {}}}
		for _, pattern := range all[i:] {
			pol.Hosts[pattern] = Budget{}
		}
		if got, _, ok := pol.HostBudget(SiteOf("https://a.b.example.com:8443/x")); !ok || got != all[i] {
			t.Errorf("of %q %q counts", all[i:], got)
		}
	}
}

func TestNormalPatterns(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{ // "": refused
		"example.com": "example.com", "Example.COM.": "example.com", "*.Example.com": "*.example.com", "*.example.com.": "*.example.com",
		"localhost": "localhost", "a_b.example.com": "a_b.example.com", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"example.com:443": "example.com:443", "example.com.:08080": "example.com:8080", "192.0.2.1": "192.0.2.1", "192.0.2.1:80": "192.0.2.1:80",
		"[::1]": "[::1]", "[0:0::1]:80": "[::1]:80", "[::ffff:192.0.2.1]": "192.0.2.1", "[::FFFF:192.0.2.1]:1": "192.0.2.1:1", "*.com": "*.com",
		"": "", "*": "", "*.": "", ".": "", "..": "", "a..b": "", ".example.com": "", "example.com..": "", "*.*.example.com": "", "a.*.example.com": "",
		"*example.com": "", "*.example.com:443": "", "example.com:": "", "example.com:0": "", "example.com:65536": "", "example.com:-1": "",
		"example.com:http": "", "example.com:+80": "", "https://example.com": "", "example.com/": "", "example.com/path": "", "user@example.com": "",
		"exa mple.com": "", "example.com\x00": "", "bücher.example": "", "ｅxample.com": "", "::1": "", "::1:80": "", "[::1": "", "::1]": "", "[]": "",
		"[example.com]": "", "[192.0.2.1]": "", "[fe80::1%eth0]": "", "*.[::1]": "", "*.192.0.2.1": "", "[::1]:": "", "[::1]80": "", "[[::1]]": "",
		strings.Repeat("a", 64) + ".com": "", strings.Repeat("a.", 127) + "com": "",
	} {
		got, err := normalPattern(pattern)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v, want %q", pattern, got, err, want)
		}
		if again, _ := normalPattern(got); got != "" && again != got {
			t.Errorf("%q becomes %q and then %q", pattern, got, again)
		}
	}
}

// A pattern's key begins the keys of just those sites that it matches, so that a budget sums
// what it is a budget of.
func TestPatternKeys(t *testing.T) {
	t.Parallel()
	urls := []string{
		"https://example.com/", "http://example.com/", "https://example.com:8443/", "https://example.com:80/", "https://example.com:8080/",
		"https://api.example.com/", "https://api.example.com:8443/", "https://b.api.example.com/", "https://apis.example.com/",
		"https://example.community/", "https://evil-example.com/", "https://com/", "https://192.0.2.1/", "https://192.0.2.1:8443/",
		"https://x.2.0.192/", "https://[2001:db8::1]/", "https://[2001:db8::1]:8443/", "ftp://api.example.com/",
	}
	patterns := []string{
		"example.com", "example.com:443", "example.com:80", "example.com:8443", "*.example.com", "*.com", "api.example.com", "*.api.example.com",
		"api.example.com:8443", "192.0.2.1", "192.0.2.1:8443", "*.2.0.192", "[2001:db8::1]", "[2001:db8::1]:8443", "com",
	}
	matches := 0
	for _, pattern := range patterns {
		if normal, err := normalPattern(pattern); err != nil || normal != pattern {
			t.Fatalf("%s: %s, %v", pattern, normal, err)
		}
		for _, url := range urls {
			at := SiteOf(url)
			want := slices.Contains(at.Patterns(), pattern)
			if got := strings.HasPrefix(at.Key(), PatternKey(pattern)); got != want {
				t.Errorf("%s (%s) and %s (%s): %v, want %v", url, at.Key(), pattern, PatternKey(pattern), got, want)
			}
			if want {
				matches++
			}
		}
	}
	if matches < 30 {
		t.Errorf("%d matches", matches)
	}
}

// A host that DNS cannot have is none, and neither is one with a port that no machine has.
func TestCheckHost(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("a", 50) + "."
	name := strings.Repeat(label, 4) + strings.Repeat("b", 49) // 253 bytes
	for raw, fits := range map[string]bool{
		"https://" + name + "/": true, "https://" + name + ".:65535/x": true, "/x": true, "https://[::1]:0/": true, "https://a:00000443": true,
		"https://b" + name: false, "https://user@b" + name + ":1/": false, "https://[fe80::1%25" + name + "]/": false,
		"https://a:65536": false, "https://a:" + strings.Repeat("9", 3000) + "/": false, "https://" + strings.Repeat("%c3%a9", 127) + "/": false,
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckHost(u); (err == nil) != fits {
			t.Errorf("%.100s: %v", raw, err)
		}
	}
}

// A tool has a rule of its own, which is more specific than that of its server.
func TestToolPatterns(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"mcp://api.example.com/tool/get_weather":      "mcp://api.example.com/tool/get_weather",
		"mcp://API.example.com:443/tool/get_weather/": "mcp://api.example.com/tool/get_weather",
		"mcp://api.example.com:8443/prompt/a b":       "mcp://api.example.com:8443/prompt/a%20b",
		"mcp://[::1]:8080/resource/weather:%2F%2Fx":   "mcp://[::1]:8080/resource/weather:%2F%2Fx",
		"mcp://api.example.com":                       "",
		"mcp://api.example.com/tool":                  "",
		"mcp://api.example.com/tool/a/b":              "",
		"mcp://api.example.com/tools/a":               "",
		"mcp://*.example.com/tool/a":                  "",
		"mcp://api.example.com/tool/a?b":              "",
		"mcp://me@api.example.com/tool/a":             "",
		"mcp:///tool/a":                               "",
		"https://api.example.com/tool/a":              "",
	} {
		if got, err := normalPattern(pattern); got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v; want %q", pattern, got, err, want)
		}
	}
	at := SiteOf("mcp://api.example.com/tool/get_weather")
	if at.String() != "api.example.com" || at.Patterns()[0] != "mcp://api.example.com/tool/get_weather" || !slices.Contains(at.Patterns(), "api.example.com") {
		t.Errorf("%s, %q", at, at.Patterns())
	}
	for pattern, matches := range map[string]bool{
		"mcp://api.example.com/tool/get_weather": true, "mcp://api.example.com/tool/get": false, "mcp://api.example.com:8443/tool/get_weather": false,
		"api.example.com": true, "api.example.com:443": true, "*.example.com": true,
	} {
		if slices.Contains(at.Patterns(), pattern) != matches || strings.HasPrefix(at.Key(), PatternKey(pattern)) != matches {
			t.Errorf("%s: key %s begins %s", pattern, PatternKey(pattern), at.Key())
		}
	}
	if !covers("api.example.com", "mcp://api.example.com/tool/a") || covers("mcp://api.example.com/tool/a", "api.example.com") {
		t.Error("a server covers its tools")
	}
}

func TestNamesTool(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		"mcp://weather.stdio/tool/get_weather":         true,
		"mcp://weather.stdio/resource/file:%2F%2F%2Fa": true,
		"mcp://weather.stdio/tool/":                    false,
		"mcp://weather.stdio/tool/a?b":                 false,
		"mcp:///tool/a":                                false,
		"mcp://*.stdio/tool/a":                         false,
		"weather.stdio":                                false,
		"https://weather.stdio/tool/a":                 false,
	} {
		if got := NamesTool(raw); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}
