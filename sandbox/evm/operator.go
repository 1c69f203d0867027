package evm

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"math/big"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
)

const (
	// operatorSeed hashes to the operator's private key. The key is public on purpose: it owns
	// nothing outside a sandbox.
	operatorSeed = "purser sandbox operator"
	// operatorGas is three times the gas of a transfer with authorization.
	operatorGas = 250_000
	// gasByData is added for each byte of a call's data: one call can make several transfers.
	gasByData = 300
	// operatorTip and operatorFeeCap, in wei per gas, get the operator's transactions into every
	// block.
	operatorTip    = params.GWei
	operatorFeeCap = 1000 * params.GWei
)

// operator is the account that mints tokens, hands out ether and relays authorizations. Token.sol
// names its address.
type operator struct {
	key     *ecdsa.PrivateKey
	address common.Address
	signer  types.Signer

	// mu makes two steps one: taking a nonce and entering the pool. An account's transactions run
	// in the order of their nonces, and a gap would block all later ones.
	mu    sync.Mutex
	nonce uint64
}

func newOperator(chainID *big.Int) *operator {
	key := crypto.ToECDSAUnsafe(crypto.Keccak256([]byte(operatorSeed)))
	return &operator{
		key:     key,
		address: crypto.PubkeyToAddress(key.PublicKey),
		signer:  types.LatestSignerForChainID(chainID),
	}
}

// submit signs a transaction of the operator and puts it into the pool. The receipt comes through
// the channel. The caller must call forget when it stops waiting.
func (c *Chain) submit(to common.Address, value *big.Int, data []byte) (common.Hash, <-chan *types.Receipt, error) {
	c.op.mu.Lock()
	defer c.op.mu.Unlock()
	tx, err := types.SignNewTx(c.op.key, c.op.signer, &types.DynamicFeeTx{
		ChainID:   c.chainID,
		Nonce:     c.op.nonce,
		GasTipCap: big.NewInt(operatorTip),
		GasFeeCap: big.NewInt(operatorFeeCap),
		Gas:       operatorGas + gasByData*uint64(len(data)),
		To:        &to,
		Value:     value,
		Data:      data,
	})
	if err != nil {
		return common.Hash{}, nil, fmt.Errorf("sign the operator's transaction: %w", err)
	}
	receipt := c.await(tx.Hash())
	if err := c.eth.TxPool().Add([]*types.Transaction{tx}, false)[0]; err != nil {
		c.forget(tx.Hash())
		return common.Hash{}, nil, fmt.Errorf("send the operator's transaction: %w", err)
	}
	c.op.nonce++
	return tx.Hash(), receipt, nil
}

// transact sends a transaction of the operator and waits until it is mined. An error with a hash
// means that the transaction was sent. It then either reverted (*RevertError), or its outcome is
// unknown.
func (c *Chain) transact(ctx context.Context, to common.Address, value *big.Int, data []byte) (common.Hash, error) {
	select {
	case <-c.done:
		return common.Hash{}, c.stopped()
	case <-ctx.Done():
		return common.Hash{}, ctx.Err()
	default:
	}
	hash, mined, err := c.submit(to, value, data)
	if err != nil {
		return common.Hash{}, err
	}
	defer c.forget(hash)
	select {
	case receipt := <-mined:
		if receipt.Status != types.ReceiptStatusSuccessful {
			return hash, &RevertError{Reason: c.revertReason(ctx, receipt, to, value, data), Tx: hash.Hex()}
		}
		return hash, nil
	case <-c.done:
		return hash, c.stopped()
	case <-ctx.Done():
		return hash, fmt.Errorf("wait for transaction %s: %w", hash, ctx.Err())
	}
}

// Fund mints tokens for an account, and returns once they are there. amount is in the token's
// smallest unit and must be positive.
func (c *Chain) Fund(ctx context.Context, to common.Address, amount *big.Int) error {
	data, err := c.token.Pack("mint", to, amount)
	if err != nil {
		return err
	}
	if _, err := c.transact(ctx, c.TokenAddress(), nil, data); err != nil {
		return fmt.Errorf("fund %s: %w", to, err)
	}
	return nil
}

// FundETH sends wei to an account that must pay for gas, and returns once it is there.
func (c *Chain) FundETH(ctx context.Context, to common.Address, wei *big.Int) error {
	if _, err := c.transact(ctx, to, wei, nil); err != nil {
		return fmt.Errorf("fund %s with ether: %w", to, err)
	}
	return nil
}
