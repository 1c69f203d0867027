package protocol_test

import (
	"testing"

	"github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/x402"
)

// A repeat of a payment whose payload was lost with the books has an empty payload. It is answered without
// one, and not refused.
func TestLostPayloadIsX402s(t *testing.T) {
	t.Parallel()
	spoken := protocol.Spoken()
	for version, want := range map[int]bool{0: true, 1: true, 2: true, x402.OtherProtocols - 1: true, x402.OtherProtocols + 1: false} {
		p := spoken.Of(x402.Payload{Version: version})
		if (p != nil) != want {
			t.Errorf("version %d: %v", version, p)
		}
	}
	if _, credential := spoken.Of(x402.Payload{}).Credential(x402.Payload{}); credential != "" {
		t.Errorf("a lost payload is sent as %q", credential)
	}
}
