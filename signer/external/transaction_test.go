package external_test

import (
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/signer/external"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// A signer outside signs transactions, and gives them as text or in an object. Any other transaction than
// the one asked for is an error.
func TestSignsTransactions(t *testing.T) {
	t.Parallel()
	key, other := newStub(t, 1).keys[0], newStub(t, 1).keys[0]
	address := addressOf(key)
	w := pay.Wallet{ID: "1", ProviderID: "external_" + address.String(), Network: "base", Address: &address}
	tx := treasury.Transaction{ChainID: 8453, From: address, To: x402.EVMAddress([20]byte{1}), Data: []byte{7}, TransactionTerms: pay.TransactionTerms{
		Nonce: 3, Gas: 75_000, MaxFee: money.New(22), Tip: money.New(2),
	}}
	for name, c := range map[string]struct {
		change func(*types.DynamicFeeTx)
		answer func(raw []byte) any
		want   string // "": it is signed
	}{
		"text":           {},
		"an object":      {answer: func(raw []byte) any { return map[string]any{"raw": hexutil.Encode(raw), "tx": map[string]any{}} }},
		"another nonce":  {change: func(tx *types.DynamicFeeTx) { tx.Nonce++ }, want: "gave a wrong transaction"},
		"higher fees":    {change: func(tx *types.DynamicFeeTx) { tx.GasFeeCap = big.NewInt(23) }, want: "gave a wrong transaction"},
		"with value":     {change: func(tx *types.DynamicFeeTx) { tx.Value = big.NewInt(1) }, want: "gave a wrong transaction"},
		"another chain":  {change: func(tx *types.DynamicFeeTx) { tx.ChainID = big.NewInt(1) }, want: "gave a wrong transaction"},
		"a longer one":   {answer: func(raw []byte) any { return hexutil.Encode(append(raw, 0)) }, want: "gave a wrong transaction"},
		"an old form":    {answer: func(raw []byte) any { return hexutil.Encode(raw[1:]) }, want: "gave a wrong transaction"},
		"no hexadecimal": {answer: func([]byte) any { return "0xzz" }, want: "something else than a transaction"},
		"a number":       {answer: func([]byte) any { return 7 }, want: "something else than a transaction"},
		"nothing":        {answer: func([]byte) any { return "0x" }, want: "gave a wrong transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				var asked struct {
					Method string
					Params []struct {
						Type, From, To, Data                                    string
						ChainID, Nonce, Gas, MaxFeePerGas, MaxPriorityFeePerGas *hexutil.Big
					}
				}
				if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Method != "eth_signTransaction" || len(asked.Params) != 1 {
					t.Errorf("%+v, %v", asked, err)
				}
				p := asked.Params[0]
				to := common.HexToAddress(p.To)
				made := &types.DynamicFeeTx{
					ChainID: p.ChainID.ToInt(), Nonce: p.Nonce.ToInt().Uint64(), Gas: p.Gas.ToInt().Uint64(), GasFeeCap: p.MaxFeePerGas.ToInt(),
					GasTipCap: p.MaxPriorityFeePerGas.ToInt(), To: &to, Data: hexutil.MustDecode(p.Data),
				}
				if c.change != nil {
					c.change(made)
				}
				signed := types.MustSignNewTx(key, types.LatestSignerForChainID(made.ChainID), made)
				raw, err := signed.MarshalBinary()
				if err != nil {
					t.Error(err)
				}
				var result any = hexutil.Encode(raw)
				if c.answer != nil {
					result = c.answer(raw)
				}
				_ = json.NewEncoder(rw).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "result": result})
			}))
			defer server.Close()
			s, err := external.New(external.Options{URL: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			got, err := s.SignTransaction(t.Context(), w, tx)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || pay.Code(err) != pay.CodeSigner {
					t.Errorf("signed %+v, %v", got, err)
				}
				return
			}
			if err != nil || got.Hash != crypto.Keccak256Hash(got.Raw).Hex() {
				t.Errorf("signed %+v, %v", got, err)
			}
		})
	}
	stranger := w
	elsewhere := addressOf(other)
	stranger.Address = &elsewhere
	world := newWorld(t, newStub(t, 1))
	if _, err := world.signer.SignTransaction(t.Context(), stranger, tx); pay.Code(err) != pay.CodeSigner {
		t.Errorf("of another account: %v", err)
	}
}
