package mppshop

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/x402"
)

// Names of headers.
const (
	headerChallenge  = "WWW-Authenticate"
	headerReceipt    = "Payment-Receipt"
	headerPreference = "Accept-Payment"
	// HeaderAuthorization is the ordinary place of a credential, HeaderPayment the other one.
	HeaderAuthorization = "Authorization"
	HeaderPayment       = "Payment-Authorization"
)

const (
	methodEVM    = "evm"
	intentCharge = "charge"
	// typeEIP3009 is the only type of credentials that the shop takes.
	typeEIP3009 = "authorization"
)

// object is a JSON object. Its keys are encoded in order, as RFC 8785 wants it.
type object = map[string]any

// challenge asks for a payment. A credential echoes all of it but more.
type challenge struct {
	ID, Realm, Method, Intent, Request           string
	Description, Digest, Expires, Opaque, Header string // optional

	more  []param // parameters that the protocol does not know
	newer bool    // the nonce is that of newer sellers
}

// param is a parameter of a challenge.
type param struct{ name, value string }

// params lists what is not empty. An id is always there.
func (c challenge) params() []param {
	list := []param{
		{"id", c.ID},
		{"realm", c.Realm},
		{"method", c.Method},
		{"intent", c.Intent},
		{"request", c.Request},
		{"description", c.Description},
		{"digest", c.Digest},
		{"expires", c.Expires},
		{"header", c.Header},
		{"opaque", c.Opaque},
	}
	kept := list[:1]
	for _, p := range list[1:] {
		if p.value != "" {
			kept = append(kept, p)
		}
	}
	return append(kept, c.more...)
}

// UnmarshalJSON reads an echo. Members that the protocol does not know go to more.
func (c *challenge) UnmarshalJSON(text []byte) error {
	var all map[string]string
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*c = challenge{
		ID: all["id"], Realm: all["realm"], Method: all["method"], Intent: all["intent"], Request: all["request"],
		Description: all["description"], Digest: all["digest"], Expires: all["expires"], Opaque: all["opaque"], Header: all["header"],
	}
	for _, p := range c.params() {
		delete(all, p.name)
	}
	for name, value := range all {
		c.more = append(c.more, param{name, value})
	}
	return nil
}

// echoes reports whether an echo has nothing but what was issued. It may leave out what the protocol does not know.
func (c challenge) echoes(issued challenge) bool {
	return !slices.ContainsFunc(c.more, func(p param) bool { return !slices.Contains(issued.more, p) })
}

// identify computes the id from the parts that it binds.
func (s *Shop) identify(c challenge) string {
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte(strings.Join([]string{c.Realm, c.Method, c.Intent, c.Request, c.Expires, c.Digest, c.Opaque}, "|")))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// bound is the nonce of the authorization that answers a challenge. mppx up to 0.11 and the specification put id and
// realm together; newer sellers take the JSON text of both.
func (c challenge) bound() x402.Nonce {
	text := []byte(c.ID + c.Realm)
	if c.newer {
		text = compact([]string{c.ID, c.Realm})
	}
	return x402.Nonce(crypto.Keccak256(text))
}

// compact is JSON without spaces, and with <, > and & as they are.
func compact(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // cannot fail: texts, numbers, lists and maps of them
	return bytes.TrimSpace(b.Bytes())
}

// requestOf encodes the request of a challenge.
func requestOf(v object) string { return base64.RawURLEncoding.EncodeToString(compact(v)) }

// terms is the request of the shop's own offer.
func (v *visit) terms() object {
	base, usdc := honest.Network()
	return object{
		"amount": v.price(), "currency": usdc.Address.String(), "recipient": v.o.PayTo.String(),
		"methodDetails": object{"chainId": base.ChainID, "credentialTypes": []string{typeEIP3009}, "decimals": usdc.Decimals},
	}
}

// fresh is a challenge for the shop's own offer, without an id. Its end is that of no other, so that its id is unique.
func (v *visit) fresh() challenge {
	v.mu.Lock()
	defer v.mu.Unlock()
	end := v.o.Now().Add(v.o.Validity).Truncate(time.Millisecond)
	if !end.After(v.end) {
		end = v.end.Add(time.Millisecond)
	}
	v.end = end
	return challenge{
		Realm: v.o.Realm, Method: methodEVM, Intent: intentCharge, Request: requestOf(v.terms()), Description: "A good of the sandbox",
		Expires: stamp(end), newer: v.o.Newer,
	}
}

// stamp writes a time as JavaScript does.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// offer holds the challenges of a 402.
type offer struct {
	challenges []challenge
	// write makes the values of the header. Default: plainLines.
	write func([]challenge) []string
	// x402 adds the same offer in that protocol.
	x402 bool
}

// plainLines writes each challenge in a line of its own.
func plainLines(all []challenge) (lines []string) {
	for _, c := range all {
		lines = append(lines, written(c, plain))
	}
	return lines
}

// oneLine writes all challenges in one line.
func oneLine(all []challenge) []string { return []string{strings.Join(plainLines(all), ", ")} }

// style says how a challenge is written.
type style struct {
	scheme string
	name   func(i int, name string) string
	value  func(name, value string) string
	equals string
	comma  string
}

var plain = style{
	scheme: "Payment", name: func(_ int, name string) string { return name }, value: func(_, value string) string { return quoted(value) },
	equals: "=", comma: ", ",
}

func written(c challenge, s style) string {
	parts := []string{}
	for i, p := range c.params() {
		parts = append(parts, s.name(i, p.name)+s.equals+s.value(p.name, p.value))
	}
	return s.scheme + " " + strings.Join(parts, s.comma)
}

// quoted writes a text as the bytes of a quoted string: Latin-1, and what is beyond it as mppx writes it.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteByte(byte(r))
		case r <= 0xff:
			b.WriteByte(byte(r))
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}

// demand answers 402 with fresh challenges. kind and detail say why.
func (v *visit) demand(kind problem, detail string) {
	o := offer{challenges: []challenge{v.fresh()}}
	if v.play.offers != nil {
		v.play.offers(v, &o)
	}
	for i := range o.challenges {
		c := &o.challenges[i]
		if !v.play.nameless {
			c.ID = v.identify(*c)
		}
		v.issue(*c)
	}
	write := o.write
	if write == nil {
		write = plainLines
	}
	h := v.w.Header()
	h.Set("Cache-Control", "no-store")
	for _, line := range write(o.challenges) {
		h.Add(headerChallenge, line)
	}
	if o.x402 {
		h.Set(x402.HeaderRequired, honest.InHeader(v.required(detail)))
	}
	v.count(func(n *Count) { n.Challenges += len(o.challenges) })
	id := ""
	if len(o.challenges) > 0 {
		id = o.challenges[0].ID
	}
	v.fail(http.StatusPaymentRequired, kind, detail, id)
}

// problem is the last part of a problem's type.
type problem string

const (
	problemRequired  problem = "payment-required"
	problemVerify    problem = "verification-failed"
	problemExpired   problem = "payment-expired"
	problemMalformed problem = "malformed-credential"
	problemChallenge problem = "invalid-challenge"
	problemPayload   problem = "invalid-payload"
	problemInside    problem = "internal-payment-error"
)

// fail answers with a problem document (RFC 9457).
func (v *visit) fail(status int, kind problem, detail, id string) {
	body := object{"type": "https://paymentauth.org/problems/" + string(kind), "title": string(kind), "status": status, "detail": detail}
	if id != "" {
		body["challengeId"] = id
	}
	v.w.Header().Set("Content-Type", "application/problem+json")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(compact(body)) // the caller may have left
}
