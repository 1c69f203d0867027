package tempo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

var _ pay.Withdrawing = (*Rail)(nil)

// Transfer makes the transaction of a withdrawal. Its memo is the nonce.
func (r *Rail) Transfer(ctx context.Context, a x402.Authorization, asset x402.Asset) (x402.Authorization, error) {
	t := Transaction{ChainID: chainID, Calls: []Call{Transfer{a.To, a.Value, a.Nonce}.Call(asset.Address)}, FeeToken: asset.Address}
	fee, err := r.price(ctx, a.From, &t)
	if err != nil {
		return a, err
	}
	t.ValidBefore = uint64(r.now().Add(lasts).Unix())
	a.Value, a.ValidBefore, a.Message = a.Value.AddSaturated(fee), t.ValidBefore, hexOf(t.Unsigned())
	return a, nil
}

// Send gives a signed transaction to the RPC, which waits until a block has it. To send it again is harmless.
func (r *Rail) Send(ctx context.Context, p x402.Payload) error {
	var top struct {
		Payload struct{ Signature string }
	}
	if err := json.Unmarshal(p.JSON, &top); err != nil {
		return fmt.Errorf("read payload: %w", err)
	}
	return r.node.Submit(ctx, top.Payload.Signature)
}

// Submit gives a signed transaction to the RPC, and waits until a block has it, if the RPC can wait.
func (c *Client) Submit(ctx context.Context, signed string) error {
	b, err := parseHex(signed)
	if err != nil {
		return err
	}
	hash := Hash(b)
	var receipt *struct {
		Hash   string `json:"transactionHash"`
		Status *chain.Quantity
	}
	err = c.Call(ctx, &receipt, "eth_sendRawTransactionSync", signed)
	switch {
	case err == nil && receipt != nil && strings.EqualFold(receipt.Hash, hash):
		if receipt.Status == nil || *receipt.Status != 1 {
			return errors.New("the chain has taken the transaction, and it failed")
		}
		return nil
	case err == nil:
		return errors.New("the RPC names another transaction than was sent")
	case !chain.Refused(err):
		return err
	}
	var sent string
	return c.Call(ctx, &sent, "eth_sendRawTransaction", signed)
}
