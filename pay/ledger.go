package pay

import (
	"context"
	"time"

	"github.com/purserpay/purser/x402"
)

// Ledger is a [Chain] that can also list what wallets have paid. Reconciling a restored
// store needs one.
type Ledger interface {
	// Safe is the newest block that no reorganization is expected to take back.
	Safe(ctx context.Context) (ChainBlock, error)
	// Before finds a block that is not after a moment, a few minutes before it at most where
	// block times allow.
	Before(ctx context.Context, moment time.Time) (ChainBlock, error)
	// Used lists the authorizations of some wallets that were used in a range of blocks, in
	// the order of the chain. Like every answer that counts as evidence it says which chain
	// it is from; see [ChainIdentity].
	Used(ctx context.Context, q UsedQuery) (UsedAnswer, error)
}

// ChainBlock names a block.
type ChainBlock struct {
	Number uint64    `json:"Number"`
	Hash   string    `json:"Hash"` // 0x + 64 hex, lower case
	Time   time.Time `json:"Time"`
}

// UsedQuery names the wallets and the blocks. The RPC must have Safe on its chain, and
// Known, unless that is nil.
type UsedQuery struct {
	Network x402.Network
	Asset   x402.Asset
	Wallets []x402.Address
	// From and To are the first and the last block.
	From, To uint64
	Safe     ChainBlock
	Known    *ChainBlock
	// Size is how many blocks to ask for at once: that of the answer before; 0: as many as
	// RPCs usually answer for.
	Size uint64
}

// UsedAnswer is what the chain says about a range of blocks.
type UsedAnswer struct {
	// Through is the last block that the answer covers; there may be more to ask for.
	Through uint64
	Size    uint64 // see UsedQuery
	Used    []UsedAuthorization
	Chain   ChainIdentity
}

// UsedAuthorization is an AuthorizationUsed. To and Value are those of its transfer, which
// Matched says was found.
type UsedAuthorization struct {
	From        x402.Address
	Nonce       x402.Nonce
	Transaction string // 0x + 64 hex, lower case
	Block       ChainBlock
	Matched     bool
	To          x402.Address
	Value       x402.Amount
}
