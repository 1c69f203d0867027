// Package x402 reads and writes the wire format of the x402 payment protocol, versions 1 and 2, for
// a payer. It decodes challenges, hashes and signs authorizations, encodes payloads, and reads
// receipts. It also holds the table of networks and assets that purser pays on.
//
// Text from a seller counts as hostile until it is decoded. Sizes, nesting and lists are bounded. A
// key must match exactly and may appear only once. Amounts must be canonical integers. The parts
// that a payload echoes are kept byte for byte.
//
// Input and output, the choice of a requirement, and limits on money belong to package pay.
package x402
