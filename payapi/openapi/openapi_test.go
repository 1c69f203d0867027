package openapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// A public URL replaces the server of the document and nothing else.
func TestPublicURL(t *testing.T) {
	t.Parallel()
	const public = `https://pay.example.com/purser?a=1&b="<2>"`
	var plain, named map[string]any
	for text, into := range map[string]*map[string]any{string(New("").JSON): &plain, string(New(public).JSON): &named} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	server := func(doc map[string]any) map[string]any { return doc["servers"].([]any)[0].(map[string]any) }
	if server(plain)["url"] != "/" || server(named)["url"] != public {
		t.Errorf("servers %v and %v", server(plain), server(named))
	}
	if server(named)["url"] = "/"; !reflect.DeepEqual(plain, named) {
		t.Error("more than the server differs")
	}
}

// The policy names the hashes of the page's one style and one script.
func TestPagePolicy(t *testing.T) {
	t.Parallel()
	ref := New("")
	if !strings.HasPrefix(ref.PagePolicy, "default-src 'none'; style-src 'sha256-") || strings.Count(string(ref.Page), "<style>") != 1 ||
		strings.Count(string(ref.Page), "<script>") != 1 {
		t.Errorf("policy %q", ref.PagePolicy)
	}
}
