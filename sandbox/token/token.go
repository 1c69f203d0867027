// Package token is what the chains of the sandbox have in common: one token with the rules of EIP-3009, for those who
// settle, steal and audit with it. Package evm has it as a contract on a real EVM, package ledger in a table.
package token

import (
	"context"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
)

// Chain is a chain with the token.
type Chain interface {
	// RPCURL is the address of the chain's JSON-RPC, as http://host:port.
	RPCURL() string
	// TokenAddress is the token's, which is USDC's on Base.
	TokenAddress() common.Address

	// Fund gives an account amount tokens (in the token's smallest unit) out of nothing and returns once they are there.
	Fund(ctx context.Context, to common.Address, amount *big.Int) error
	// Balance is what an account owns of the token, in its smallest unit, at the latest block.
	Balance(ctx context.Context, owner common.Address) (*big.Int, error)
	// AuthorizationState says whether a nonce of an authorizer is used or canceled, at the latest block.
	AuthorizationState(ctx context.Context, authorizer common.Address, nonce [32]byte) (bool, error)

	// Simulate tries a transfer with authorization without sending it. It returns a *RevertError if the token refuses.
	Simulate(ctx context.Context, a Authorization, signature [65]byte) error
	// TransferWithAuthorization relays a signed authorization and returns the hash of the transaction once it is in a
	// block. v, the last byte of the signature, must be 27 or 28.
	//
	// A *RevertError without Tx means that the call was tried on the latest state, refused, and not sent. An error that
	// comes with a hash means that it was sent: a *RevertError that it failed on chain, any other that its outcome is
	// unknown.
	TransferWithAuthorization(ctx context.Context, a Authorization, signature [65]byte) (string, error)

	// Transfers lists the token's movements from fromBlock to the latest block, oldest first. A nil from or to means any.
	Transfers(ctx context.Context, from, to *common.Address, fromBlock uint64) ([]Transfer, error)
	// AuthorizationsUsed lists the authorizations of an authorizer that were used, oldest first. Canceled ones are not
	// among them.
	AuthorizationsUsed(ctx context.Context, authorizer common.Address) ([]UsedAuthorization, error)
}

// Authorization is an EIP-3009 TransferWithAuthorization: what a payer signs. Value is in the token's smallest unit;
// ValidAfter and ValidBefore are Unix seconds, both exclusive.
type Authorization struct {
	From, To                common.Address
	Value                   *big.Int
	ValidAfter, ValidBefore *big.Int
	Nonce                   [32]byte
}

// Transfer is one movement of tokens that the chain recorded. Minted tokens come from the zero address.
type Transfer struct {
	From, To common.Address
	Value    *big.Int // in the token's smallest unit
	Tx       string   // hash of the transaction
	Block    uint64
}

// UsedAuthorization is an authorization that moved tokens.
type UsedAuthorization struct {
	Nonce [32]byte
	Tx    string // hash of the transaction
}

// RevertError says that the token refused a call.
type RevertError struct {
	// Reason is the contract's own text, for instance "FiatTokenV2: authorization is expired".
	Reason string
	// Tx is the hash of the transaction that reverted; empty if the refusal came before anything was sent.
	Tx string
}

func (e *RevertError) Error() string {
	if e.Tx == "" {
		return "the call would revert: " + e.Reason
	}
	return "transaction " + e.Tx + " reverted: " + e.Reason
}
