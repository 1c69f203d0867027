package toolcall

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/protocol/mpp"
	"github.com/purserpay/purser/x402"
)

// Kind tells messages of a server apart.
type Kind int

// The kinds of messages.
const (
	Other    Kind = iota // such as a notification, or the answer to another request
	Requests             // the server asks its client something
	Answers              // the answer to the call
)

// Sort says what a message of a server is to the call.
func (c *Call) Sort(message []byte) Kind {
	top, err := read(message, c.loose)
	if err != nil {
		return Other
	}
	id := get(top, "id")
	switch {
	case get(top, "method") != nil:
		if id != nil {
			return Requests
		}
	case get(top, "result") != nil || get(top, "error") != nil:
		if sameID(id, c.id) {
			return Answers
		}
	}
	return Other
}

// SortBeginning is Sort for a message of which only the beginning is known, in a stream or body of the call's own. failed:
// it is an error. It is Other if it does not say what it is.
func (c *Call) SortBeginning(of []byte) (k Kind, failed bool) {
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(of, []byte(byteOrderMark))))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return Other, false
	}
	for {
		t, err := d.Token()
		name, is := t.(string)
		if err != nil || !is || name == "method" {
			return Other, false
		}
		if name == "result" || name == "error" { // official servers write the id behind it
			return Answers, name == "error"
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil || name == "id" && !sameID(value, c.id) {
			return Other, false
		}
	}
}

// Addressee returns the id, in one spelling, of the call that a message of a server answers; "": it answers none.
func Addressee(message []byte) string {
	top, err := read(message, true)
	id := get(top, "id")
	if err != nil || get(top, "method") != nil || get(top, "result") == nil && get(top, "error") == nil || !isID(id) {
		return ""
	}
	return spelt(id)
}

// Named reports whether an id, from [Addressee], is that of the call as clients compare them.
func (c *Call) Named(id string) bool { return sameID(json.RawMessage(id), c.id) }

// Adopt returns the answer to another call with the same content as an answer to this one.
func (c *Call) Adopt(answer []byte) []byte {
	return with(bytes.TrimPrefix(answer, []byte(byteOrderMark)), member{"id", c.id})
}

// sameID reports whether a server's id is that of a call as clients compare them: official ones take the text "1" and
// the number 1.0 for 1.
func sameID(server, call json.RawMessage) bool {
	if !isID(server) {
		return false
	}
	one, other := textOf(server), textOf(call)
	if one == other {
		return true
	}
	x, err := strconv.ParseFloat(one, 64)
	y, unread := strconv.ParseFloat(other, 64)
	return err == nil && unread == nil && x == y
}

// Answer holds what the answer to a call says of money.
type Answer struct {
	// Terms hold what the seller asks for, as JSON of its protocol; nil: it asks for nothing.
	Terms   json.RawMessage
	Dialect Dialect
	// Failed: the call has brought an error, which the terms may be in.
	Failed bool
	// Receipt is the receipt of a payment, plain JSON or base64; "": there is none.
	Receipt string
}

// Members of _meta in results.
const (
	keyError         = "x402/error" // Cloudflare
	keyReceipt       = "x402/payment-response"
	keyReceiptDotted = "x402.payment-response" // Vercel
	keyReceiptMPP    = "org.paymentauth/receipt"
)

// Hear reads the answer to a call, for which Sort has said Answers. A result asks for money only as the dialects
// do: an API that tells of prices has terms in results as well.
func (c *Call) Hear(message []byte) (a Answer) {
	top, err := read(message, c.loose)
	if err != nil {
		return a
	}
	if failure := get(top, "error"); failure != nil {
		a.Failed = true
		if told, err := members(failure, c.loose); err == nil {
			a.ask(c.loose, get(told, "data"), DialectX402)
			a.challenge(c.loose, get(told, "data"))
		}
		return a
	}
	result, err := members(get(top, "result"), c.loose)
	if err != nil {
		return a
	}
	meta, err := members(get(result, "_meta"), c.loose)
	if err == nil {
		for _, name := range []string{keyReceipt, keyReceiptDotted, keyReceiptMPP} {
			if value := get(meta, name); value != nil && a.Receipt == "" {
				a.Receipt = textOf(value)
			}
		}
	}
	if kind, _ := strictjson.Unquote(get(result, "resultType")); kind == "payment_required" {
		a.Failed = true
		a.ask(c.loose, get(result, "paymentRequired"), DialectX402)
		return a
	}
	if a.Failed = string(bytes.TrimSpace(get(result, "isError"))) == "true"; a.Failed {
		a.askIn(c.loose, result, meta)
	}
	a.Failed = a.challenge(c.loose, get(meta, mpp.KeyRequired)) || a.Failed
	return a
}

// askIn takes terms of x402 from a result that is an error.
func (a *Answer) askIn(loose bool, result, meta []member) {
	if a.ask(loose, get(meta, keyError), DialectCloudflare) || a.ask(loose, get(result, "structuredContent"), DialectX402) {
		return
	}
	if content := get(result, "content"); strictjson.Kind(content) == '[' {
		for first := range strictjson.Elements(content) {
			if block, err := members(first, loose); err == nil {
				text, _ := strictjson.Unquote(get(block, "text"))
				a.ask(loose, json.RawMessage(text), DialectX402)
			}
			break
		}
	}
}

// ask takes terms from where a dialect has them. It reports whether they are there.
func (a *Answer) ask(loose bool, terms json.RawMessage, d Dialect) bool {
	if text, is := strictjson.Unquote(terms); is {
		terms = json.RawMessage(text)
	}
	if plain, ok := readable(terms, loose); ok {
		terms = plain
	}
	asked, err := read(terms, loose)
	version := get(asked, "x402Version")
	if err != nil || version == nil || strictjson.Kind(get(asked, "accepts")) != '[' {
		return false
	}
	if string(bytes.TrimSpace(version)) == "1" && d == DialectX402 {
		d = DialectX402V1
	}
	a.Terms, a.Dialect = terms, d
	return true
}

// challenge takes challenges of MPP, in the form that package mpp reads. An error without them is MCP's own, such as one
// that wants its user to open a page, or the application's. It reports whether they are there.
func (a *Answer) challenge(loose bool, terms json.RawMessage) bool {
	asked, err := read(terms, loose)
	if err != nil || !charges(get(asked, "challenges")) {
		return false
	}
	if a.Terms == nil { // else the seller takes x402 as well
		a.Dialect = DialectMPP
	}
	a.Terms = with(a.Terms, member{mpp.KeyRequired, terms})
	return true
}

// charges reports whether a list has a challenge of MPP. Each of them names a method and an intent.
func charges(list json.RawMessage) bool {
	if strictjson.Kind(list) != '[' {
		return false
	}
	for one := range strictjson.Elements(list) {
		if strictjson.Kind(one) != '{' {
			continue
		}
		method, intent := false, false
		for name := range strictjson.Members(one) {
			method, intent = method || name == "method", intent || name == "intent"
		}
		if method && intent {
			return true
		}
	}
	return false
}

// textOf returns a text as it is, and another value as JSON.
func textOf(value json.RawMessage) string {
	if text, is := strictjson.Unquote(value); is {
		return text
	}
	return string(value)
}

// MaxAnswer bounds an answer that may have terms, in bytes: twice what terms may have, because results hold them as
// an object and as a text.
const MaxAnswer = 4 * x402.MaxChallengeBytes

// keyDeclined is the member of _meta in which purser tells programs why the call was not paid for.
const keyDeclined = "purser/declined"

// Refusal returns an answer to the call in the place of the server's, with words for the model, and details for its
// program. Nothing in it can be paid. version is that of the protocol which the client has named; "" if none.
func (c *Call) Refusal(version, words string, details json.RawMessage) []byte {
	text, _ := json.Marshal(words) // of a string it does not fail
	told := with(nil, member{keyDeclined, details})
	answer := member{"error", with(nil, member{"code", json.RawMessage("-32000")}, member{"message", text}, member{"data", told})}
	if c.Method == MethodTool {
		block := with(nil, member{"type", json.RawMessage(`"text"`)}, member{"text", text})
		result := []member{{"content", json.RawMessage("[" + string(block) + "]")}, {"isError", json.RawMessage("true")}, {"_meta", told}}
		if version >= versionTyped {
			result = append(result, member{"resultType", json.RawMessage(`"complete"`)})
		}
		answer = member{"result", with(nil, result...)}
	}
	return with(nil, member{"jsonrpc", json.RawMessage(`"2.0"`)}, member{"id", c.id}, answer)
}

// versionTyped is the first version of the protocol whose results name their type.
const versionTyped = "2026-07-28"
