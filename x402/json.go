package x402

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds on decoded text.
const (
	// MaxHeaderBytes bounds an encoded header value, in bytes.
	MaxHeaderBytes = 128 << 10
	// MaxChallengeBytes bounds a decoded challenge, payload or receipt, in bytes.
	MaxChallengeBytes = 64 << 10

	maxNesting = 32
	maxMembers = 256 // of one object
)

var errInvalidJSON = errors.New("not valid JSON")

// object lists the members of a JSON object in their order, with each value as received.
// encoding/json is not used: it matches keys in any letter case, and the last of two equal keys
// wins. A second reader of the same bytes could then see other terms.
type object []member

type member struct {
	key   string
	value json.RawMessage
}

// decodeText returns the JSON of a header value. The value is plain JSON or base64, in the standard
// or the URL-safe alphabet, with or without padding.
func decodeText(value string) ([]byte, error) {
	value = strings.TrimSpace(value)
	if len(value) > MaxHeaderBytes {
		return nil, fmt.Errorf("%w: over %d bytes", ErrTooLarge, MaxHeaderBytes)
	}
	if value != "" && (value[0] == '{' || value[0] == '[') {
		return []byte(value), nil
	}
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(value, "-_") {
		encoding = base64.RawURLEncoding
	}
	decoded, err := encoding.DecodeString(strings.TrimRight(value, "="))
	if err != nil {
		return nil, errors.New("neither base64 nor JSON")
	}
	return decoded, nil
}

// readObject checks text for size, nesting, UTF-8 and syntax, and reads its outermost object. The
// values are slices of text.
func readObject(text []byte) (object, error) {
	if err := checkJSON(text); err != nil {
		return nil, err
	}
	return members(text)
}

// checkJSON checks the bounds and the syntax of text. The functions below rely on it and check no
// further.
func checkJSON(text []byte) error {
	if len(text) > MaxChallengeBytes {
		return fmt.Errorf("%w: over %d bytes", ErrTooLarge, MaxChallengeBytes)
	}
	if nesting(text) > maxNesting {
		return fmt.Errorf("%w: nested deeper than %d", ErrTooLarge, maxNesting)
	}
	if !utf8.Valid(text) || !json.Valid(text) {
		return errInvalidJSON
	}
	return nil
}

// nesting returns the greatest depth of objects and arrays in text.
func nesting(text []byte) int {
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

// members splits a valid JSON object into its members. It fails on any other value, on a repeated
// key, and on too many members.
func members(text []byte) (object, error) {
	i := skipSpace(text, 0)
	if i == len(text) || text[i] != '{' {
		return nil, errors.New("not an object")
	}
	result := make(object, 0, 10)
	for i = skipSpace(text, i+1); text[i] != '}'; i = skipSpace(text, i) {
		if text[i] == ',' {
			i = skipSpace(text, i+1)
		}
		end := stringEnd(text, i)
		key, _ := unquote(text[i:end])
		i = skipSpace(text, skipSpace(text, end)+1) // past the colon
		end = valueEnd(text, i)
		if _, repeated := result.get(key); repeated {
			return nil, fmt.Errorf("key %q appears twice", printable(key))
		}
		if len(result) == maxMembers {
			return nil, fmt.Errorf("%w: an object of over %d members", ErrTooLarge, maxMembers)
		}
		result = append(result, member{key, text[i:end:end]})
		i = end
	}
	return result, nil
}

// elements splits a valid JSON array into its elements. It fails on more than limit.
func elements(text []byte, limit int) ([]json.RawMessage, error) {
	i := skipSpace(text, 0)
	if i == len(text) || text[i] != '[' {
		return nil, errors.New("not an array")
	}
	var result []json.RawMessage
	for i = skipSpace(text, i+1); text[i] != ']'; i = skipSpace(text, i) {
		if text[i] == ',' {
			i = skipSpace(text, i+1)
		}
		if len(result) == limit {
			return nil, fmt.Errorf("%w: over %d elements", ErrTooLarge, limit)
		}
		end := valueEnd(text, i)
		result = append(result, text[i:end:end])
		i = end
	}
	return result, nil
}

// get returns a member's value as received, which may be null.
func (o object) get(key string) (json.RawMessage, bool) {
	for i := range o {
		if o[i].key == key {
			return o[i].value, true
		}
	}
	return nil, false
}

// value returns a member's value, or nil when it is absent or null. Other implementations write
// null for an absent value.
func (o object) value(key string) json.RawMessage {
	value, ok := o.get(key)
	if !ok || string(value) == "null" {
		return nil
	}
	return value
}

// text returns a string member, or "" when it is absent.
func (o object) text(key string) (string, error) {
	value := o.value(key)
	if value == nil {
		return "", nil
	}
	s, ok := unquote(value)
	if !ok {
		return "", &FieldError{key, "not a string"}
	}
	return s, nil
}

// required returns a string member that must be present and not empty.
func (o object) required(key string) (string, error) {
	s, err := o.text(key)
	if err == nil && s == "" {
		err = &FieldError{key, "missing"}
	}
	return s, err
}

// unquote decodes one valid JSON string. It returns false for any other value.
func unquote(value []byte) (string, bool) {
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
