package mcpshop

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"

	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/x402"
)

// maxTimeoutSeconds is the time that payers get.
const maxTimeoutSeconds = 60

// sell answers a request for what costs money, honestly unless a fault is due.
func (v *visit) sell() {
	payload, found := v.payment()
	step := Unpaid
	if found {
		step = Paid
	}
	if fault, due := v.due(step); due {
		fault.do(v, payload)
		return
	}
	if !found {
		v.challenge("Payment required")
		return
	}
	if receipt, ok := v.settle(payload); ok {
		v.deliver(receipt)
	}
}

// settle verifies, makes what is paid for, and settles. If that fails, it answers with a challenge.
func (v *visit) settle(payload x402.Payload) (receipt honest.SettleAnswer, ok bool) {
	// A payment that is being made goes on when the caller leaves.
	ctx := context.WithoutCancel(v.r.Context())
	if !v.requirement().AnsweredBy(payload) {
		v.challenge("No matching payment requirements")
		return receipt, false
	}
	verdict, err := v.o.Till.Verify(ctx, payload, v.requirement())
	if err == nil && verdict.IsValid {
		city, _ := v.ask.city()
		v.ran(city)
		receipt, err = v.o.Till.Settle(ctx, payload, v.requirement())
	}
	switch {
	case err != nil:
		v.o.Logger.Error("the facilitator failed", "error", err)
		v.error(codeInside, "the facilitator could not be used")
	case !verdict.IsValid:
		v.challenge(verdict.InvalidReason)
	case !receipt.Success:
		v.challenge(receipt.ErrorReason)
	default:
		return receipt, true
	}
	return receipt, false
}

// deliver answers with what was paid for.
func (v *visit) deliver(receipt honest.SettleAnswer) {
	if v.o.Progress {
		v.progress(1)
	}
	if v.o.Dialect == HTTP && v.events == nil {
		v.w.Header().Set(x402.HeaderResponse, honest.InHeader(receipt))
	}
	v.reply(v.goods(receipt))
}

// goods is the message with what was paid for.
func (v *visit) goods(receipt honest.SettleAnswer) object {
	city, _ := v.ask.city()
	text := "sunny in " + city
	var result object
	switch v.ask.Method {
	case "resources/read":
		result = object{"contents": []object{{"uri": v.ask.Params.URI, "mimeType": "text/plain", "text": text}}}
	case "prompts/get":
		result = object{"messages": []object{{"role": "user", "content": words(text)[0]}}}
	default:
		result = object{"content": words(text), "isError": false}
	}
	result["_meta"] = object{v.o.Dialect.receiptKey(): receipt}
	return v.resultMessage(result)
}

// requirement returns price and terms.
func (v *visit) requirement() honest.Requirement {
	_, usdc := honest.Network()
	version := v.o.Dialect.version()
	q := honest.Requirement{
		Scheme: honest.Scheme, Network: honest.WireNetwork(version), PayTo: v.o.PayTo.String(), Asset: usdc.Address.String(),
		MaxTimeoutSeconds: maxTimeoutSeconds, Extra: &honest.Extra{Name: usdc.Name, Version: usdc.Version},
	}
	if version == 1 {
		q.MaxAmountRequired = v.o.Price.String()
		q.Resource, q.Description, q.MimeType = v.resource(), "The weather in a city", "application/json"
		return q
	}
	q.Amount = v.o.Price.String()
	return q
}

// resource is the URL by which the terms name what is on sale.
func (v *visit) resource() string {
	switch v.ask.Method {
	case "resources/read":
		return "mcp://resource/" + v.ask.Params.URI
	case "prompts/get":
		return "mcp://prompt/" + v.ask.Params.Name
	}
	return "mcp://tool/" + v.ask.Params.Name
}

// terms returns the object that a challenge holds.
func (v *visit) terms(reason string) object {
	terms := object{"x402Version": v.o.Dialect.version(), "error": reason, "accepts": []honest.Requirement{v.requirement()}}
	if v.o.Dialect.version() != 1 {
		terms["resource"] = object{"url": v.resource(), "description": "The weather in a city", "mimeType": "application/json"}
	}
	return terms
}

// challenge asks for money. reason says why a payment was refused.
func (v *visit) challenge(reason string) { v.demand(v.terms(reason)) }

// demand is challenge with terms.
func (v *visit) demand(terms object) {
	if v.o.Dialect == HTTP {
		v.w.Header().Set(x402.HeaderRequired, honest.InHeader(terms))
		honest.WriteJSON(v.w, http.StatusPaymentRequired, struct{}{})
		return
	}
	v.reply(v.challengeMessage(terms))
}

// payment reads the payload of a request in the form of the shop's dialect.
func (v *visit) payment() (payload x402.Payload, found bool) {
	encoded := ""
	switch value := v.ask.Params.Meta[v.o.Dialect.paymentKey()]; v.o.Dialect {
	case Cloudflare:
		if json.Unmarshal(value, &encoded) != nil {
			encoded = v.header()
		}
	case Vercel:
		_ = json.Unmarshal(value, &encoded) // another form counts as none
	case HTTP:
		encoded = v.header()
	default:
		encoded = base64.StdEncoding.EncodeToString(value)
	}
	payload, err := x402.DecodePayload(encoded)
	return payload, err == nil && payload.Version == v.o.Dialect.version()
}

// header is the payment in a header of HTTP.
func (v *visit) header() string {
	if value := v.r.Header.Get(x402.HeaderSignature); value != "" {
		return value
	}
	return v.r.Header.Get(x402.HeaderV1Payment)
}
