package openapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write openapi.json")

// openapi.json is what openapi.yaml says, in the same order.
func TestGenerated(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(source, &root); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := json.Indent(&text, toJSON(t, root.Content[0]), "", "  "); err != nil {
		t.Fatal(err)
	}
	text.WriteByte('\n')
	if *update {
		if err := os.WriteFile("openapi.json", text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(text.Bytes(), document) {
		t.Fatal("openapi.json is not what openapi.yaml says: go test ./payapi/openapi -update")
	}
}

func toJSON(t *testing.T, n *yaml.Node) []byte {
	t.Helper()
	var text []byte
	var err error
	switch n.Kind {
	case yaml.MappingNode:
		object := ordered[json.RawMessage]{}
		for i := 0; i < len(n.Content); i += 2 {
			name := n.Content[i].Value
			if _, twice := object.get(name); twice {
				t.Fatalf("line %d: %s is there twice", n.Line, name)
			}
			object = append(object, member[json.RawMessage]{name, toJSON(t, n.Content[i+1])})
		}
		text, err = object.MarshalJSON()
	case yaml.SequenceNode:
		list := []json.RawMessage{}
		for _, item := range n.Content {
			list = append(list, toJSON(t, item))
		}
		text, err = encode(list)
	case yaml.ScalarNode:
		var value any
		if err = n.Decode(&value); err == nil {
			if n.Tag == "!!timestamp" { // a date that nobody quoted stays text
				value = n.Value
			}
			text, err = encode(value)
		}
	default:
		t.Fatalf("line %d: aliases are not used", n.Line)
	}
	if err != nil {
		t.Fatalf("line %d: %v", n.Line, err)
	}
	return text
}

func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(out.Bytes()), err
}

func TestPublicURL(t *testing.T) {
	t.Parallel()
	plain, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	named, err := New("https://pay.example.com/purser")
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string][]byte{`"url": "/"`: plain.JSON, `"url": "https://pay.example.com/purser"`: named.JSON} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %s", want)
		}
	}
	var a, b map[string]any
	if err := json.Unmarshal(plain.JSON, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(named.JSON, &b); err != nil {
		t.Fatal(err)
	}
	b["servers"] = a["servers"]
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	if !bytes.Equal(x, y) {
		t.Error("more than the server differs")
	}
}

// The page shows every endpoint and schema, needs nothing from elsewhere, and all its inner
// links lead somewhere.
func TestPage(t *testing.T) {
	t.Parallel()
	ref, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	page := string(ref.Page)
	var doc api
	if err := json.Unmarshal(ref.JSON, &doc); err != nil {
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
	if !strings.HasPrefix(ref.PagePolicy, "default-src 'none'; style-src 'sha256-") {
		t.Errorf("policy %q", ref.PagePolicy)
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
		if _, _, err := render([]byte(text)); err == nil {
			t.Errorf("%s: rendered", name)
		}
	}
}
