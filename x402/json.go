package x402

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/strictjson"
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

// object lists the members of a JSON object in their order, with each value as received.
type object []member

type member struct {
	key   string
	value json.RawMessage
}

// decodeText returns the JSON of a header value, plain or base64 of any alphabet and padding.
func decodeText(value string) ([]byte, error) {
	value = strings.TrimSpace(value)
	if len(value) > MaxHeaderBytes {
		return nil, fmt.Errorf("%w: over %d bytes", ErrTooLarge, MaxHeaderBytes)
	}
	value = strings.TrimPrefix(value, string(byteOrderMark))
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
	return bytes.TrimPrefix(decoded, byteOrderMark), nil
}

// readObject checks text for size, nesting, UTF-8 and syntax, and reads its outermost object. The
// values are slices of text. The functions below rely on it and check no further.
func readObject(text []byte) (object, error) {
	if len(text) > MaxChallengeBytes {
		return nil, fmt.Errorf("%w: over %d bytes", ErrTooLarge, MaxChallengeBytes)
	}
	if strictjson.Nesting(text) > maxNesting {
		return nil, fmt.Errorf("%w: nested deeper than %d", ErrTooLarge, maxNesting)
	}
	if !utf8.Valid(text) || !json.Valid(text) {
		return nil, errors.New("not valid JSON")
	}
	return members(text)
}

// members splits a valid JSON object into its members. It fails on any other value, on a repeated
// key, and on too many members.
func members(text []byte) (object, error) {
	if strictjson.Kind(text) != '{' {
		return nil, errors.New("not an object")
	}
	result := make(object, 0, 10)
	for key, value := range strictjson.Members(text) {
		if _, repeated := result.get(key); repeated {
			return nil, fmt.Errorf("key %q appears twice", printable(key))
		}
		if len(result) == maxMembers {
			return nil, fmt.Errorf("%w: an object of over %d members", ErrTooLarge, maxMembers)
		}
		result = append(result, member{key, value})
	}
	return result, nil
}

// byteOrderMark may stand before JSON in UTF-8.
var byteOrderMark = []byte("\ufeff")

// firstElements returns the first elements of a valid JSON array, at most limit of them.
func firstElements(text []byte, limit int) (result []json.RawMessage, err error) {
	if strictjson.Kind(text) != '[' {
		return nil, errors.New("not an array")
	}
	for element := range strictjson.Elements(text) {
		if len(result) == limit {
			break
		}
		result = append(result, element)
	}
	return result, nil
}

// elements splits a valid JSON array into its elements. It fails on more than limit.
func elements(text []byte, limit int) ([]json.RawMessage, error) {
	if strictjson.Kind(text) != '[' {
		return nil, errors.New("not an array")
	}
	var result []json.RawMessage
	for element := range strictjson.Elements(text) {
		if len(result) == limit {
			return nil, fmt.Errorf("%w: over %d elements", ErrTooLarge, limit)
		}
		result = append(result, element)
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

// value returns a member's value, or nil when it is absent or null.
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
	s, ok := strictjson.Unquote(value)
	if !ok {
		return "", &FieldError{key, wrong(value, errors.New("not a string")).Error()}
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
