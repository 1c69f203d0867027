// Package pay is purser's core: keys, wallets, payments, spend events, plans and
// policy, the pipeline that turns a challenge into at most one payment, and the
// recovery that closes what was left open.
//
// The package knows neither HTTP servers nor Caddy nor a storage engine. It reaches the outside
// through the ports in ports.go and store.go. Every door (REST API, proxy, transport) is a client of
// [Payer]. What counts as evidence is in evidence.go.
//
// Three rules carry everything (docs/design/payments.md):
//   - a payment is journaled, with everything it reserves, before it is signed;
//   - a payload leaves only while its lease is held, so one send is in flight at most;
//   - a payment is settled or void by evidence only, never by a timeout.
package pay
