package proxy

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/x402"
)

// Members in which sellers say why they refuse a payload: those that name a reason, and those that tell of it.
var (
	reasonMembers  = []string{"errorReason", "invalidReason", "error", "reason", "title", "code", "errorCode", "error_code", "paymentError", "payment_error"}
	messageMembers = []string{"errorMessage", "invalidMessage", "message", "msg", "detail", "details", "description", "error_description"}
	// around has what other objects with words may stand in.
	around = []string{"error", "detail", "details", "data", "errors", "message", "reason", "paymentResponse", "settleResponse", "verifyResponse", "settlement", "verification"}
)

// maxAround bounds how deep words are looked for.
const maxAround = 3

// sellersWords returns what a body says against a payload, cleaned and bounded; "" if it says nothing. Bodies
// are JSON, or text that is no page.
func sellersWords(header http.Header, body []byte) string {
	body = decoded(body, header.Get("Content-Encoding"))
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	switch first := strictjson.Kind(body); {
	case first == '{' || first == '[' || first == '"' && kind != "text/plain":
		if !json.Valid(body) || strictjson.Nesting(body) > 32 {
			return ""
		}
		if text, is := strictjson.Unquote(bytes.TrimSpace(body)); is {
			return words.OfSeller(text)
		}
		if body = object(body); body == nil {
			return ""
		}
		return wordsIn(body, 0)
	case kind != "text/plain" && (kind != "" || first == '<'), !utf8.Valid(body):
		return ""
	}
	return words.OfSeller(string(body))
}

// wordsIn returns the words of a valid JSON object.
func wordsIn(body []byte, depth int) string {
	members := map[string]json.RawMessage{}
	for name, value := range strictjson.Members(body) {
		members[name] = value
	}
	first := func(names []string) string {
		for _, name := range names {
			if text, is := strictjson.Unquote(members[name]); is && words.OfSeller(text) != "" {
				return words.OfSeller(text)
			}
		}
		return ""
	}
	reason, message := first(reasonMembers), first(messageMembers)
	if message != reason || message == "" {
		reason = strings.Trim(reason+": "+message, ": ")
	}
	if depth == maxAround {
		return reason
	}
	for _, name := range around {
		inner := firstText(members[name])
		if value := object(members[name]); value != nil {
			inner = wordsIn(value, depth+1)
		}
		if inner != "" && inner != reason {
			return words.OfSeller(strings.Trim(reason+": "+inner, ": "))
		}
	}
	return words.OfSeller(reason)
}

// firstText returns the words of a valid JSON list that begins with a text.
func firstText(value []byte) string {
	if strictjson.Kind(value) == '[' {
		for element := range strictjson.Elements(value) {
			text, _ := strictjson.Unquote(element)
			return words.OfSeller(text)
		}
	}
	return ""
}

// object returns a valid JSON value if it is an object, or a list that begins with one.
func object(value []byte) []byte {
	if strictjson.Kind(value) == '[' {
		for element := range strictjson.Elements(value) {
			value = element
			break
		}
	}
	if strictjson.Kind(value) != '{' {
		return nil
	}
	return value
}

// wordsOf reads what a seller says in an answer. A body that does not end is cut off.
func wordsOf(resp *http.Response, patience time.Duration) string {
	if resp == nil || resp.Body == nil || resp.Body == http.NoBody {
		return ""
	}
	read, _ := readWhole(resp, patience)
	return sellersWords(resp.Header, read)
}

// speaks reports whether an error answer may say something in words. Its body is the client's, so a stream is left
// alone.
func speaks(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind == "application/json" || strings.HasSuffix(kind, "+json") || kind == "text/plain" && resp.ContentLength > 0
}

// Words for a 402 that is not about the payment.
const (
	wordsCached = "The 402 came from a cache, so the seller may not have seen the payment"
	wordsKept   = "The seller has kept its first 402 under the Idempotency-Key of the request and gives it again, so it may not have looked at the payment"
	wordsSame   = "The seller has answered with the same challenge, as if it had not seen the payment"
)

// unseen says why a 402 to a payload may be no answer to it; "" if nothing tells so. same reports that it is the
// challenge that asked for the payment, without a word about one.
func unseen(h http.Header, same, keyed bool) string {
	switch {
	case replayed(h):
		return wordsKept
	case cached(h):
		return wordsCached
	case same && keyed:
		return wordsSame + ". It may have kept its first 402 under the Idempotency-Key of the request"
	case same:
		return wordsSame
	}
	return ""
}

// replayed reports whether a seller says that it gives an answer again that it keeps under an Idempotency-Key.
func replayed(h http.Header) bool {
	for _, name := range []string{"Idempotent-Replayed", "Idempotent-Replay", "Idempotency-Replayed", "X-Idempotent-Replayed", "X-Idempotency-Replayed"} {
		if strings.EqualFold(strings.TrimSpace(h.Get(name)), "true") {
			return true
		}
	}
	return false
}

// cached reports whether a cache says that it has given an answer.
func cached(h http.Header) bool {
	if age := strings.Trim(strings.TrimSpace(h.Get("Age")), "0"); age != "" && strings.Trim(age, "0123456789") == "" {
		return true
	}
	for name, values := range h { // such as X-Cache, X-Vercel-Cache, and Cf-Cache-Status
		if !strings.HasSuffix(name, "Cache") && !strings.HasSuffix(name, "Cache-Status") {
			continue
		}
		parts := strings.FieldsFunc(strings.ToLower(strings.Join(values, ",")), func(r rune) bool { return r < 'a' || r > 'z' })
		if slices.Contains(parts, "hit") || slices.Contains(parts, "stale") {
			return true
		}
	}
	timing := strings.ReplaceAll(strings.ToLower(strings.Join(h.Values("Server-Timing"), ",")), " ", "") // Akamai's
	return strings.Contains(timing, "cdn-cache;desc=hit")
}

// sameChallenge reports whether a 402 to a payload asks as the one before the payment did.
func (m *memo) sameChallenge(again x402.Challenge) bool {
	if len(again.Accepts) == 0 || len(again.Accepts) != len(m.challenge.Accepts) || again.Error != m.challenge.Error {
		return false
	}
	for i, r := range again.Accepts {
		was := m.challenge.Accepts[i]
		if r.Scheme != was.Scheme || r.Network != was.Network || r.Amount != was.Amount || r.Asset != was.Asset || r.PayTo != was.PayTo {
			return false
		}
	}
	return true
}
