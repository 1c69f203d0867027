// Package proxy is what pays on the way: an http.RoundTripper that answers a seller's 402
// with a payment, the forward proxy and its tunnels, and the dialer that judges every
// address before it is connected to.
//
//   - [Transport] pays. It serves the forward proxy, the reverse-proxy transport, and
//     whatever else sends requests for somebody. A [Call] says for whom.
//   - [Forward] is the forward proxy: absolute-form requests go through a Transport, and so
//     do those inside a CONNECT whose TLS is opened ([Interception], with certificates of a
//     [Minter]). Any other CONNECT is a blind tunnel, anything else is not proxy traffic.
//   - [Guard] dials, and [guard.Judge] is its verdict.
//
// The package decides nothing about money: that is the pay core's (DESIGN §3, §6). It knows
// neither Caddy nor the REST API nor dashboards.
package proxy
