package cli

import (
	"testing"
)

func TestInitQuestions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"8402": "127.0.0.1:8402", "0.0.0.0:80": "0.0.0.0:80", "[::1]:8402": "[::1]:8402", "localhost:1": "127.0.0.1:1", ":9": "127.0.0.1:9",
		"10.0.0.1": "10.0.0.1:8402", "example.com:1": "", "127.0.0.1:0": "", "0": "", "127.0.0.1:65536": "", "x": "",
	} {
		if got, err := readListen(text); got != want || (err != nil) != (want == "") {
			t.Errorf("listen %q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"0.50": "0.5", "off": "off", "1": "1", "0": "", "-1": "", "1e3": "", "0.0000001": ""} {
		if got, err := readLimit(text); got != want || (err != nil) != (want == "") {
			t.Errorf("limit %q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"ask": "ask", "any": "any", "api.example.com": "api.example.com", "a.example, *.b.example:8443": "", "a.example:8443 *.b.example": "a.example:8443,*.b.example",
		"": "", ",": "", "https://a.example": "", "A.example": "", "127.0.0.1": "127.0.0.1", "off": "any",
	} {
		if got, err := readHosts(text); err == nil && got != want || (err != nil) != (want == "") {
			t.Errorf("hosts %q: %q, %v", text, got, err)
		}
	}
	for text, ok := range map[string]bool{
		"https://a.example/k?x=1&y=2": true, "none": true, "": true, "ftp://a": false, "https://a/{x}": false, "https://a/$X": false, "https://a b": false,
	} {
		if _, err := readServiceURL(text); (err == nil) != ok {
			t.Errorf("URL %q: %v", text, err)
		}
	}
}
