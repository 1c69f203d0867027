package evm

import (
	"context"
	"errors"
	"math/big"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
)

// unknownReason replaces the text of a revert without a known reason.
const unknownReason = "execution reverted"

// asRevert turns the error of a refused eth_call into a *RevertError. It leaves other errors
// unchanged.
func asRevert(err error) error {
	var answer rpc.DataError
	if !errors.As(err, &answer) {
		return err
	}
	text, isText := answer.ErrorData().(string)
	data, decodeErr := hexutil.Decode(text)
	if !isText || decodeErr != nil {
		return err
	}
	reason, unpackErr := abi.UnpackRevert(data)
	if unpackErr != nil {
		reason = unknownReason // a revert without the Error(string) envelope
	}
	return &RevertError{Reason: reason}
}

// revertReason finds out why a mined transaction of the operator reverted. Receipts do not say. It
// repeats the call on the state after the block, which fails in the same way unless a later
// transaction of the block changed that.
func (c *Chain) revertReason(ctx context.Context, receipt *types.Receipt, to common.Address, value *big.Int, data []byte) string {
	msg := ethereum.CallMsg{From: c.op.address, To: &to, Value: value, Data: data}
	_, err := c.client.CallContract(ctx, msg, receipt.BlockNumber)
	var revert *RevertError
	if errors.As(asRevert(err), &revert) {
		return revert.Reason
	}
	return unknownReason
}
