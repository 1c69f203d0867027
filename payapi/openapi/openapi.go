// Package openapi is the reference of purser's REST API: an OpenAPI 3.1 document, and a page
// for people that is made of it.
//
// openapi.yaml is written by hand; openapi.json, which is what programs get, is made of it by
//
//	go test ./payapi/openapi -update
//
// What the API does is package payapi's affair, whose tests hold every answer against the
// document. Serving the two texts is as well.
package openapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed openapi.json
var document []byte

// Reference is the document in both its forms.
type Reference struct {
	JSON []byte // for programs
	Page []byte // HTML for people, with everything in it
	// PagePolicy is the Content-Security-Policy of the page: it allows its own style and
	// nothing else.
	PagePolicy string
}

// New makes the reference of a deployment. With a public URL that is the server it names; with
// "" the server is where the document came from. An error means that the document is broken,
// which tests rule out.
func New(publicURL string) (*Reference, error) {
	text := document
	if publicURL != "" {
		var err error
		if text, err = servedAt(publicURL); err != nil {
			return nil, fmt.Errorf("openapi: name the server: %w", err)
		}
	}
	page, policy, err := render(text)
	if err != nil {
		return nil, fmt.Errorf("openapi: render the page: %w", err)
	}
	return &Reference{JSON: text, Page: page, PagePolicy: policy}, nil
}

// servedAt is the document with another server.
func servedAt(publicURL string) ([]byte, error) {
	var top ordered[json.RawMessage]
	if err := json.Unmarshal(document, &top); err != nil {
		return nil, err
	}
	servers, err := json.Marshal([]map[string]string{{"url": publicURL, "description": "This purser"}})
	if err != nil {
		return nil, err
	}
	for i := range top {
		if top[i].Name == "servers" {
			top[i].Value = servers
		}
	}
	compact, err := top.MarshalJSON() // not json.Marshal, which would escape it for HTML
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = json.Indent(&text, compact, "", "  ")
	return text.Bytes(), err
}
