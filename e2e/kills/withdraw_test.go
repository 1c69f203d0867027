package kills

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/e2e/internal/shop"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/x402"
)

// home gets what operators withdraw.
const home = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

// withdrawing are the passes of a withdrawal, in parts that purser can be led through side by side.
func withdrawing() [][]pass {
	payer := lanes(hostile.PayerDoor)
	rest := slices.DeleteFunc(slices.Clone(payer[2]), func(p pass) bool { return p.place == failpoint.APIAnswering || p.place == failpoint.APIAnswered })
	return [][]pass{payer[0], payer[1], rest}
}

// Purser is killed at each place of a withdrawal, and the operator repeats the command. The money moves once.
func TestWithdrawalAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	for i, lane := range withdrawing() {
		t.Run(fmt.Sprintf("part %d", i+1), func(t *testing.T) {
			t.Parallel()
			withdrawThrough(t, lane)
		})
	}
}

func withdrawThrough(t *testing.T, lane []pass) {
	w := newWorld(t, unhurried, whole)
	s := shoppers()[0]
	// The first payment of a store records the chain's genesis, too.
	w.insist(context.Background(), s.door(), s.order(0), time.Now().Add(patience))
	from := w.customers[s.door()].Wallet
	w.purser.Kill()
	var found []hostile.Finding
	for i, p := range lane {
		if !w.purser.start(t, p.String()) {
			t.Fatalf("%v: purser died before it was asked for anything", p)
		}
		amount := money.New(uint64(100 + i))
		said, _ := w.withdraw(t, from, amount)
		if !w.purser.dies(t, 20*time.Second) {
			t.Fatalf("%v was not reached: %s", p, said)
		}
		found = append(found, w.autopsy(t)...)
		if !w.purser.start(t, "") {
			t.Fatalf("%v: purser died afterwards", p)
		}
		said, err := w.withdraw(t, from, amount)
		var got adminapi.Withdrawn
		if err == nil {
			err = json.Unmarshal([]byte(said), &got)
		}
		if err != nil || got.State != pay.Settled || got.Amount != amount.String() {
			t.Errorf("%v: the repeat got %s (%v)", p, said, err)
		}
		w.purser.Kill()
	}
	if !w.purser.start(t, "") {
		t.Fatal("purser died at the end")
	}
	w.withdrawnOnce(t, from, len(lane))
	w.purser.End(t)
	w.purser.Check(t)
	w.report(t, append(found, w.autopsy(t)...))
}

func (w *world) withdraw(t *testing.T, from x402.Address, amount money.Amount) (said string, err error) {
	t.Helper()
	return w.purser.Command(t, "wallets", "withdraw", from.String(), "--to", home, "--amount", amount.Format(6), "--yes", "--json", "--admin", w.purser.Admin())
}

// withdrawnOnce compares what has come home with the books: one transfer, one settled payment and one spend event each.
func (w *world) withdrawnOnce(t *testing.T, from x402.Address, orders int) {
	t.Helper()
	to := common.HexToAddress(home)
	transfers, err := w.Chain.Transfers(shop.Bounded(t), new(common.Address(from.EVM())), &to, 0)
	if err != nil {
		t.Fatal(err)
	}
	moved := map[string]int{}
	for _, one := range transfers {
		moved[one.Value.String()]++
	}
	said, err := w.purser.Command(t, "spend", "--host", "withdrawal", "--json", "--admin", w.purser.Admin())
	var books struct{ Spend []adminapi.SpendEvent }
	if err == nil {
		err = json.Unmarshal([]byte(said), &books)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for _, e := range books.Spend {
		if moved[e.Amount] != 1 || e.RequestURL != "withdraw:"+home {
			t.Errorf("%+v moved %d times", e, moved[e.Amount])
		}
	}
	if len(transfers) != orders || len(books.Spend) != orders {
		t.Errorf("%d orders, %d transfers, %d spend events", orders, len(transfers), len(books.Spend))
	}
}
