package external

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
)

// SignTransaction has the wallet's account sign a transaction, which the signer does not send. The
// signer must give back this transaction, signed by the account. An error is pay.ErrNoAddress or a
// *pay.SignerError.
func (s *Signer) SignTransaction(ctx context.Context, w pay.Wallet, t treasury.Transaction) (treasury.SignedTransaction, error) {
	if err := s.remote.CheckWallet(w, pay.Message{From: t.From}); err != nil {
		return treasury.SignedTransaction{}, err
	}
	got, err := s.call(ctx, "eth_signTransaction", map[string]string{
		"type": "0x2", "chainId": quantity(t.ChainID), "from": t.From.String(), "to": t.To.String(), "nonce": quantity(t.Nonce),
		"gas": quantity(t.Gas), "maxFeePerGas": hexOf(t.MaxFee), "maxPriorityFeePerGas": hexOf(t.Tip), "value": "0x0",
		"data": "0x" + hex.EncodeToString(t.Data),
	})
	if err != nil {
		return treasury.SignedTransaction{}, err
	}
	raw, err := rawOf(got.result)
	if err != nil {
		return treasury.SignedTransaction{}, s.remote.Fault(got.Answer, pay.SignerUnreadable, "answered eth_signTransaction with something else than a transaction")
	}
	signed, err := t.Adopt(raw)
	if err != nil {
		return treasury.SignedTransaction{}, s.remote.Fault(got.Answer, pay.SignerUnreadable, "gave a wrong transaction: %s", err)
	}
	return signed, nil
}

// rawOf reads a signed transaction: as most signers give it, or in an object as go-ethereum does.
func rawOf(result json.RawMessage) ([]byte, error) {
	var text string
	if err := json.Unmarshal(result, &text); err != nil {
		var object struct{ Raw string }
		if err := json.Unmarshal(result, &object); err != nil {
			return nil, err
		}
		text = object.Raw
	}
	return hex.DecodeString(strings.TrimPrefix(text, "0x"))
}

func quantity(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }

func hexOf(a money.Amount) string { return "0x" + a.Big().Text(16) }
