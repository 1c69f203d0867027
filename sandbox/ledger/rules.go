package ledger

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/sandbox/token"
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
func (l *Ledger) refusesTransfer(a token.Authorization, signature [65]byte, at uint64) string {
	now := new(big.Int).SetUint64(at)
	_, found := l.states[stateKey{a.From, a.Nonce}]
	switch {
	case now.Cmp(a.ValidAfter) <= 0:
		return notYetValid
	case now.Cmp(a.ValidBefore) >= 0:
		return expired
	case found:
		return usedOrCanceled
	}
	value, fits := x402.AmountFromBig(a.Value)
	if !fits || !a.ValidAfter.IsUint64() || !a.ValidBefore.IsUint64() {
		return badSignature // no payer here signs such values
	}
	digest := x402.Authorization{
		From: x402.Address(a.From), To: x402.Address(a.To), Value: value,
		ValidAfter: a.ValidAfter.Uint64(), ValidBefore: a.ValidBefore.Uint64(), Nonce: a.Nonce,
	}.Digest(l.asset, l.network.ChainID)
	if no := refusesSignature(digest, signature, a.From); no != "" {
		return no
	}
	switch {
	case a.To == common.Address{}:
		return toZeroAddress
	case a.Value.Cmp(l.owned(a.From, uint64(len(l.blocks)))) > 0:
		return tooLittle
	}
	return ""
}

func refusesSignature(digest [32]byte, signature [65]byte, signer common.Address) string {
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
	case common.Address(by) != signer:
		return badSignature
	}
	return ""
}

// cancelDigest returns the digest that an authorizer signs to cancel.
func (l *Ledger) cancelDigest(authorizer common.Address, nonce [32]byte) [32]byte {
	message := crypto.Keccak256(
		crypto.Keccak256([]byte("CancelAuthorization(address authorizer,bytes32 nonce)")),
		common.LeftPadBytes(authorizer[:], 32), nonce[:],
	)
	return crypto.Keccak256Hash([]byte{0x19, 0x01}, l.asset.DomainSeparator[:], message)
}
