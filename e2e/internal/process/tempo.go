package process

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/purserpay/purser/internal/testing/needed"
)

const (
	// TempoChainID is the chain id of Tempo's main net.
	TempoChainID = 4217
	// TempoToken is pathUSD, the only token that the local chain has. It has six decimals.
	TempoToken = "0x20c0000000000000000000000000000000000000"
	// TempoSponsor is the private key of an account with money, which everybody knows.
	TempoSponsor = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"

	// TempoBank is an account with money whose transactions the node signs.
	TempoBank = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
)

// Tempo is a local chain of Tempo with a block each second.
type Tempo struct {
	*Process
	URL string

	client  *ethclient.Client
	funding sync.Mutex // the node counts the bank's transactions one after the other
}

// StartTempo starts a chain. The caller must end it with Stop or Cleanup.
func StartTempo(t testing.TB) (*Tempo, error) {
	t.Helper()
	programs, err := filepath.Glob(filepath.Join(Root(), "e2e", "signers", "node_modules", "@foundry-rs", "anvil-*", "bin", "anvil*"))
	if err != nil || len(programs) != 1 {
		needed.Missing(t, "one anvil, found %q, %v: run `make e2e-deps`", programs, err)
	}
	port := Port(t)
	// Without T4 there are no expiring nonces. Without the time, blocks begin in 1970, and without blocks the
	// latest one grows old, so that no transaction is valid in a simulation. Each block is final soon, because an epoch has one slot.
	cmd := exec.Command(programs[0], "--network", "tempo", "--hardfork", "T4", "--host", "127.0.0.1", "--port", port,
		"--chain-id", strconv.Itoa(TempoChainID), "--timestamp", strconv.FormatInt(time.Now().Unix(), 10), "--block-time", "1", "--slots-in-an-epoch", "1")
	cmd.Env = Environment("RUST_LOG=off")
	node, _, err := Announced(cmd, func(line string) bool { return strings.HasPrefix(line, "Listening on ") })
	if err != nil {
		return nil, err
	}
	chain := &Tempo{Process: node, URL: "http://127.0.0.1:" + port}
	if chain.client, err = ethclient.Dial(chain.URL); err != nil {
		node.Kill()
		return nil, err
	}
	return chain, nil
}

// Fund gives an account some of the token, in its smallest unit. It returns once it is there.
func (c *Tempo) Fund(ctx context.Context, to common.Address, amount int64) error {
	if err := c.Call(ctx, "transfer(address,uint256)", to[:], big.NewInt(amount).Bytes()); err != nil {
		return fmt.Errorf("fund %s on tempo: %w", to, err)
	}
	return nil
}

// Call has an account with money call a function of the token. It returns once that is in a block.
func (c *Tempo) Call(ctx context.Context, function string, arguments ...[]byte) error {
	data := crypto.Keccak256([]byte(function))[:4]
	for _, one := range arguments {
		data = append(data, common.LeftPadBytes(one, 32)...)
	}
	var hash common.Hash
	ask := map[string]any{"from": TempoBank, "to": TempoToken, "data": hexutil.Bytes(data)}
	c.funding.Lock()
	err := c.client.Client().CallContext(ctx, &hash, "eth_sendTransaction", ask)
	c.funding.Unlock()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		var receipt *struct{ Status hexutil.Uint64 }
		err := c.client.Client().CallContext(ctx, &receipt, "eth_getTransactionReceipt", hash)
		switch {
		case err != nil:
			return err
		case receipt != nil && receipt.Status == 1:
			return nil
		case receipt != nil:
			return fmt.Errorf("%s failed", hash)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is in no block", hash), ctx.Err())
		}
	}
}

// A TempoTransfer moved the token with a memo.
type TempoTransfer struct {
	To    common.Address
	Value *big.Int
	Memo  common.Hash
	Tx    common.Hash
}

// Transfers lists the transfers with a memo from an account. They are the payments.
func (c *Tempo) Transfers(ctx context.Context, from common.Address) ([]TempoTransfer, error) {
	logs, err := c.logs(ctx, "TransferWithMemo(address,address,uint256,bytes32)", from)
	moved := []TempoTransfer{}
	for _, l := range logs {
		if len(l.Topics) == 4 {
			moved = append(moved, TempoTransfer{common.BytesToAddress(l.Topics[2][:]), new(big.Int).SetBytes(l.Data), l.Topics[3], l.TxHash})
		}
	}
	return moved, err
}

// Left adds up what has left an account, by transaction: payments with what the account has paid for their gas.
func (c *Tempo) Left(ctx context.Context, from common.Address) (map[common.Hash]*big.Int, error) {
	logs, err := c.logs(ctx, "Transfer(address,address,uint256)", from)
	left := map[common.Hash]*big.Int{}
	for _, l := range logs {
		if left[l.TxHash] == nil {
			left[l.TxHash] = new(big.Int)
		}
		left[l.TxHash].Add(left[l.TxHash], new(big.Int).SetBytes(l.Data))
	}
	return left, err
}

// logs reads the token's events of a kind whose first account is from.
func (c *Tempo) logs(ctx context.Context, event string, from common.Address) ([]types.Log, error) {
	logs, err := c.client.FilterLogs(ctx, ethereum.FilterQuery{
		FromBlock: new(big.Int), Addresses: []common.Address{common.HexToAddress(TempoToken)},
		Topics: [][]common.Hash{{crypto.Keccak256Hash([]byte(event))}, {common.BytesToHash(from[:])}},
	})
	if err != nil {
		return nil, fmt.Errorf("read the transfers of %s on tempo: %w", from, err)
	}
	return logs, nil
}

// Balance returns an account's amount of the token, in its smallest unit.
func (c *Tempo) Balance(ctx context.Context, of common.Address) (*big.Int, error) {
	token := common.HexToAddress(TempoToken)
	data := slices.Concat(crypto.Keccak256([]byte("balanceOf(address)"))[:4], common.LeftPadBytes(of[:], 32))
	word, err := c.client.CallContract(ctx, ethereum.CallMsg{To: &token, Data: data}, nil)
	if err != nil {
		return nil, fmt.Errorf("read the balance of %s on tempo: %w", of, err)
	}
	return new(big.Int).SetBytes(word), nil
}
