// Package token defines what all chains of the sandbox share: one token with the rules of EIP-3009.
// Tests settle, steal and audit through it. Package evm keeps the token as a contract on a real
// EVM, and package ledger as a table.
package token

import (
	"context"
	"math/big"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/x402"
)

// Chain is a chain with the token.
type Chain interface {
	// RPCURL returns the URL of the chain's JSON-RPC, as http://host:port.
	RPCURL() string
	// TokenAddress returns the token's address, which is USDC's on Base.
	TokenAddress() common.Address

	// Fund mints tokens for an account, and returns once they are there. amount is in the token's
	// smallest unit.
	Fund(ctx context.Context, to common.Address, amount *big.Int) error
	// Balance returns the token balance of an account at the latest block, in the token's smallest
	// unit.
	Balance(ctx context.Context, owner common.Address) (*big.Int, error)
	// AuthorizationState reports whether a nonce of an authorizer is used or canceled, at the
	// latest block.
	AuthorizationState(ctx context.Context, authorizer common.Address, nonce [32]byte) (bool, error)

	// Simulate tries a transfer with authorization without sending it. It returns a *RevertError
	// when the token refuses.
	Simulate(ctx context.Context, a x402.Authorization, signature x402.Signature) error
	// TransferWithAuthorization relays a signed authorization, and returns the transaction's hash
	// once it is in a block. v, the last byte of the signature, must be 27 or 28.
	//
	// A *RevertError without Tx means that the latest state refused the call, and nothing was sent.
	// An error with a hash means that the transaction was sent. A *RevertError with Tx then says
	// that it failed on chain; after any other error its outcome is unknown.
	TransferWithAuthorization(ctx context.Context, a x402.Authorization, signature x402.Signature) (string, error)

	// Transfers lists the token's transfers from fromBlock to the latest block, oldest first. A nil
	// from or to matches any account.
	Transfers(ctx context.Context, from, to *common.Address, fromBlock uint64) ([]Transfer, error)
	// AuthorizationsUsed lists the used authorizations of an authorizer, oldest first. It leaves
	// out canceled ones.
	AuthorizationsUsed(ctx context.Context, authorizer common.Address) ([]UsedAuthorization, error)
}

// Transfer is one transfer of tokens that the chain recorded. Minted tokens come from the zero
// address.
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

// RevertError reports that the token refused a call.
type RevertError struct {
	// Reason is the contract's own text, such as "FiatTokenV2: authorization is expired".
	Reason string
	// Tx is the hash of the transaction that reverted, or "" when nothing was sent.
	Tx string
}

func (e *RevertError) Error() string {
	if e.Tx == "" {
		return "the call would revert: " + e.Reason
	}
	return "transaction " + e.Tx + " reverted: " + e.Reason
}
