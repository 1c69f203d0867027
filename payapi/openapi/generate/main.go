// Command generate makes the two texts that package openapi embeds: openapi.json, for programs,
// and reference.html, for people. Both come from openapi.yaml. Run it with
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

// run reads openapi.yaml in dir and writes the other two files beside it.
func run(dir string) error {
	source, err := os.ReadFile(filepath.Join(dir, "openapi.yaml"))
	if err != nil {
		return err
	}
	made, err := generate(source)
	for name, text := range made {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644) //nolint:gosec // not a secret
		}
	}
	return err
}

// generate returns the texts by file name.
func generate(source []byte) (map[string][]byte, error) {
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
	page, err := render(document.Bytes())
	return map[string][]byte{"openapi.json": document.Bytes(), "reference.html": page}, err
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
