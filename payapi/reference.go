package payapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/purserpay/purser/payapi/openapi"
)

// verbatim is a body that is written unchanged, not encoded as JSON.
type verbatim []byte

// useReference sets the handlers for the API's own description (package openapi).
func (a *API) useReference() {
	ref := openapi.New(a.publicURL)
	a.openapi = published(ref.JSON, map[string]string{"Content-Type": "application/json"})
	a.docs = published(ref.Page, map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": ref.PagePolicy, "Referrer-Policy": "no-referrer",
	})
}

// published returns a handler for a text that changes only with purser's version. It answers 304 to
// a client that has the text. Clients must ask again each time, because purser may have been
// updated.
func published(body verbatim, header map[string]string) handler {
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	header["ETag"], header["Cache-Control"] = tag, "no-cache"
	return func(r *http.Request) (reply, error) {
		if hasTag(r.Header.Values("If-None-Match"), tag) {
			return reply{status: http.StatusNotModified, header: map[string]string{"ETag": tag, "Cache-Control": "no-cache"}}, nil
		}
		return reply{status: http.StatusOK, header: header, body: body}, nil
	}
}

// hasTag compares tags weakly, as If-None-Match does (RFC 9110, section 13.1.2).
func hasTag(values []string, tag string) bool {
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			one = strings.TrimSpace(one)
			if one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}
