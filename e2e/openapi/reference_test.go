package openapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/testing/needed"
	"github.com/purserpay/purser/payapi/openapi"
)

// The page at /docs shows every endpoint and schema in a browser, under its policy. It loads nothing but the
// description, and its inner links lead somewhere.
func TestReferencePage(t *testing.T) {
	t.Parallel()
	chromium := needed.Program(t, "Debian: apt-get install chromium", "chromium", "chromium-browser", "google-chrome")
	ref := openapi.New("")
	asked := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked <- r.URL.Path; r.URL.Path {
		case "/here/docs":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Content-Security-Policy", ref.PagePolicy)
			_, _ = w.Write(ref.Page)
		case "/here/openapi.json":
			_, _ = w.Write(ref.JSON)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	out, err := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
		"--virtual-time-budget=60000", "--dump-dom", server.URL+"/here/docs").Output()
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	close(asked)
	for path := range asked {
		if path != "/here/docs" && path != "/here/openapi.json" && path != "/favicon.ico" {
			t.Errorf("it asks for %s", path)
		}
	}
	_, page, _ := strings.Cut(string(out), "<body>")
	page, _, _ = strings.Cut(page, "<script>")
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(ref.JSON, &doc); err != nil {
		t.Fatal(err)
	}
	for path, methods := range doc.Paths {
		for method, operation := range methods {
			var o struct{ OperationID string }
			if method == "parameters" {
				continue
			}
			if err := json.Unmarshal(operation, &o); err != nil || !strings.Contains(page, `<article id="op-`+o.OperationID+`">`) {
				t.Errorf("%s %s is not on the page (%v)", method, path, err)
			}
		}
	}
	for name := range doc.Components.Schemas {
		if !strings.Contains(page, `<article id="schema-`+name+`">`) {
			t.Errorf("schema %s is not on the page", name)
		}
	}
	links := strings.Split(page, `href="#`)
	for _, part := range links[1:] {
		if id, _, _ := strings.Cut(part, `"`); !strings.Contains(page, ` id="`+id+`"`) {
			t.Errorf("a link leads to #%s", id)
		}
	}
	for _, bad := range []string{"<script", "src=", "<link", "url(", "style=", "undefined", "[object", "It failed"} {
		if strings.Contains(page, bad) {
			t.Errorf("%q on the page", bad)
		}
	}
	if len(links) < 50 || !strings.Contains(page, "<code>No wallet for network base. Create one with POST /wallets.</code>") {
		t.Errorf("%d links, or error texts are missing", len(links))
	}
}
