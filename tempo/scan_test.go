package tempo_test

import (
	"slices"
	"testing"
	"time"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/tempo"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// A transaction is one payment of all that it has moved. Without a memo purser did not make it.
func TestUsed(t *testing.T) {
	t.Parallel()
	q, logs := paid(t)
	final := at(time.Minute)
	n := &node{t: t, final: final, head: final, used: at(3 * time.Second), receipt: logs, most: 500}
	c := n.open()
	safe, err := c.Safe(t.Context(), q.Network)
	if err != nil {
		t.Fatal(err)
	}
	ask := pay.UsedQuery{Network: q.Network, Asset: q.Asset, Wallets: []x402.Address{q.Authorization.From}, From: 1, To: final, Safe: safe, Known: &safe}
	var used, strange []pay.UsedAuthorization
	for ask.From <= final {
		a, err := c.Used(t.Context(), ask)
		if err != nil || a.Chain.ChainID != 4217 {
			t.Fatalf("%+v, %v", a, err)
		}
		used, strange = append(used, a.Used...), append(strange, a.Unexplained...)
		ask.From, ask.Size = a.Through+1, a.Size
	}
	if len(used) != 1 || len(strange) != 0 || used[0].Nonce != q.Authorization.Nonce || used[0].Value != money.New(10_052) || used[0].Fee != money.New(52) || used[0].To != q.Authorization.To ||
		used[0].Rail != tempo.Number || !used[0].Matched || used[0].Block.Number != n.used || used[0].Transaction != tx {
		t.Errorf("%+v, %+v", used, strange)
	}
	nothing := logs[1]
	nothing.amount, nothing.topics = 0, slices.Concat(logs[1].topics[:3], []string{tx}) // of a stranger
	n.receipt = append([]entry{nothing}, logs...)
	ask.From, ask.Size = n.used, 0
	if a, err := c.Used(t.Context(), ask); err != nil || len(a.Used) != 1 || a.Used[0].Nonce != q.Authorization.Nonce {
		t.Errorf("behind a transfer of nothing: %+v, %v", a, err)
	}
	n.receipt = []entry{nothing}
	if a, err := c.Used(t.Context(), ask); err != nil || len(a.Used)+len(a.Unexplained) != 0 {
		t.Errorf("a transfer of nothing: %+v, %v", a, err)
	}
	n.receipt = logs[:1]
	ask.From, ask.Size = n.used, 0
	if a, err := c.Used(t.Context(), ask); err != nil || len(a.Used) != 0 || len(a.Unexplained) != 1 || a.Unexplained[0].Value != money.New(9_600) {
		t.Errorf("without a memo: %+v, %v", a, err)
	}
	ask.To = final + 1
	if a, err := c.Used(t.Context(), ask); err == nil {
		t.Errorf("blocks that are not final: %+v", a)
	}
	n.receipt = []entry{{q.Asset.Address, []string{chain.TopicTransfer, chain.AddressTopic(q.Authorization.To), chain.AddressTopic(q.Authorization.From)}, 1}}
	ask.To = final
	if a, err := c.Used(t.Context(), ask); err == nil {
		t.Errorf("another wallet's: %+v", a)
	}
}

// The transfers of a payment and its fee are one, as the books have them.
func TestTransfers(t *testing.T) {
	t.Parallel()
	q, logs := paid(t)
	final := at(time.Minute)
	n := &node{t: t, final: final, head: final, used: at(3 * time.Second), receipt: append(logs[:1:1], logs[2:]...), outgoing: true}
	a, err := n.open().Transfers(t.Context(), treasury.TransfersQuery{
		Network: q.Network, Asset: q.Asset, Wallets: []x402.Address{q.Authorization.From}, From: n.used, To: n.used,
	})
	if err != nil || len(a.Transfers) != 1 || a.Transfers[0].Value != money.New(9_600) || a.Transfers[0].Left() != money.New(10_052) || a.Transfers[0].To != q.Authorization.To {
		t.Errorf("%+v, %v", a, err)
	}
	other, err := chain.TopicAddress(logs[2].topics[2])
	if err != nil {
		t.Fatal(err)
	}
	for _, payee := range []x402.Address{q.Authorization.To, other} { // another wallet of ours
		a, err := n.open().Transfers(t.Context(), treasury.TransfersQuery{
			Network: q.Network, Asset: q.Asset, Wallets: []x402.Address{q.Authorization.From, payee}, From: n.used, To: n.used,
		})
		left, got := money.Amount{}, money.Amount{}
		for _, one := range a.Transfers {
			left = left.AddSaturated(one.Left())
			if one.To == payee {
				got = one.Value
			}
		}
		if want := map[bool]uint64{true: 9_600, false: 400}[payee == q.Authorization.To]; err != nil || left != money.New(10_052) || got != money.New(want) {
			t.Errorf("to the wallet %s: %+v, %v", payee, a, err)
		}
	}
}

func TestTokensThatAreMissing(t *testing.T) {
	t.Parallel()
	q, _ := paid(t)
	c := (&node{t: t, final: at(0), head: at(0), noTokens: true}).open()
	if id, err := c.Identify(t.Context(), q.Network, q.Asset); err != nil || id.ChainID != 4217 {
		t.Errorf("%+v, %v", id, err)
	}
	if have, err := c.Balance(t.Context(), q.Network, q.Asset, q.Authorization.From); err != nil || !have.IsZero() {
		t.Errorf("%s, %v", have, err)
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	n := &node{t: t, final: at(0), head: at(0)}
	c := n.open()
	if base, tip, err := c.Price(t.Context()); err != nil || base != money.New(1_000_000_000) || !tip.IsZero() {
		t.Errorf("%s %s, %v", base, tip, err)
	}
	if gas, err := c.Gas(t.Context(), x402.Address{}, make([]tempo.Call, 2)); err != nil || gas != 1_600_000 {
		t.Errorf("%d, %v", gas, err)
	}
	if gas, err := c.Gas(t.Context(), x402.Address{}, make([]tempo.Call, 11)); err != nil || gas != 2_000_000 {
		t.Errorf("%d, %v", gas, err)
	}
	token := tempo.Network().Assets[0].Address
	n.has = 50_006
	move := func(amount uint64) []tempo.Call {
		return []tempo.Call{tempo.Transfer{To: token, Amount: money.New(amount)}.Call(token)}
	}
	if gas, err := c.Gas(t.Context(), x402.Address{}, move(7)); err != nil || gas != 800_000 { // it lacks the gas
		t.Errorf("%d, %v", gas, err)
	}
	if gas, err := c.Gas(t.Context(), x402.Address{}, move(6)); err == nil {
		t.Errorf("it would fail, and takes %d", gas)
	}
	n.gas = 300_000
	if gas, err := c.Gas(t.Context(), x402.Address{}, make([]tempo.Call, 2)); err != nil || gas != 305_000 {
		t.Errorf("%d, %v", gas, err)
	}
	if err := c.Submit(t.Context(), "0x76"); err == nil {
		t.Error("sent")
	}
}
