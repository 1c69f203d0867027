// Package x402 is the wire format of the x402 payment protocol, versions 1 and 2, as a payer needs it: challenges are
// decoded, authorizations hashed and signed, payloads encoded, receipts read. It also holds the one table of networks
// and assets that purser pays on.
//
// Everything that comes from a seller is hostile until decoded: sizes, nesting and lists are bounded, keys match
// exactly and only once, amounts are canonical integers. What a seller wants echoed is kept byte for byte.
//
// Not here: any I/O, the choice of what to pay, and limits on money. Those are package pay.
package x402
