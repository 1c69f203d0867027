package treasury_test

import (
	"bytes"
	"crypto/ecdsa"
	"math/big"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"pgregory.net/rapid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

func drawTransaction(t *rapid.T, from x402.Address) treasury.Transaction {
	amount := func(label string) money.Amount {
		a, _ := money.FromBig(new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, label)))
		return a
	}
	return treasury.Transaction{
		ChainID: rapid.Uint64Min(1).Draw(t, "chain"), From: from, To: x402.EVMAddress([20]byte(rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "to"))),
		// The lengths at which RLP changes its form are among them.
		Data: slices.Concat(rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(t, "data"), make([]byte, rapid.SampledFrom([]int{0, 1, 53, 54, 55, 253, 254, 255, 70_000}).Draw(t, "more"))),
		TransactionTerms: pay.TransactionTerms{
			Nonce: rapid.Uint64().Draw(t, "nonce"), Gas: rapid.Uint64().Draw(t, "gas"), MaxFee: amount("fee"), Tip: amount("tip"),
		},
	}
}

// signByLibrary builds and signs the transaction by go-ethereum's code.
func signByLibrary(t *rapid.T, tx treasury.Transaction, key *ecdsa.PrivateKey) *types.Transaction {
	to := common.Address(tx.To.EVM())
	chain := new(big.Int).SetUint64(tx.ChainID)
	signed, err := types.SignNewTx(key, types.LatestSignerForChainID(chain), &types.DynamicFeeTx{
		ChainID: chain, Nonce: tx.Nonce, GasTipCap: tx.Tip.Big(), GasFeeCap: tx.MaxFee.Big(), Gas: tx.Gas, To: &to, Data: tx.Data,
	})
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// A signer's transaction is taken if it has the bytes of the one that was asked for, and no others.
func TestAdoptsOnlyWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	from := x402.EVMAddress(crypto.PubkeyToAddress(key.PublicKey))
	rapid.Check(t, func(t *rapid.T) {
		tx := drawTransaction(t, from)
		signed := signByLibrary(t, tx, key)
		raw, err := signed.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		got, err := tx.Adopt(raw)
		if err != nil || !bytes.Equal(got.Raw, raw) || got.Hash != signed.Hash().Hex() {
			t.Fatalf("%x as %s, %v; want %x as %s", got.Raw, got.Hash, err, raw, signed.Hash())
		}
		spoilt := slices.Clone(raw)
		switch i := rapid.IntRange(0, len(raw)-1).Draw(t, "at"); rapid.IntRange(0, 3).Draw(t, "spoilt") {
		case 0:
			spoilt[i] ^= rapid.ByteMin(1).Draw(t, "bits")
		case 1:
			spoilt = spoilt[:i]
		case 2:
			spoilt = slices.Insert(spoilt, i, rapid.Byte().Draw(t, "byte"))
		case 3: // the end, where the signature is
			spoilt[len(raw)-1-i%68] = rapid.Byte().Draw(t, "byte")
		}
		if got, err := tx.Adopt(spoilt); err == nil && !bytes.Equal(spoilt, raw) {
			t.Fatalf("%x was taken for %x", spoilt, got.Raw)
		}
		other := drawTransaction(t, from)
		if got, err := other.Adopt(raw); err == nil && !bytes.Equal(got.Raw, raw) {
			t.Fatalf("%x was taken for another transaction", raw)
		}
	})
}
