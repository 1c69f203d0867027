package chain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// answering is an RPC with given answers: results, or a refusal.
func answering(t *testing.T, answers map[string]any) *chain.Client {
	t.Helper()
	n := onBase()
	n.broken = answers
	return connect(t, n, chain.Options{})
}

func TestAccountState(t *testing.T) {
	t.Parallel()
	c := answering(t, map[string]any{"eth_getBalance": "0xde0b6b3a7640000", "eth_getTransactionCount": "0x7"})
	got, err := c.AccountState(t.Context(), base, payer)
	if want := (treasury.AccountState{Coins: money.New(1e18), Mined: 7, Sent: 7}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for name, answers := range map[string]map[string]any{
		"no balance":   {"eth_getBalance": nil, "eth_getTransactionCount": "0x7"},
		"no count":     {"eth_getBalance": "0x1", "eth_getTransactionCount": nil},
		"negative":     {"eth_getBalance": "0x-1", "eth_getTransactionCount": "0x7"},
		"too large":    {"eth_getBalance": "0x1" + strings.Repeat("0", 64), "eth_getTransactionCount": "0x7"},
		"decimal":      {"eth_getBalance": "100", "eth_getTransactionCount": "0x7"},
		"refused":      {"eth_getBalance": refusal{-32000, "no"}, "eth_getTransactionCount": "0x7"},
		"an odd count": {"eth_getBalance": "0x1", "eth_getTransactionCount": 7},
	} {
		if got, err := answering(t, answers).AccountState(t.Context(), base, payer); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestFees(t *testing.T) {
	t.Parallel()
	history := map[string]any{"baseFeePerGas": []string{"0x5", "0x6"}, "reward": [][]string{{"0x2"}, {"0x3"}}}
	for name, c := range map[string]struct {
		history, tip any
		want         treasury.Fees
	}{
		"advice":      {history, "0x9", treasury.Fees{Base: money.New(6), Tip: money.New(9)}},
		"no advice":   {history, refusal{-32601, "no such method"}, treasury.Fees{Base: money.New(6), Tip: money.New(3)}},
		"null advice": {history, nil, treasury.Fees{Base: money.New(6), Tip: money.New(3)}},
		"no base fee": {map[string]any{}, "0x9", treasury.Fees{}},
		"no history":  {refusal{-32601, "no such method"}, "0x9", treasury.Fees{}},
	} {
		got, err := answering(t, map[string]any{"eth_feeHistory": c.history, "eth_maxPriorityFeePerGas": c.tip}).Fees(t.Context(), base)
		if got != c.want || (err == nil) != (c.want != treasury.Fees{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestEstimateGas(t *testing.T) {
	t.Parallel()
	call := treasury.Transaction{From: payer, To: usdc.Address, Data: []byte{1}}
	for name, c := range map[string]struct {
		answer  any
		gas     uint64
		reverts bool
	}{
		"gas":     {"0xea60", 60_000, false},
		"none":    {nil, 0, false},
		"zero":    {"0x0", 0, false},
		"reverts": {refusal{3, "execution reverted: FiatTokenV2: authorization is used or canceled"}, 0, true},
		"busy":    {refusal{-32005, "too many requests"}, 0, false},
	} {
		got, err := answering(t, map[string]any{"eth_estimateGas": c.answer}).EstimateGas(t.Context(), base, call)
		if _, reverts := errors.AsType[*treasury.RevertError](err); got != c.gas || reverts != c.reverts || (err == nil) != (c.gas > 0) {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}

func TestDataFee(t *testing.T) {
	t.Parallel()
	var call treasury.Transaction
	for answer, want := range map[string]string{"0x": "0", "0x" + strings.Repeat("0", 62) + "ff": "255", "0x12": ""} {
		got, err := answering(t, map[string]any{"eth_call": answer}).DataFee(t.Context(), base, call)
		if want == "" && err == nil || want != "" && (err != nil || got.String() != want) {
			t.Errorf("%s: %s, %v", answer, got, err)
		}
	}
	polygon, _ := x402.NetworkByWire("polygon")
	if got, err := answering(t, map[string]any{"eth_call": refusal{-32000, "no"}}).DataFee(t.Context(), polygon, call); err != nil || !got.IsZero() {
		t.Errorf("polygon: %s, %v", got, err)
	}
}

func TestSend(t *testing.T) {
	t.Parallel()
	signed := treasury.SignedTransaction{Raw: []byte{2, 1}, Hash: hash(7)}
	known := map[string]string{"hash": hash(7)}
	for name, c := range map[string]struct {
		send, known any
		rejected    bool
		fails       bool
	}{
		"taken":               {hash(7), nil, false, false},
		"another hash":        {hash(8), nil, false, true},
		"known already":       {refusal{-32000, "already known"}, known, false, false},
		"in a block already":  {refusal{-32000, "nonce too low"}, known, false, false},
		"refused":             {refusal{-32000, "insufficient funds"}, nil, true, true},
		"refused, no lookup":  {refusal{-32000, "insufficient funds"}, refusal{-32601, "no such method"}, true, true},
		"something else":      {7, nil, false, true},
		"refused, other hash": {refusal{-32000, "nonce too low"}, map[string]string{"hash": hash(9)}, true, true},
	} {
		err := answering(t, map[string]any{"eth_sendRawTransaction": c.send, "eth_getTransactionByHash": c.known}).Send(t.Context(), base, signed)
		if _, rejected := errors.AsType[*treasury.RejectedError](err); rejected != c.rejected || (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMined(t *testing.T) {
	t.Parallel()
	receipt := func(status string, more ...string) map[string]any {
		r := map[string]any{"transactionHash": hash(7), "status": status, "gasUsed": "0x64", "effectiveGasPrice": "0x3"}
		for i := 0; i < len(more); i += 2 {
			if r[more[i]] = more[i+1]; more[i+1] == "" {
				delete(r, more[i])
			}
		}
		return r
	}
	for name, c := range map[string]struct {
		answer any
		want   *treasury.MinedTransaction
		fails  bool
	}{
		"done":            {receipt("0x1"), &treasury.MinedTransaction{OK: true, Cost: money.New(300)}, false},
		"with data":       {receipt("0x1", "l1Fee", "0x5"), &treasury.MinedTransaction{OK: true, Cost: money.New(305)}, false},
		"failed":          {receipt("0x0"), &treasury.MinedTransaction{Cost: money.New(300)}, false},
		"in no block":     {nil, nil, false},
		"another's":       {receipt("0x1", "transactionHash", hash(8)), nil, true},
		"without status":  {receipt("0x1", "status", ""), nil, true},
		"without a price": {receipt("0x1", "effectiveGasPrice", ""), nil, true},
		"refused":         {refusal{-32000, "no"}, nil, true},
	} {
		got, err := answering(t, map[string]any{"eth_getTransactionReceipt": c.answer}).Mined(t.Context(), base, hash(7))
		if (err != nil) != c.fails || (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
