// Package proxy pays on the way: its [Transport] is an http.RoundTripper that answers a seller's
// 402 with a payment. It serves the forward proxy (package forward) and the reverse-proxy
// transport. A [Call] says for whom a request is sent.
//
// A paid request goes through these files: transport.go asks without a payment, challenge.go reads
// the 402, payment.go opens the payment at the pay core, send.go sends the request with the
// payload, decision.go decides what the answer means, and answer.go writes what the client gets.
//
// The package decides nothing about money: that is the pay core's (docs/design/payments.md, surfaces.md). It
// knows neither Caddy nor the REST API nor dashboards.
package proxy
