// Package openapi holds the reference of purser's REST API: an OpenAPI 3.1 document for programs,
// and a page for people.
//
// openapi.yaml is written by hand. Command generate makes openapi.json of it. The script in
// reference.html renders openapi.json in the reader's browser.
// The tests of package payapi hold every answer of the API against the document.
package openapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
)

//go:generate go run ./generate

var (
	//go:embed openapi.json
	document []byte

	//go:embed reference.html
	page []byte
)

// Reference holds the reference in both its forms.
type Reference struct {
	JSON []byte // for programs
	Page []byte // HTML for people, which loads openapi.json from beside itself
	// PagePolicy is the Content-Security-Policy of the page: it allows its own style and script,
	// and requests to the page's own origin.
	PagePolicy string
}

// New returns the reference of a deployment. If publicURL is not empty, the document names it as
// the server. Otherwise the server is the one that the document came from.
func New(publicURL string) Reference {
	text := document
	if publicURL != "" {
		server, _ := json.Marshal(publicURL) // a string cannot fail
		text = bytes.Replace(document, []byte(`"url": "/"`), append([]byte(`"url": `), server...), 1)
	}
	return Reference{JSON: text, Page: page, PagePolicy: "default-src 'none'; style-src " + hash("style") + "; script-src " + hash("script") +
		"; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}
}

// hash returns the hash of the page's first element of this name, as a policy writes it.
func hash(element string) string {
	_, inside, _ := bytes.Cut(page, []byte("<"+element+">"))
	inside, _, _ = bytes.Cut(inside, []byte("</"+element+">"))
	sum := sha256.Sum256(inside)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
