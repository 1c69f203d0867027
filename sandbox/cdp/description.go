package cdp

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var openapi []byte

// operation is one endpoint of the description.
type operation struct {
	method, path string
	match        *regexp.Regexp // of the path
	headers      map[string]parameter
	pathSchemas  []*jsonschema.Schema // of the parts in braces, in order
	body         *jsonschema.Schema   // nil: it takes none
	bodyRequired bool
	answers      map[string]*jsonschema.Schema // by status
}

type parameter struct {
	schema   *jsonschema.Schema
	required bool
}

// document is the description, decoded.
type document struct {
	value    any
	compiler *jsonschema.Compiler
}

const documentName = "openapi.json"

// readDescription compiles every schema that an endpoint uses.
func readDescription() ([]operation, error) {
	var raw any
	if err := yaml.Unmarshal(openapi, &raw); err != nil {
		return nil, fmt.Errorf("the description: %w", err)
	}
	text, err := json.Marshal(raw)
	if err != nil {
		return nil, fmt.Errorf("the description: %w", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the description: %w", err)
	}
	d := document{value, jsonschema.NewCompiler()}
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(documentName, value); err != nil {
		return nil, fmt.Errorf("the description: %w", err)
	}
	var operations []operation
	for path, item := range members(d.at("/paths")) {
		for method := range members(item) {
			o, err := d.operation(path, method)
			if err != nil {
				return nil, fmt.Errorf("the description of %s %s: %w", method, path, err)
			}
			operations = append(operations, o)
		}
	}
	return operations, nil
}

var braces = regexp.MustCompile(`\\\{[a-zA-Z]+\\\}`)

func (d document) operation(path, method string) (o operation, err error) {
	pointer := "/paths/" + escape(path) + "/" + method
	o = operation{
		method: strings.ToUpper(method), path: path, headers: map[string]parameter{}, answers: map[string]*jsonschema.Schema{},
		match: regexp.MustCompile("^" + braces.ReplaceAllString(regexp.QuoteMeta(path), "([^/]+)") + "$"),
	}
	list, _ := d.at(pointer + "/parameters").([]any)
	for i := range list {
		at := d.follow(fmt.Sprintf("%s/parameters/%d", pointer, i))
		one := members(d.at(at))
		schema, err := d.compile(at + "/schema")
		if err != nil {
			return o, err
		}
		required, _ := one["required"].(bool)
		switch one["in"] {
		case "header":
			name, _ := one["name"].(string)
			o.headers[name] = parameter{schema, required}
		case "path":
			o.pathSchemas = append(o.pathSchemas, schema)
		}
	}
	if body := members(d.at(pointer + "/requestBody")); body != nil {
		optional, given := body["required"].(bool)
		o.bodyRequired = !given || optional
		if o.body, err = d.compile(pointer + "/requestBody/content/application~1json/schema"); err != nil {
			return o, err
		}
	}
	for status := range members(d.at(pointer + "/responses")) {
		at := d.follow(pointer + "/responses/" + status)
		if o.answers[status], err = d.compile(at + "/content/application~1json/schema"); err != nil {
			return o, err
		}
	}
	return o, nil
}

// at returns the value at a JSON pointer, or nil.
func (d document) at(pointer string) any {
	value := d.value
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch v := value.(type) {
		case map[string]any:
			value = v[part]
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// follow returns the pointer that a reference at a pointer leads to, or the pointer itself.
func (d document) follow(pointer string) string {
	if ref, ok := members(d.at(pointer))["$ref"].(string); ok {
		return strings.TrimPrefix(ref, "#")
	}
	return pointer
}

func (d document) compile(pointer string) (*jsonschema.Schema, error) {
	return d.compiler.Compile(documentName + "#" + pointer)
}

func members(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

func escape(part string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(part) }

// checkRequest compares a request with the description of its endpoint. parts are those of the path
// that stand in braces.
func (o operation) checkRequest(r *http.Request, parts []string, body []byte) error {
	for i, schema := range o.pathSchemas {
		if err := schema.Validate(parts[i]); err != nil {
			return fmt.Errorf("path: %w", err)
		}
	}
	for name, p := range o.headers {
		switch given := r.Header.Values(name); {
		case len(given) == 0 && p.required:
			return errors.New("the header " + name + " is missing")
		case len(given) > 1:
			return errors.New("the header " + name + " is there twice")
		case len(given) == 1:
			if err := p.schema.Validate(given[0]); err != nil {
				return fmt.Errorf("header %s: %w", name, err)
			}
		}
	}
	switch {
	case len(body) == 0 && o.bodyRequired:
		return errors.New("there is no body")
	case len(body) == 0:
		return nil
	case o.body == nil:
		return errors.New("there is a body")
	}
	return validate(o.body, body)
}

// checkAnswer compares an answer with the description of its endpoint.
func (o operation) checkAnswer(status int, body []byte) error {
	schema := o.answers[fmt.Sprint(status)]
	if schema == nil {
		return fmt.Errorf("%s %s has no answer %d", o.method, o.path, status)
	}
	return validate(schema, body)
}

func validate(schema *jsonschema.Schema, body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	return nil
}
