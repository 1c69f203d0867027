package ledger

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/x402"
)

// Reasons of the token's refusals, in the words of FiatToken v2.2. Payment programs read them.
const (
	notYetValid    = "FiatTokenV2: authorization is not yet valid"
	expired        = "FiatTokenV2: authorization is expired"
	usedOrCanceled = "FiatTokenV2: authorization is used or canceled"
	badSignature   = "FiatTokenV2: invalid signature"
	noSignature    = "ECRecover: invalid signature"
	badS           = "ECRecover: invalid signature 's' value"
	badV           = "ECRecover: invalid signature 'v' value"
	toZeroAddress  = "ERC20: transfer to the zero address"
	tooLittle      = "ERC20: transfer amount exceeds balance"
)

// maxS is half the order of secp256k1. A signature with a larger s is the malleated form of one
// with a smaller s.
var maxS = new(big.Int).Rsh(crypto.S256().Params().N, 1)

// refusesTransfer returns why a block at this time refuses a transfer, or "". The rules stand in
// the order of the contract, which decides the reason when two rules are broken. Its caller must
// hold l.mu.
func (l *Ledger) refusesTransfer(a x402.Authorization, signature x402.Signature, at uint64) string {
	from := common.Address(a.From.EVM())
	_, found := l.states[stateKey{from, a.Nonce}]
	switch {
	case at <= a.ValidAfter:
		return notYetValid
	case at >= a.ValidBefore:
		return expired
	case found:
		return usedOrCanceled
	}
	if no := refusesSignature(a.Digest(l.asset, l.network.ChainID), signature, from); no != "" {
		return no
	}
	switch {
	case a.To.IsZero():
		return toZeroAddress
	case a.Value.Big().Cmp(l.owned(from, uint64(len(l.blocks)))) > 0:
		return tooLittle
	}
	return ""
}

func refusesSignature(digest [32]byte, signature x402.Signature, signer common.Address) string {
	switch v := signature[64]; {
	case new(big.Int).SetBytes(signature[32:64]).Cmp(maxS) > 0:
		return badS
	case v != 27 && v != 28:
		return badV
	}
	by, err := x402.Recover(digest, signature)
	switch {
	case err != nil:
		return noSignature
	case common.Address(by.EVM()) != signer:
		return badSignature
	}
	return ""
}
