package tempo

import (
	"github.com/purserpay/purser/protocol/mpp"
	"github.com/purserpay/purser/x402"
)

// Number is the rail's number in the books.
const Number = mpp.RailTempo

// chainID is that of the main network.
const chainID = 4217

// Network returns the main network with the tokens that the rail pays with. All are dollars with 6 decimals, and pay
// for gas as well.
func Network() x402.Network {
	n, _ := x402.NetworkByWire("tempo") // it is pinned
	return n
}
