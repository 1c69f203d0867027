package evm

import (
	"context"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient/gethclient"

	"github.com/purserpay/purser/sandbox/token"
	"github.com/purserpay/purser/x402"
)

// Methods that the token overloads. go-ethereum numbers them in the order of the ABI.
const (
	transferWithAuth = "transferWithAuthorization0" // with v, r and s
	cancelAuth       = "cancelAuthorization"        // with v, r and s
)

// read calls a method that returns one value of type T, at the latest block.
func read[T any](ctx context.Context, c *Chain, method string, args ...any) (value T, err error) {
	data, err := c.token.Pack(method, args...)
	if err != nil {
		return value, err
	}
	to := c.TokenAddress()
	answer, err := c.client.CallContract(ctx, ethereum.CallMsg{To: &to, Data: data}, nil)
	if err != nil {
		return value, fmt.Errorf("call %s: %w", method, asRevert(err))
	}
	err = c.token.UnpackIntoInterface(&value, method, answer)
	return value, err
}

// Balance implements [token.Chain].
func (c *Chain) Balance(ctx context.Context, owner common.Address) (*big.Int, error) {
	return read[*big.Int](ctx, c, "balanceOf", owner)
}

// AuthorizationState implements [token.Chain].
func (c *Chain) AuthorizationState(ctx context.Context, authorizer common.Address, nonce [32]byte) (bool, error) {
	return read[bool](ctx, c, "authorizationState", authorizer, nonce)
}

// These types are the same on every chain of the sandbox.
type (
	Transfer          = token.Transfer
	UsedAuthorization = token.UsedAuthorization
	RevertError       = token.RevertError
)

// TransferWithAuthorization implements [token.Chain]. Concurrent calls share blocks. After an error
// with a hash that is no *RevertError, the transaction's outcome is unknown.
func (c *Chain) TransferWithAuthorization(ctx context.Context, a x402.Authorization, signature x402.Signature) (string, error) {
	data, err := c.packTransfer(a, signature)
	if err != nil {
		return "", err
	}
	return c.relay(ctx, "transfer with authorization", data)
}

// CancelAuthorization relays a signed EIP-3009 CancelAuthorization, which makes a nonce unusable.
// Its results are like those of TransferWithAuthorization.
func (c *Chain) CancelAuthorization(ctx context.Context, authorizer common.Address, nonce [32]byte, signature [65]byte) (string, error) {
	r, s, v := split(signature)
	data, err := c.token.Pack(cancelAuth, authorizer, nonce, v, r, s)
	if err != nil {
		return "", err
	}
	return c.relay(ctx, "cancel an authorization", data)
}

// Simulate implements [token.Chain], with the time of the next block.
func (c *Chain) Simulate(ctx context.Context, a x402.Authorization, signature x402.Signature) error {
	data, err := c.packTransfer(a, signature)
	if err != nil {
		return err
	}
	return c.try(ctx, "simulate a transfer with authorization", c.TokenAddress(), data)
}

func (c *Chain) packTransfer(a x402.Authorization, signature x402.Signature) ([]byte, error) {
	r, s, v := split(signature)
	after, before := new(big.Int).SetUint64(a.ValidAfter), new(big.Int).SetUint64(a.ValidBefore)
	return c.token.Pack(
		transferWithAuth, common.Address(a.From.EVM()), common.Address(a.To.EVM()), a.Value.Big(), after, before, a.Nonce, v, r, s,
	)
}

func split(signature [65]byte) (r, s [32]byte, v uint8) {
	return [32]byte(signature[:32]), [32]byte(signature[32:64]), signature[64]
}

// relay tries a call of the token and sends it if it would succeed.
func (c *Chain) relay(ctx context.Context, what string, data []byte) (string, error) {
	return c.relayTo(ctx, what, c.TokenAddress(), data)
}

func (c *Chain) relayTo(ctx context.Context, what string, to common.Address, data []byte) (string, error) {
	if err := c.try(ctx, what, to, data); err != nil {
		return "", err
	}
	hash, err := c.transact(ctx, to, nil, data)
	switch {
	case err == nil:
		return hash.Hex(), nil
	case hash == common.Hash{}:
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return hash.Hex(), fmt.Errorf("%s: %w", what, err)
}

func (c *Chain) try(ctx context.Context, what string, to common.Address, data []byte) error {
	msg := ethereum.CallMsg{From: c.op.address, To: &to, Data: data}
	at := gethclient.BlockOverrides{Time: nextBlockTime(c.eth.BlockChain().CurrentBlock().Time, c.now())}
	if _, err := c.geth.CallContractWithBlockOverrides(ctx, msg, nil, nil, at); err != nil {
		return fmt.Errorf("%s: %w", what, asRevert(err))
	}
	return nil
}

// Transfers implements [token.Chain].
func (c *Chain) Transfers(ctx context.Context, from, to *common.Address, fromBlock uint64) ([]Transfer, error) {
	logs, err := c.logs(ctx, fromBlock, "Transfer", indexed(from), indexed(to))
	if err != nil {
		return nil, err
	}
	transfers := make([]Transfer, len(logs))
	for i, l := range logs {
		transfers[i] = Transfer{
			From:  common.BytesToAddress(l.Topics[1][:]),
			To:    common.BytesToAddress(l.Topics[2][:]),
			Value: new(big.Int).SetBytes(l.Data),
			Tx:    l.TxHash.Hex(),
			Block: l.BlockNumber,
		}
	}
	return transfers, nil
}

// AuthorizationsUsed implements [token.Chain].
func (c *Chain) AuthorizationsUsed(ctx context.Context, authorizer common.Address) ([]UsedAuthorization, error) {
	logs, err := c.logs(ctx, 0, "AuthorizationUsed", indexed(&authorizer))
	if err != nil {
		return nil, err
	}
	used := make([]UsedAuthorization, len(logs))
	for i, l := range logs {
		used[i] = UsedAuthorization{Nonce: l.Topics[2], Tx: l.TxHash.Hex()}
	}
	return used, nil
}

// logs returns the token's events of one kind from fromBlock on, which may lie in the future. Each
// filter lists allowed values of an indexed field; an empty one allows all.
func (c *Chain) logs(ctx context.Context, fromBlock uint64, event string, filters ...[]common.Hash) ([]types.Log, error) {
	if fromBlock > c.eth.BlockChain().CurrentBlock().Number.Uint64() {
		return nil, nil // the node rejects such a range
	}
	logs, err := c.client.FilterLogs(ctx, ethereum.FilterQuery{
		FromBlock: new(big.Int).SetUint64(fromBlock),
		Addresses: []common.Address{c.TokenAddress()},
		Topics:    append([][]common.Hash{{c.token.Events[event].ID}}, filters...),
	})
	if err != nil {
		return nil, fmt.Errorf("look for %s events: %w", event, err)
	}
	return logs, nil
}

func indexed(account *common.Address) []common.Hash {
	if account == nil {
		return nil
	}
	return []common.Hash{common.BytesToHash(account[:])}
}
