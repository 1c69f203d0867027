package evm

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/contracts"
	"github.com/purserpay/purser/x402"
)

// senderEther pays for the gas of some transactions of an account, in wei.
var senderEther = big.NewInt(1e17)

// Structs of the proxies, in the form that package abi packs.
type (
	permitted struct {
		Token  common.Address
		Amount *big.Int
	}
	permit struct {
		Permitted       permitted
		Nonce, Deadline *big.Int
	}
	exactWitness struct {
		To         common.Address
		ValidAfter *big.Int
	}
	uptoWitness struct {
		To, Facilitator common.Address
		ValidAfter      *big.Int
	}
)

// Operator returns the account that relays. It is the facilitator of scheme upto here.
func (c *Chain) Operator() x402.Address { return x402.EVMAddress(c.op.address) }

// Permit2Call returns the proxy and the data of the call that uses an authorization of Permit2. amount
// is what is moved on the rail of upto.
func (c *Chain) Permit2Call(a x402.Authorization, amount money.Amount, signature x402.Signature) (common.Address, []byte, error) {
	artifact, proxy := contracts.ExactProxy(), x402.ExactProxy
	if a.Rail == x402.RailUpto {
		artifact, proxy = contracts.UptoProxy(), x402.UptoProxy
	}
	methods, err := abi.JSON(bytes.NewReader(artifact.ABI))
	if err != nil {
		return common.Address{}, nil, fmt.Errorf("read a proxy's ABI: %w", err)
	}
	number := func(n uint64) *big.Int { return new(big.Int).SetUint64(n) }
	p := permit{permitted{c.TokenAddress(), a.Value.Big()}, new(big.Int).SetBytes(a.Nonce[:]), number(a.ValidBefore - 1)}
	owner, to, after := common.Address(a.From.EVM()), common.Address(a.To.EVM()), number(a.ValidAfter)
	args := []any{p, owner, exactWitness{to, after}, signature[:]}
	if a.Rail == x402.RailUpto {
		args = []any{p, amount.Big(), owner, uptoWitness{to, common.Address(a.Facilitator.EVM()), after}, signature[:]}
	}
	data, err := methods.Pack("settle", args...)
	return common.Address(proxy.EVM()), data, err
}

// SettlePermit2 relays an authorization of Permit2 through its proxy. Its results are like those of
// TransferWithAuthorization.
func (c *Chain) SettlePermit2(ctx context.Context, a x402.Authorization, amount money.Amount, signature x402.Signature) (string, error) {
	to, data, err := c.Permit2Call(a, amount, signature)
	if err != nil {
		return "", err
	}
	return c.Relay(ctx, to, data)
}

// Relay sends a call of any contract from the operator's account, if it would succeed.
func (c *Chain) Relay(ctx context.Context, to common.Address, data []byte) (string, error) {
	return c.relayTo(ctx, "relay a call", to, data)
}

// Approve lets a spender move tokens of an account, which pays the gas from ether that it gets here.
func (c *Chain) Approve(ctx context.Context, owner *ecdsa.PrivateKey, spender x402.Address, amount *big.Int) error {
	data, err := c.token.Pack("approve", common.Address(spender.EVM()), amount)
	if err != nil {
		return err
	}
	_, err = c.Send(ctx, owner, c.TokenAddress(), data)
	return err
}

// InvalidateNonce makes an account give a nonce of Permit2 up.
func (c *Chain) InvalidateNonce(ctx context.Context, owner *ecdsa.PrivateKey, nonce x402.Nonce) (string, error) {
	return c.Send(ctx, owner, common.Address(x402.Permit2.EVM()), x402.Authorization{Nonce: nonce}.GiveUpCall())
}

// Send sends a transaction of an account, gives it the ether for that, and returns the hash once it is
// in a block.
func (c *Chain) Send(ctx context.Context, key *ecdsa.PrivateKey, to common.Address, data []byte) (string, error) {
	from := crypto.PubkeyToAddress(key.PublicKey)
	if err := c.FundETH(ctx, from, senderEther); err != nil {
		return "", err
	}
	nonce, err := c.client.PendingNonceAt(ctx, from)
	if err != nil {
		return "", fmt.Errorf("count the transactions of %s: %w", from, err)
	}
	tx, err := types.SignNewTx(key, c.op.signer, &types.DynamicFeeTx{
		ChainID: c.chainID, Nonce: nonce, GasTipCap: big.NewInt(operatorTip), GasFeeCap: big.NewInt(operatorFeeCap / 10),
		Gas: operatorGas + gasByData*uint64(len(data)), To: &to, Data: data,
	})
	if err != nil {
		return "", fmt.Errorf("sign a transaction: %w", err)
	}
	mined := c.await(tx.Hash())
	defer c.forget(tx.Hash())
	if err := c.client.SendTransaction(ctx, tx); err != nil {
		return "", fmt.Errorf("send a transaction: %w", err)
	}
	select {
	case receipt := <-mined:
		if receipt.Status != types.ReceiptStatusSuccessful {
			return tx.Hash().Hex(), &RevertError{Reason: unknownReason, Tx: tx.Hash().Hex()}
		}
	case <-c.done:
		return tx.Hash().Hex(), c.stopped()
	case <-ctx.Done():
		return tx.Hash().Hex(), fmt.Errorf("wait for transaction %s: %w", tx.Hash(), ctx.Err())
	}
	return tx.Hash().Hex(), nil
}
