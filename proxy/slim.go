package proxy

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/x402"
)

// maxPage bounds what is read of an error page to find out what it says.
const maxPage = 16 << 10

// slimmer reports whether the payload goes out once more, slim: the seller's front, or its HTTP/2, has
// found the header too large, and nothing says that the seller has seen the payment. The authorization and its
// signature stay, so it is still one payment.
func (t *Transport) slimmer(m *memo, resp *http.Response, seen *sendTrace, err error) bool {
	if m.slim != nil || m.body.gone() {
		return false
	}
	if err != nil && (seen.written.Load() || !strings.Contains(err.Error(), "request header list larger than peer's advertised limit")) ||
		err == nil && !t.headerTooLarge(m, resp) {
		return false
	}
	payload, ok := m.attempt.Slim()
	if !ok {
		return false
	}
	m.slim = &payload
	m.attempt.Observe("header too large for the seller's front; sent again without resource and extensions")
	return true
}

// longHeader is the length from which a payment header is too large for some servers.
const longHeader = 4 << 10

// headerTooLarge reports whether an answer says that the request's header is too large for the server that
// gave it, and nothing of a payment. Servers such as HAProxy say no more than 400 on a page of theirs: then that is
// likely if the payment's header is long.
func (t *Transport) headerTooLarge(m *memo, resp *http.Response) bool {
	for _, name := range slices.Concat(t.extra, []string{x402.HeaderRequired, x402.HeaderResponse, x402.HeaderV1Response}) {
		if resp.Header.Get(name) != "" {
			return false
		}
	}
	switch resp.StatusCode {
	case http.StatusRequestHeaderFieldsTooLarge:
		return true
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, 494: // nginx has a status of its own
	default:
		return false
	}
	text := strings.ToLower(resp.Status) + " " + string(bytes.ToLower(t.page(resp)))
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if long := len(m.attempt.Payload().Header()) > longHeader; long && has("invalid http request") ||
		long && kind == "text/html" && (resp.StatusCode == http.StatusBadRequest || m.body.size == 0) {
		return true
	}
	return has("header", "cookie") && has("too large", "too long", "too big", "longer than", "exceed", "limit")
}

// page returns the beginning of an error page, and leaves the answer as it was. A body that does not end
// is cut off.
func (t *Transport) page(resp *http.Response) []byte {
	source := resp.Body
	cut := time.AfterFunc(t.patience, func() { _ = source.Close() })
	defer cut.Stop()
	read, err := io.ReadAll(io.LimitReader(source, maxPage))
	putBack(resp, read, err)
	resp.Body = &watched{ReadCloser: resp.Body, resp: resp}
	return decoded(read, resp.Header.Get("Content-Encoding"))
}
