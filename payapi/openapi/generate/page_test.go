package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func generated(t *testing.T) map[string][]byte {
	t.Helper()
	source, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	made, err := generate(source)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// The embedded files are those that openapi.yaml makes.
func TestGenerated(t *testing.T) {
	t.Parallel()
	for name, want := range generated(t) {
		if got, err := os.ReadFile(filepath.Join("..", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from what openapi.yaml makes (%v): run make openapi", name, err)
		}
	}
}

// A broken source is an error that names the line.
func TestBrokenSource(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"a: 1\nb: {c: 2, c: 3}": "line 2: c is there twice", "a: &x 1\nb: *x": "line 2: aliases are not supported"} {
		if _, err := generate([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The page shows every endpoint and schema, needs nothing from elsewhere, and all its inner
// links lead somewhere.
func TestPage(t *testing.T) {
	t.Parallel()
	made := generated(t)
	page := string(made["reference.html"])
	var doc api
	if err := json.Unmarshal(made["openapi.json"], &doc); err != nil {
		t.Fatal(err)
	}
	for _, p := range doc.Paths {
		for _, m := range p.Value.methods() {
			if !strings.Contains(page, `<article id="op-`+m.Value.OperationID+`">`) {
				t.Errorf("%s %s is not on the page", m.Name, p.Name)
			}
		}
	}
	for _, s := range doc.Components.Schemas {
		if !strings.Contains(page, `<article id="schema-`+s.Name+`">`) {
			t.Errorf("schema %s is not on the page", s.Name)
		}
	}
	for part := range strings.SplitSeq(page, `href="#`) {
		if id, _, _ := strings.Cut(part, `"`); !strings.HasPrefix(part, "<!doctype") && !strings.Contains(page, ` id="`+id+`"`) {
			t.Errorf("a link leads to #%s", id)
		}
	}
	for _, bad := range []string{"<script", "src=", "<link", "url(", "@import", "ZgotmplZ", "style=", "%!"} {
		if strings.Contains(page, bad) {
			t.Errorf("%q on the page", bad)
		}
	}
	if !strings.Contains(page, "<code>No wallet for network base. Create one with POST /wallets.</code>") {
		t.Error("error texts are missing")
	}
}

// A broken document is an error, not half a page.
func TestBrokenDocument(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no JSON":     `{`,
		"no object":   `{"paths":[]}`,
		"lost $ref":   `{"tags":[{"name":"x"}],"paths":{"/":{"get":{"tags":["x"],"responses":{"200":{"$ref":"#/components/responses/None"}}}}}}`,
		"lost schema": `{"tags":[{"name":"x"}],"paths":{"/":{"get":{"tags":["x"],"requestBody":{"content":{"a/b":{"schema":{"$ref":"#/x/None"}}}},"responses":{}}}}}`,
	} {
		if _, err := render([]byte(text)); err == nil {
			t.Errorf("%s: rendered", name)
		}
	}
}
