package chain

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

var (
	_ pay.Codes = (*Client)(nil)
	_ pay.Codes = Networks(nil)
)

const (
	selectorValidSignature = "1626ba7e"     // isValidSignature(bytes32,bytes), which also is its answer
	delegation             = "0xef0100"     // begins the code of a wallet that has delegated (EIP-7702)
	delegationLength       = 2 + 2*(3+20)   // of it with an address, as text
	signatureWords         = "%064x%064x%s" // offset and length of the signature, and itself padded
)

// Code tells of a wallet's code at the latest block, and what that says of a plain signature.
func (c *Client) Code(
	ctx context.Context, _ x402.Network, a x402.Asset, owner x402.Address, sign func(context.Context) ([32]byte, x402.Signature, error),
) (pay.WalletCode, error) {
	var code string
	err := c.call(ctx, &code, "eth_getCode", owner.String(), atLatest)
	if unknown, is := errors.AsType[*rpcError](err); is && unknown.code == unknownMethod {
		return pay.WalletCode{}, nil
	}
	if err != nil {
		return pay.WalletCode{}, fmt.Errorf("code of %s: %w", owner, err)
	}
	code = strings.ToLower(code)
	switch {
	case code == "0x":
		return pay.WalletCode{}, nil
	case !strings.HasPrefix(code, "0x"):
		return pay.WalletCode{}, errors.New("RPC eth_getCode: the answer is not code")
	}
	of := pay.WalletCode{Kind: "the code of a contract"}
	if strings.HasPrefix(code, delegation) && len(code) == delegationLength {
		of.Kind = "a delegation to 0x" + code[len(delegation):] + " (EIP-7702)"
	}
	digest, sig, err := sign(ctx)
	if err != nil {
		return pay.WalletCode{}, err
	}
	of.Accepts, err = c.accepts(ctx, a.Address, owner, digest, sig)
	return of, err
}

// accepts asks a wallet's code whether a signature is the wallet's, as the token would. A call that fails in
// the code, or answers something else, is a no.
func (c *Client) accepts(ctx context.Context, token, wallet x402.Address, digest [32]byte, sig x402.Signature) (bool, error) {
	raw := hex.EncodeToString(sig[:])
	raw += strings.Repeat("0", (64-len(raw)%64)%64)
	data := "0x" + selectorValidSignature + hex.EncodeToString(digest[:]) + fmt.Sprintf(signatureWords, 64, len(sig), raw)
	var answer string
	err := c.call(ctx, &answer, "eth_call", map[string]string{"from": token.String(), "to": wallet.String(), "data": data}, atLatest)
	if refused, is := errors.AsType[*rpcError](err); is && failedInCode(refused) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("signatures of %s: %w", wallet, err)
	}
	return strings.HasPrefix(strings.ToLower(answer), "0x"+selectorValidSignature), nil
}

// Codes of RPCs: for a call that reverts, for one that fails in the code (those that follow Parity), and for a method
// that they do not have.
const (
	revertedCode  = 3
	failedCode    = -32015
	unknownMethod = -32601
)

// failedInCode reports whether an RPC says that a call has failed in the code that was called.
func failedInCode(err *rpcError) bool {
	text := strings.ToLower(err.message)
	return err.code == revertedCode || err.code == failedCode || slices.ContainsFunc(
		[]string{"revert", "opcode", "out of gas", "invalid jump", "stack underflow", "vm exception"},
		func(word string) bool { return strings.Contains(text, word) })
}

// Code is Client.Code of the network's RPC.
func (all Networks) Code(
	ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address, sign func(context.Context) ([32]byte, x402.Signature, error),
) (pay.WalletCode, error) {
	return of(all, n, func(c Reader) (pay.WalletCode, error) { return c.Code(ctx, n, a, owner, sign) })
}
