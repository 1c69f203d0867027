package mcpshop

import "encoding/json"

// Dialect is a way to speak x402 inside MCP.
type Dialect string

// The dialects. For resources and prompts, which know no isError, the terms are in error.data, unless Extension or HTTP
// has a place for them.
const (
	// X402 has the terms in structuredContent and content[0].text. The payment is an object.
	X402 Dialect = "x402"
	// Text is X402 without structuredContent.
	Text Dialect = "text"
	// Extension is a result of the type payment_required for callers that list org.x402/payment, and X402 for others.
	Extension Dialect = "extension"
	// Unasked is a result of that type for everybody, which the specification forbids.
	Unasked Dialect = "unasked"
	// Cloudflare has the terms in _meta["x402/error"]. The payment is text in base64.
	Cloudflare Dialect = "cloudflare"
	// Vercel is version 1 of x402. The payment is text in base64, and the keys of _meta have dots.
	Vercel Dialect = "vercel"
	// Error has the terms in the data of a JSON-RPC error with code 402.
	Error Dialect = "error"
	// HTTP is x402 without MCP: status 402, and headers.
	HTTP Dialect = "http"
)

// Dialects lists all dialects.
func Dialects() []Dialect {
	return []Dialect{X402, Text, Extension, Unasked, Cloudflare, Vercel, Error, HTTP}
}

const (
	extension        = "org.x402/payment"
	codePayment      = 402
	capabilitiesMeta = "io.modelcontextprotocol/clientCapabilities"
)

func (d Dialect) version() int {
	if d == Vercel {
		return 1
	}
	return 2
}

func (d Dialect) paymentKey() string {
	if d == Vercel {
		return "x402.payment"
	}
	return "x402/payment"
}

func (d Dialect) receiptKey() string { return d.paymentKey() + "-response" }

// challengeMessage is the message that asks for money.
func (v *visit) challengeMessage(terms object) object {
	result := object{"isError": true, "content": words(encoded(terms))}
	switch d := v.o.Dialect; {
	case d == Unasked, d == Extension && v.knowsExtension():
		result = object{"resultType": "payment_required", "paymentRequired": terms}
	case d == Error, v.ask.Method != "tools/call":
		return v.errorMessage(codePayment, "Payment required", terms)
	case d == Cloudflare:
		result["_meta"] = object{"x402/error": terms}
	case d != Text:
		result["structuredContent"] = terms
	}
	return v.resultMessage(result)
}

// knowsExtension reports whether the caller lists the extension among its capabilities.
func (v *visit) knowsExtension() bool {
	var able struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	_ = json.Unmarshal(v.ask.Params.Meta[capabilitiesMeta], &able) // none, if unreadable
	_, knows := able.Extensions[extension]
	return knows
}

// priceTag tells the price in the list of tools, as Cloudflare's package does.
func (v *visit) priceTag() object {
	if v.o.Dialect != Cloudflare {
		return object{}
	}
	price, _ := v.o.Price.Big().Float64()
	return object{"agents-x402/paymentRequired": true, "agents-x402/priceUSD": price / 1e6}
}
