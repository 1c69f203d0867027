package x402

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/purserpay/purser/internal/strictjson"
)

// maxCopies bounds the values of one header field, because each costs time.
const maxCopies = 16

var errSeveral = errors.New("it has several values that differ")

// single returns the only value of a header, or "" without one. Different values are an error: two
// readers could each pick another one.
func single(header http.Header, name string) (string, error) {
	value, err := only(strings.Join(header.Values(name), ","))
	if err != nil {
		return "", &FieldError{name, err.Error()}
	}
	return value, nil
}

// only returns the value of a header field. Frameworks put it in quotes, and machines on the way join fields
// of one name by commas: copies of one value are that value.
func only(value string) (string, error) {
	found := ""
	rest := value
	for range maxCopies {
		rest = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), string(byteOrderMark)))
		if rest == "" {
			return found, nil
		}
		var next string
		next, rest = cutValue(rest)
		switch {
		case next == "" || next == found:
		case found != "":
			return "", errSeveral
		default:
			found = next
		}
	}
	return "", fmt.Errorf("it has more than %d values", maxCopies)
}

// cutValue cuts the first of several values that are joined by commas, without its quotes. base64 has no
// comma. JSON that cannot be read goes on to the end.
func cutValue(text string) (value, rest string) {
	switch text[0] {
	case '{', '[', '"':
		var raw json.RawMessage
		d := json.NewDecoder(strings.NewReader(text))
		if len(text) > MaxHeaderBytes || d.Decode(&raw) != nil {
			return unquoted(text), ""
		}
		after := strings.TrimSpace(text[d.InputOffset():])
		if after != "" && after[0] != ',' {
			return unquoted(text), ""
		}
		if quoted, is := strictjson.Unquote(bytes.TrimSpace(raw)); is {
			raw = []byte(strings.TrimSpace(quoted))
		}
		return string(raw), strings.TrimPrefix(after, ",")
	}
	value, rest, _ = strings.Cut(text, ",")
	return unquoted(strings.TrimSpace(value)), rest
}

// unquoted takes one pair of quotes off. RFC 9651 writes bytes between colons.
func unquoted(value string) string {
	for _, mark := range []string{`"`, "'", ":"} {
		if len(value) > 1 && strings.HasPrefix(value, mark) && strings.HasSuffix(value, mark) {
			return strings.TrimSpace(value[1 : len(value)-1])
		}
	}
	return value
}
