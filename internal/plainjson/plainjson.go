// Package plainjson writes JSON that people can read as well. Package encoding/json writes <, > and & as
// escapes, for JSON inside of HTML. purser's JSON is a document of its own, with its own content type. JSON for
// a page of HTML does not belong here.
package plainjson

import (
	"bytes"
	"encoding/json"
	"io"
)

// Encoder returns an encoder that writes values to w, a line each.
func Encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// Marshal returns a value on one line, without a line break behind it. Its errors are those of [json.Marshal].
func Marshal(v any) ([]byte, error) {
	var text bytes.Buffer
	err := Encoder(&text).Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}
