package tempo

import "github.com/purserpay/purser/x402"

// Number is the rail's number in the books.
const Number = x402.OtherRails

// chainID is that of the main network.
const chainID = 4217

// The pinned tokens. Both are dollars with 6 decimals, and pay for gas as well.
var (
	pathUSD = x402.EVMAddress([20]byte{0x20, 0xc0})
	bridged = x402.EVMAddress([20]byte{0x20, 0xc0, 12: 0xb9, 0x53, 0x7d, 0x11, 0xc6, 0x0e, 0x8b, 0x50})
)

// unit is the currency of both: that of the tokens on other networks.
const unit = "USDC"

// Network returns the main network with the tokens that the rail pays with.
func Network() x402.Network {
	return x402.Network{
		Name: "tempo", Title: "Tempo", ChainID: chainID, SafeTag: x402.TagFinalized, Coin: "USD",
		Assets: []x402.Asset{
			{Symbol: "USDC.e", Unit: unit, Address: bridged, Decimals: 6},
			{Symbol: "pathUSD", Unit: unit, Address: pathUSD, Decimals: 6},
		},
	}
}
