package sandbox

import (
	"net/http"

	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/x402"
)

// paywall sells one good.
type paywall struct {
	seller *Seller
	good   good
}

// payment holds the payload of a buyer, and the requirement that it must answer.
type payment struct {
	payload  x402.Payload
	required honest.Requirement
}

// noMatch is the error for a payload that answers no requirement of this seller.
const noMatch = "No matching payment requirements"

// ServeHTTP serves the good once it is paid for.
func (g *paywall) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, first := x402.HeaderSignature, "Payment required"
	if g.good.version == 1 {
		name, first = x402.HeaderV1Payment, x402.HeaderV1Payment+" header is required"
	}
	p := payment{required: g.requirement(r)}
	var err error
	if p.payload, err = x402.DecodePayload(r.Header.Get(name)); err != nil || p.payload.Version != g.good.version {
		g.challenge(w, r, first, "") // an unreadable payload counts as none
		return
	}
	if !p.required.AnsweredBy(p.payload) {
		g.challenge(w, r, noMatch, "")
		return
	}
	switch g.good.flow {
	case flowUpfront:
		g.deliver(w, r, p, g.good.serve)
	case flowPrepaid:
		g.prepaid(w, r, p)
	default:
		g.authorized(w, r, p)
	}
}

// authorized verifies, makes the answer, settles, and then sends the answer. A buyer is not charged
// for an error.
func (g *paywall) authorized(w http.ResponseWriter, r *http.Request, p payment) {
	verdict, err := g.seller.till().Verify(r.Context(), p.payload, p.required)
	if err != nil {
		g.seller.unavailable(w, r, err)
		return
	}
	if !verdict.IsValid {
		g.challenge(w, r, verdict.InvalidReason, verdict.Payer)
		return
	}
	goods := honest.NewPage()
	g.good.serve(goods, r)
	if goods.Status >= http.StatusBadRequest {
		goods.SendTo(w)
		return
	}
	g.deliver(w, r, p, func(w http.ResponseWriter, _ *http.Request) { goods.SendTo(w) })
}

// deliver settles, and then sends the goods.
func (g *paywall) deliver(w http.ResponseWriter, r *http.Request, p payment, goods http.HandlerFunc) {
	receipt, err := g.seller.till().Settle(r.Context(), p.payload, p.required)
	switch {
	case err != nil:
		g.seller.unavailable(w, r, err)
	case !receipt.Success:
		g.unsettled(w, r, receipt)
	default:
		g.attach(w, receipt)
		goods(w, r)
	}
}

// prepaid serves once for a payment that the buyer has settled.
func (g *paywall) prepaid(w http.ResponseWriter, r *http.Request, p payment) {
	receipt, reason, err := g.seller.claim(r.Context(), p)
	switch {
	case err != nil:
		g.seller.unavailable(w, r, err)
	case reason != "":
		g.challenge(w, r, reason, "")
	default:
		g.attach(w, receipt)
		g.good.serve(w, r)
	}
}

// requirement returns the price and terms of the good.
func (g *paywall) requirement(r *http.Request) honest.Requirement {
	_, usdc := honest.Network()
	q := honest.Requirement{
		Scheme: honest.Scheme, Network: honest.WireNetwork(g.good.version), PayTo: g.seller.o.PayTo.String(), Asset: usdc.Address.String(),
		MaxTimeoutSeconds: maxTimeoutSeconds, Extra: &honest.Extra{Name: usdc.Name, Version: usdc.Version},
	}
	if g.good.version == 1 {
		q.MaxAmountRequired = g.good.price.String()
		q.Resource, q.Description, q.MimeType = urlOf(r), g.good.description, g.good.mimeType
		return q
	}
	q.Amount = g.good.price.String()
	if g.good.flow == flowUpfront {
		q.Extra.PaymentFlow = string(flowUpfront)
	}
	return q
}

// challenge answers 402 with the terms. reason says why a payment was refused.
func (g *paywall) challenge(w http.ResponseWriter, r *http.Request, reason, payer string) {
	w.Header().Set("Cache-Control", "no-store")
	accepts := []honest.Requirement{g.requirement(r)}
	if g.good.version == 1 {
		body := map[string]any{"x402Version": 1, "error": reason, "accepts": accepts}
		if payer != "" {
			body["payer"] = payer
		}
		honest.WriteJSON(w, http.StatusPaymentRequired, body)
		return
	}
	w.Header().Set(x402.HeaderRequired, honest.InHeader(map[string]any{
		"x402Version": 2, "error": reason, "accepts": accepts,
		"resource": map[string]string{"url": urlOf(r), "description": g.good.description, "mimeType": g.good.mimeType},
	}))
	honest.WriteJSON(w, http.StatusPaymentRequired, struct{}{})
}

// unsettled answers 402 after a failed settlement. Version 2 then sends the receipt and no
// challenge; version 1 sends the challenge and no receipt.
func (g *paywall) unsettled(w http.ResponseWriter, r *http.Request, receipt honest.SettleAnswer) {
	if g.good.version == 1 {
		g.challenge(w, r, receipt.ErrorReason, "")
		return
	}
	g.attach(w, receipt)
	w.Header().Set("Cache-Control", "no-store")
	honest.WriteJSON(w, http.StatusPaymentRequired, struct{}{})
}

// attach adds a receipt to an answer.
func (g *paywall) attach(w http.ResponseWriter, receipt honest.SettleAnswer) {
	name := x402.HeaderResponse
	if g.good.version == 1 {
		name = x402.HeaderV1Response
	}
	w.Header().Set(name, honest.InHeader(receipt))
	w.Header().Set("Cache-Control", "private")
}

// urlOf returns the URL that the buyer requested.
func urlOf(r *http.Request) string {
	u := *r.URL
	u.Scheme, u.Host = "http", r.Host
	if r.TLS != nil {
		u.Scheme = "https"
	}
	return u.String()
}
