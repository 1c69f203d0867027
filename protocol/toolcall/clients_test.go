package toolcall_test

import (
	"encoding/json"
	"net/url"
	"os"
	"testing"

	"github.com/purserpay/purser/protocol/toolcall"
)

// The client libraries know calls by the same rules.
func TestClientVectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../clients/testdata/calls.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Cases []struct {
			Name, URL   string
			Site        *string
			Headers     map[string]string
			Pays        bool
			Same, Other []string
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors.Cases) < 10 {
		t.Fatalf("%d cases, %v", len(vectors.Cases), err)
	}
	for _, v := range vectors.Cases {
		if v.Headers != nil {
			continue // the carrier reads these
		}
		u, err := url.Parse(v.URL)
		if err != nil {
			t.Fatal(err)
		}
		var content string
		for _, body := range v.Same {
			c, err := toolcall.Read([]byte(body))
			if called := err == nil && !c.Pays(); called != (v.Site != nil) || v.Pays && err != nil {
				t.Errorf("%s: %s is a call: %v, %v", v.Name, body, called, err)
				continue
			}
			if v.Site == nil {
				continue
			}
			if got := c.Site(u); got != *v.Site {
				t.Errorf("%s: booked as %s, want %s", v.Name, got, *v.Site)
			}
			if content == "" {
				content = c.Content()
			}
			if got := c.Content(); got != content {
				t.Errorf("%s: %s is another call\n%s, want\n%s", v.Name, body, got, content)
			}
		}
		for _, body := range v.Other {
			if c, err := toolcall.Read([]byte(body)); err == nil && !c.Pays() && c.Content() == content {
				t.Errorf("%s: %s is the same call", v.Name, body)
			}
		}
	}
}
