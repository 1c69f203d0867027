package proxy

// A payload goes to its seller once more, in the same call, if its answer shows that the seller has not looked at it.

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/protocol"
)

// insist sends the payload again if its protocol wants that of a 402: see [protocol.Protocol]. A receipt in it shows
// that the seller has taken the payload, and without a challenge it is the application's own.
func (t *Transport) insist(req *http.Request, call *Call, resp *http.Response, seen *sendTrace, err error) (*http.Response, *sendTrace, error) {
	m, carrier := call.memo, t.carrierFor(req)
	for n := 0; ; n++ {
		pause, more := protocol.InsistPause(n)
		if err != nil || !more || !m.wire.Insists() || !carrier.asks(resp) || m.body.gone() {
			break
		}
		if carrier.answer(resp, m.wire).Receipted() || !t.challenges(resp) {
			break
		}
		m.answered = true
		sending, end := m.attempt.SendContext(announced(req.Header))
		waited := waitFor(sending, pause)
		end()
		if !waited {
			break
		}
		m.attempt.Observe("the seller asked again; sent again with the same payment")
		closeBody(resp)
		resp, seen, err = t.send(req, call)
	}
	return resp, seen, err
}

// challenges reports whether an answer that asks for money says how to pay it, in any protocol: a seller may change that.
// Tools ask by nothing else.
func (t *Transport) challenges(resp *http.Response) bool {
	_, found, _ := t.protocols.Offers(nil, resp.Header, nil)
	return found || succeeds(resp)
}

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
	switch resp.StatusCode {
	case http.StatusRequestHeaderFieldsTooLarge, http.StatusBadRequest, http.StatusRequestEntityTooLarge, 494: // nginx has a status of its own
	default:
		return false
	}
	if t.carrier.answer(resp, m.wire).Speaks {
		return false
	}
	if resp.StatusCode == http.StatusRequestHeaderFieldsTooLarge {
		return true
	}
	text := strings.ToLower(resp.Status) + " " + string(bytes.ToLower(t.page(resp)))
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	_, credential := m.wire.Credential(m.attempt.Payload())
	if long := len(credential) > longHeader; long && has("invalid http request") ||
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
