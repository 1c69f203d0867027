// Command generate makes openapi.json of openapi.yaml. Run it with
//
//	make openapi
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run reads openapi.yaml in dir and writes openapi.json beside it.
func run(dir string) error {
	source, err := os.ReadFile(filepath.Join(dir, "openapi.yaml"))
	if err != nil {
		return err
	}
	document, err := generate(source)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "openapi.json"), document, 0o644) //nolint:gosec // not a secret
}

// generate returns the document as JSON.
func generate(source []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(source, &root); err != nil {
		return nil, err
	}
	compact, err := toJSON(root.Content[0])
	if err != nil {
		return nil, err
	}
	var document bytes.Buffer
	if err := json.Indent(&document, compact, "", "  "); err != nil {
		return nil, err
	}
	document.WriteByte('\n')
	return document.Bytes(), nil
}

// toJSON encodes a YAML node and keeps the order of its members.
func toJSON(n *yaml.Node) ([]byte, error) {
	switch n.Kind {
	case yaml.MappingNode:
		var members [][]byte
		known := map[string]bool{}
		for i := 0; i < len(n.Content); i += 2 {
			name := n.Content[i].Value
			if known[name] {
				return nil, fmt.Errorf("line %d: %s is there twice", n.Line, name)
			}
			known[name] = true
			quoted, err1 := encode(name)
			value, err2 := toJSON(n.Content[i+1])
			if err := errors.Join(err1, err2); err != nil {
				return nil, err
			}
			members = append(members, slices.Concat(quoted, []byte(":"), value))
		}
		return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}")), nil
	case yaml.SequenceNode:
		list := []json.RawMessage{}
		for _, item := range n.Content {
			value, err := toJSON(item)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return encode(list)
	case yaml.ScalarNode:
		var value any
		if err := n.Decode(&value); err != nil {
			return nil, err
		}
		if n.Tag == "!!timestamp" { // a date without quotes stays text
			value = n.Value
		}
		return encode(value)
	default:
		return nil, fmt.Errorf("line %d: aliases are not supported", n.Line)
	}
}

// encode marshals without escapes for HTML.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(out.Bytes()), err
}
