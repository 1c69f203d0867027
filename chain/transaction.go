package chain

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

var _ treasury.TransactionChain = (*Client)(nil)

const (
	// gasPriceOracle is at the same address on each chain of the OP Stack.
	gasPriceOracle = "0x420000000000000000000000000000000000000F"
	selectorL1Fee  = "49948e0e" // getL1Fee(bytes)
	// feeBlocks is the number of blocks whose tips stand in for the RPC's advice.
	feeBlocks = 10
)

// wei is a number of up to 256 bits in the form of JSON-RPC: "0x1b4".
type wei struct{ money.Amount }

func (w *wei) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	n, valid := new(big.Int).SetString(digits, 16)
	if !ok || !valid || strings.HasPrefix(digits, "-") || strings.HasPrefix(digits, "+") {
		return errors.New("not a number in hexadecimal")
	}
	if w.Amount, ok = money.FromBig(n); !ok {
		return errors.New("a number of more than 256 bits")
	}
	return nil
}

// AccountState reads an account's balance at the latest block, and the numbers of its transactions there
// and with those that wait.
func (c *Client) AccountState(ctx context.Context, _ x402.Network, owner x402.Address) (treasury.AccountState, error) {
	var (
		coins       *wei
		mined, sent *quantity
		errs        [3]error
		all         sync.WaitGroup
	)
	all.Go(func() { errs[0] = c.call(ctx, &coins, "eth_getBalance", owner, atLatest) })
	all.Go(func() { errs[1] = c.call(ctx, &mined, "eth_getTransactionCount", owner, atLatest) })
	all.Go(func() { errs[2] = c.call(ctx, &sent, "eth_getTransactionCount", owner, "pending") })
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return treasury.AccountState{}, fmt.Errorf("account %s: %w", owner, err)
	}
	if coins == nil || mined == nil || sent == nil {
		return treasury.AccountState{}, fmt.Errorf("account %s: the RPC does not tell it", owner)
	}
	return treasury.AccountState{Coins: coins.Amount, Mined: uint64(*mined), Sent: max(uint64(*sent), uint64(*mined))}, nil
}

// Fees returns the base fee of the next block and the tip that the RPC advises. If it gives no
// advice, Fees returns the highest median tip of recent blocks.
func (c *Client) Fees(ctx context.Context, _ x402.Network) (treasury.Fees, error) {
	var history struct {
		BaseFee []wei   `json:"baseFeePerGas"`
		Reward  [][]wei `json:"reward"`
	}
	if err := c.call(ctx, &history, "eth_feeHistory", quantity(feeBlocks), atLatest, []int{50}); err != nil {
		return treasury.Fees{}, fmt.Errorf("fees: %w", err)
	}
	if len(history.BaseFee) == 0 {
		return treasury.Fees{}, errors.New("fees: RPC eth_feeHistory: it has no base fee")
	}
	fees := treasury.Fees{Base: history.BaseFee[len(history.BaseFee)-1].Amount}
	var tip *wei
	err := c.call(ctx, &tip, "eth_maxPriorityFeePerGas")
	switch _, refused := errors.AsType[*rpcError](err); {
	case err == nil && tip != nil:
		fees.Tip = tip.Amount
	case err != nil && !refused:
		return treasury.Fees{}, fmt.Errorf("fees: %w", err)
	default:
		for _, block := range history.Reward {
			for _, got := range block {
				if fees.Tip.Cmp(got.Amount) < 0 {
					fees.Tip = got.Amount
				}
			}
		}
	}
	return fees, nil
}

// EstimateGas tries a call at the latest block, without a price: the account needs no balance for
// that. A refusal of the contract is a *treasury.RevertError.
func (c *Client) EstimateGas(ctx context.Context, _ x402.Network, t treasury.Transaction) (uint64, error) {
	var gas *quantity
	err := c.call(ctx, &gas, "eth_estimateGas", map[string]string{"from": t.From.String(), "to": t.To.String(), "data": hexOf(t.Data)})
	if refused, is := errors.AsType[*rpcError](err); is && strings.Contains(strings.ToLower(refused.message), "revert") {
		return 0, &treasury.RevertError{Reason: refused.message}
	}
	if err == nil && (gas == nil || *gas == 0) {
		err = errors.New("the RPC does not tell it")
	}
	if err != nil {
		return 0, fmt.Errorf("gas of a call: %w", err)
	}
	return uint64(*gas), nil
}

// DataFee asks the network's contract for the fee. A chain without it, such as a private one, has none.
func (c *Client) DataFee(ctx context.Context, n x402.Network, t treasury.Transaction) (money.Amount, error) {
	if !n.DataFee {
		return money.Amount{}, nil
	}
	encoded := t.Encode()
	offset, length := money.New(32).Bytes32(), money.New(uint64(len(encoded))).Bytes32()
	padded := make([]byte, (len(encoded)+31)/32*32)
	copy(padded, encoded)
	data := "0x" + selectorL1Fee + hex.EncodeToString(offset[:]) + hex.EncodeToString(length[:]) + hex.EncodeToString(padded)
	var result string
	if err := c.call(ctx, &result, "eth_call", map[string]string{"to": gasPriceOracle, "data": data}, atLatest); err != nil {
		return money.Amount{}, fmt.Errorf("fee for data: %w", err)
	}
	if result == "0x" {
		return money.Amount{}, nil
	}
	word, err := x402.ParseNonce(result) // any 32 bytes
	if err != nil {
		return money.Amount{}, errors.New("fee for data: RPC eth_call: the answer is not one word")
	}
	fee, _ := money.FromBig(new(big.Int).SetBytes(word[:])) // 32 bytes always fit
	return fee, nil
}

// Send gives a transaction to the RPC. A transaction that the RPC has already counts as sent.
func (c *Client) Send(ctx context.Context, _ x402.Network, s treasury.SignedTransaction) error {
	var hash string
	err := c.call(ctx, &hash, "eth_sendRawTransaction", hexOf(s.Raw))
	if refused, is := errors.AsType[*rpcError](err); is {
		if known, asked := c.knows(ctx, s.Hash); asked == nil && known {
			return nil
		}
		return &treasury.RejectedError{Reason: refused.message}
	}
	if err == nil && !strings.EqualFold(hash, s.Hash) {
		err = errors.New("the RPC names another transaction than was sent")
	}
	if err != nil {
		return fmt.Errorf("send transaction %s: %w", s.Hash, err)
	}
	return nil
}

// knows reports whether the RPC has a transaction, in a block or not.
func (c *Client) knows(ctx context.Context, hash string) (bool, error) {
	var found *struct{ Hash string }
	err := c.call(ctx, &found, "eth_getTransactionByHash", hash)
	return found != nil && strings.EqualFold(found.Hash, hash), err
}

// Mined reads the receipt of a transaction; nil: it is in no block.
func (c *Client) Mined(ctx context.Context, _ x402.Network, hash string) (*treasury.MinedTransaction, error) {
	var receipt *struct {
		Transaction string `json:"transactionHash"`
		Status      *quantity
		GasUsed     *quantity
		Price       *wei `json:"effectiveGasPrice"`
		DataFee     *wei `json:"l1Fee"` // on chains of the OP Stack
	}
	err := c.call(ctx, &receipt, "eth_getTransactionReceipt", hash)
	if err == nil && receipt == nil {
		return nil, nil
	}
	if err == nil && (receipt.Status == nil || receipt.GasUsed == nil || receipt.Price == nil || !strings.EqualFold(receipt.Transaction, hash)) {
		err = errors.New("the RPC answered another receipt than asked for, or not all of it")
	}
	if err != nil {
		return nil, fmt.Errorf("receipt of transaction %s: %w", hash, err)
	}
	mined := &treasury.MinedTransaction{OK: *receipt.Status == 1, Cost: receipt.Price.TimesSaturated(uint64(*receipt.GasUsed))}
	if receipt.DataFee != nil {
		mined.Cost = mined.Cost.AddSaturated(receipt.DataFee.Amount)
	}
	return mined, nil
}
