// Package cdp stands in for the Coinbase Developer Platform where tests need it: server wallets and
// the facilitator behind the same tokens. Every request and every answer is checked against CDP's
// published description (openapi.yaml). Both tokens of a call are checked as strictly as CDP
// describes them. The vendor's own SDK drives it in e2e/signers.
package cdp
