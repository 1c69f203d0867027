package protocol

import (
	"net/http"
	"slices"

	"github.com/purserpay/purser/x402"
)

// X402 is the protocol x402, versions 1 and 2, over HTTP.
type X402 struct {
	// Headers name further fields that may hold a challenge.
	Headers []string
}

// Offers implements [Protocol].
func (x X402) Offers(_, h http.Header, body []byte) (x402.Challenge, bool, error) {
	return x402.FromResponse(h, body, x.Headers...)
}

// Carries implements [Protocol].
func (X402) Carries(h http.Header) bool {
	return len(h.Values(x402.HeaderSignature)) > 0 || len(h.Values(x402.HeaderV1Payment)) > 0
}

// Room implements [Protocol]. The fields of x402 have no other use.
func (X402) Room(http.Header, x402.Payload) error { return nil }

// Writes implements [Protocol]. A payload that was lost with the books has the version 0.
func (X402) Writes(version int) bool { return version < x402.OtherProtocols }

// Credential implements [Protocol].
func (X402) Credential(p x402.Payload) (name, value string) { return p.HeaderName(), p.Header() }

// Answer implements [Protocol]. The reference server refuses a payload of Permit2 for want of an
// allowance by 412, with a challenge.
func (x X402) Answer(status int, h http.Header, body []byte) (a Answer) {
	if receipt, has, err := x402.ReceiptFromHeader(h); err == nil && has {
		a.Receipt = &receipt
	} else {
		a.Problem = err
	}
	a.Refuses = status == http.StatusPreconditionFailed && h.Get(x402.HeaderRequired) != ""
	a.Speaks = slices.ContainsFunc(append([]string{x402.HeaderRequired, x402.HeaderResponse, x402.HeaderV1Response}, x.Headers...),
		func(name string) bool { return h.Get(name) != "" })
	if a.Refuses || status == http.StatusPaymentRequired {
		a.Challenge, a.Found = x.refusal(h, body)
	}
	return a
}

// refusal reads the terms of a refusal. A further field counts if no other place gives a reason.
func (x X402) refusal(h http.Header, body []byte) (x402.Challenge, bool) {
	c, found, _ := x402.FromResponse(h, body)
	if c.Error == "" && (found || body != nil) {
		c, found, _ = x.Offers(nil, h, body)
	}
	return c, found
}

// Insists implements [Protocol]: sellers of x402 that ask again have refused the payload.
func (X402) Insists() bool { return false }

// Withhold implements [Protocol].
func (x X402) Withhold(h http.Header) {
	h.Del(x402.HeaderRequired)
	for _, name := range x.Headers {
		h.Del(name)
	}
}

// Decode implements [Protocol].
func (X402) Decode(field string) (x402.Challenge, error) { return x402.DecodeHeader(field) }

// DecodeReceipt implements [Protocol].
func (X402) DecodeReceipt(field string) (x402.Receipt, error) { return x402.DecodeReceipt(field) }

// Secrets implements [Protocol].
func (X402) Secrets() []string {
	return []string{x402.HeaderSignature, x402.HeaderV1Payment, x402.HeaderSignIn, x402.HeaderResponse, x402.HeaderV1Response}
}
