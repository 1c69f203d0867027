package x402

import (
	"slices"

	"github.com/purserpay/purser/money"
)

// Permit2 moves tokens that an owner has approved to it, by signed messages.
var Permit2 = must(ParseAddress("0x000000000022D473030F116dDEE9F6B43aC78BA3"))

// approveFunction is the ERC-20 function by which an owner lets a spender move tokens.
const approveFunction = "approve(address,uint256)"

// ApproveCall returns the data of a call of the token contract that lets a spender move an amount in all.
// It replaces what the spender may move by now.
func ApproveCall(spender Address, amount money.Amount) []byte {
	value := amount.Bytes32()
	return slices.Concat(selector(approveFunction), addressWord(spender), value[:])
}
