package treasury

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/purserpay/purser/internal/rlp"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Transaction is a transaction by which a wallet calls a contract. It moves no ether, and the wallet
// pays its gas. Its form on the wire is EIP-1559's.
type Transaction struct {
	ChainID uint64
	From    x402.Address
	To      x402.Address // the contract
	Data    []byte       // of the call
	pay.TransactionTerms
}

// SignedTransaction is ready to be sent.
type SignedTransaction struct {
	Raw  []byte
	Hash string // 0x + 64 hex, lower case
}

// dynamicFee begins the encoding of a transaction of EIP-1559.
const dynamicFee = 2

// fields returns what is encoded, in the order of EIP-1559, without the list around it.
func (t Transaction) fields() []byte {
	const noValue = 0
	return slices.Concat(
		rlp.Uint(t.ChainID), rlp.Uint(t.Nonce), rlp.Amount(t.Tip), rlp.Amount(t.MaxFee), rlp.Uint(t.Gas),
		rlp.String(t.To.Bytes()), rlp.Uint(noValue), rlp.String(t.Data), rlp.List(),
	)
}

// Encode returns the unsigned transaction.
func (t Transaction) Encode() []byte { return append([]byte{dynamicFee}, rlp.List(t.fields())...) }

// Digest returns the hash that gets signed.
func (t Transaction) Digest() [32]byte { return [32]byte(x402.Keccak256(t.Encode())) }

// Signed adds a signature of the Digest. It fails for one that is not by From.
func (t Transaction) Signed(s x402.Signature) (SignedTransaction, error) {
	switch from, err := x402.Recover(t.Digest(), s); {
	case err != nil:
		return SignedTransaction{}, err
	case from != t.From:
		return SignedTransaction{}, fmt.Errorf("the transaction is signed by %s instead of %s", from, t.From)
	}
	raw := append([]byte{dynamicFee}, rlp.List(t.fields(), rlp.Number([]byte{s[64] - 27}), rlp.Number(s[:32]), rlp.Number(s[32:64]))...)
	return SignedTransaction{Raw: raw, Hash: "0x" + hex.EncodeToString(x402.Keccak256(raw))}, nil
}

// Adopt checks that raw is this transaction, signed by From, and returns it. It is for signers that give
// whole transactions.
func (t Transaction) Adopt(raw []byte) (SignedTransaction, error) {
	if len(raw) == 0 || raw[0] != dynamicFee {
		return SignedTransaction{}, errors.New("it is no transaction of EIP-1559")
	}
	different := errors.New("it is another transaction than was asked for")
	_, end, same := bytes.Cut(raw, t.fields())
	if !same {
		return SignedTransaction{}, different
	}
	var s x402.Signature
	for _, number := range [][]byte{s[64:], s[:32], s[32:64]} {
		if end, same = rlp.ReadNumber(number, end); !same {
			return SignedTransaction{}, errors.New("it is not signed")
		}
	}
	s[64] += 27
	signed, err := t.Signed(s)
	if err == nil && !bytes.Equal(signed.Raw, raw) {
		err = different
	}
	if err != nil {
		return SignedTransaction{}, err
	}
	return signed, nil
}

// TransactionSigning is a further method of a [pay.Wallets] that signs transactions of its wallets. An
// error from outside this process is a [*pay.SignerError].
type TransactionSigning interface {
	SignTransaction(ctx context.Context, w pay.Wallet, t Transaction) (SignedTransaction, error)
}

// TransactionChain is the part of a [pay.Chain] that transactions need. Where no RPC is configured for a
// network, the error is ErrUnwatched.
type TransactionChain interface {
	// AccountState tells what an account has for gas, and how many transactions it has made.
	AccountState(ctx context.Context, n x402.Network, owner x402.Address) (AccountState, error)
	// Fees tells what a transaction of the next block pays for a unit of gas.
	Fees(ctx context.Context, n x402.Network) (Fees, error)
	// EstimateGas returns the gas that a call takes, whatever the account has: *RevertError if it
	// would fail.
	EstimateGas(ctx context.Context, n x402.Network, t Transaction) (uint64, error)
	// DataFee returns what a transaction pays for its data beside the gas, in wei.
	DataFee(ctx context.Context, n x402.Network, t Transaction) (money.Amount, error)
	// Send gives a transaction to the chain; to send it again is harmless. *RejectedError if the RPC
	// does not take it. After any other error the chain may have it.
	Send(ctx context.Context, n x402.Network, s SignedTransaction) error
	// Mined finds a transaction in a block; nil: it is in none.
	Mined(ctx context.Context, n x402.Network, hash string) (*MinedTransaction, error)
}

// AccountState holds what an RPC tells of an account.
type AccountState struct {
	Coins money.Amount // in wei
	// Mined counts its transactions in blocks: the next one has this nonce. Sent also counts those that
	// wait for one.
	Mined, Sent uint64
}

// Fees holds the prices of a unit of gas, in wei.
type Fees struct {
	Base money.Amount // burned, in the next block
	Tip  money.Amount // for the producer of the block
}

// now returns the present price.
func (f Fees) now() money.Amount { return f.Base.AddSaturated(f.Tip) }

// most returns a price that suffices for some minutes: the base fee may double.
func (f Fees) most() money.Amount { return f.now().AddSaturated(f.Base) }

// MinedTransaction says what became of a transaction in a block.
type MinedTransaction struct {
	OK   bool         // it did not fail
	Cost money.Amount // what it has paid for gas and data, in wei
}

// RevertError: a call would fail in its contract.
type RevertError struct{ Reason string }

func (e *RevertError) Error() string          { return "the contract refuses the call: " + e.Reason }
func (*RevertError) ErrorCode() pay.ErrorCode { return pay.CodeReverts }

// RejectedError: an RPC has not taken a transaction.
type RejectedError struct{ Reason string }

func (e *RejectedError) Error() string          { return "the RPC does not take the transaction: " + e.Reason }
func (*RejectedError) ErrorCode() pay.ErrorCode { return pay.CodeRejected }

// GasError: a wallet cannot pay the gas of a transaction. Amounts are in wei.
type GasError struct {
	Wallet     x402.Address
	Network    x402.Network
	Need, Have money.Amount
}

func (e *GasError) Error() string {
	coins := func(a money.Amount) string { return FormatCoins(a, e.Network) }
	return fmt.Sprintf("the wallet %s needs up to %s on %s for gas, and has %s: send it some %s",
		e.Wallet, coins(e.Need), e.Network.Name, coins(e.Have), e.Network.Coin)
}

func (*GasError) ErrorCode() pay.ErrorCode { return pay.CodeGas }

// FormatCoins writes an amount of wei for people.
func FormatCoins(wei money.Amount, n x402.Network) string {
	return wei.Format(coinDecimals) + " " + n.Coin
}

// coinDecimals is the number of decimals of ether and of its like on other networks.
const coinDecimals = 18
