// Package strictjson reads JSON as every other reader of the same bytes must read it.
//
// Package encoding/json matches names in any letter case, and the last of two equal names wins. A
// filter in front of purser, or a seller behind it, may go by the first, and see other terms.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Errors of [Object].
var (
	ErrSyntax   = errors.New("not JSON")
	ErrNoObject = errors.New("not a JSON object")
	ErrRepeated = errors.New("a key appears twice")
)

// Object returns the members of a text that is one JSON object, with their values as received. It
// does not check UTF-8.
func Object(text []byte) (map[string]json.RawMessage, error) {
	if !json.Valid(text) {
		return nil, ErrSyntax
	}
	if Kind(text) != '{' {
		return nil, ErrNoObject
	}
	members := map[string]json.RawMessage{}
	for name, value := range Members(text) {
		if _, repeated := members[name]; repeated {
			return nil, ErrRepeated
		}
		members[name] = value
	}
	return members, nil
}

// Decode reads a valid JSON text into a value and refuses unknown fields: what they were meant to
// limit would be without limit. A field has no capital letters, so that MAX_PAYMENT is not taken
// for max_payment. Members of the fields in open may have any name.
func Decode(text []byte, into any, open ...string) error {
	if err := checkNames(text, open); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func checkNames(text []byte, open []string) error {
	var values []json.RawMessage
	switch Kind(text) {
	case '[':
		values = slices.Collect(Elements(text))
	case '{':
		for name, value := range Members(text) {
			switch {
			case strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "":
				return fmt.Errorf("unknown field %.64q", name)
			case !slices.Contains(open, name):
				values = append(values, value)
			case Kind(value) == '{':
				for _, inner := range Members(value) {
					values = append(values, inner)
				}
			}
		}
	}
	for _, value := range values {
		if err := checkNames(value, open); err != nil {
			return err
		}
	}
	return nil
}

// Kind returns the first byte of a JSON text after white space, or 0 if there is none. It tells
// objects from arrays, strings and the rest.
func Kind(text []byte) byte {
	if i := skipSpace(text, 0); i < len(text) {
		return text[i]
	}
	return 0
}

// Members yields the names and values of a valid JSON object in their order. The values are slices
// of text.
func Members(text []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		for i := skipSpace(text, skipSpace(text, 0)+1); text[i] != '}'; i = skipSpace(text, i) {
			if text[i] == ',' {
				i = skipSpace(text, i+1)
			}
			end := stringEnd(text, i)
			name, _ := Unquote(text[i:end])
			i = skipSpace(text, skipSpace(text, end)+1) // past the colon
			end = valueEnd(text, i)
			if !yield(name, text[i:end:end]) {
				return
			}
			i = end
		}
	}
}

// Elements yields the elements of a valid JSON array. They are slices of text.
func Elements(text []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		for i := skipSpace(text, skipSpace(text, 0)+1); text[i] != ']'; i = skipSpace(text, i) {
			if text[i] == ',' {
				i = skipSpace(text, i+1)
			}
			end := valueEnd(text, i)
			if !yield(text[i:end:end]) {
				return
			}
			i = end
		}
	}
}

// Nesting returns the greatest depth of objects and arrays in a text, which need not be valid.
func Nesting(text []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i) - 1
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// Unquote decodes one valid JSON string. It returns false for any other value.
func Unquote(value []byte) (string, bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	if inner := value[1 : len(value)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	var s string
	err := json.Unmarshal(value, &s)
	return s, err == nil
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

// valueEnd returns the index after the valid JSON value that begins at i.
func valueEnd(text []byte, i int) int {
	switch text[i] {
	case '"':
		return stringEnd(text, i)
	case '{', '[':
		for depth := 0; i < len(text); i++ {
			switch text[i] {
			case '"':
				i = stringEnd(text, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return i
	}
	for i < len(text) && strings.IndexByte(" \t\r\n,]}", text[i]) < 0 {
		i++
	}
	return i
}

// stringEnd returns the index after the closing quote of the string that begins at i, or the end of text.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
