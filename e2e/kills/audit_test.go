package kills

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/shop"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/hostile"
)

// ruleRecorded must hold whenever purser is dead, before any recovery.
const ruleRecorded hostile.Rule = "every charge has an open record or a spend event when purser dies"

// autopsy looks at what a killed purser has left: the file must be sound, and every transfer must have its record.
func (w *world) autopsy(t *testing.T) (found []hostile.Finding) {
	t.Helper()
	ctx := shop.Bounded(t)
	moved := map[paid]int{} // before the journal is read: a payload may still be settled meanwhile
	for _, c := range shop.Everybody(w.customers) {
		from := common.Address(c.Wallet.EVM())
		transfers, err := w.Chain.Transfers(ctx, &from, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range transfers {
			moved[paid{one.From, one.Value.String()}]++
		}
	}
	for _, row := range shop.FileJournal(t, w.purser.File()) {
		if row.State != pay.Void {
			moved[paid{common.Address(row.Authorization.From.EVM()), row.Terms.Amount.String()}]--
		}
	}
	for what, missing := range moved {
		if missing > 0 {
			found = append(found, hostile.Finding{Rule: ruleRecorded, Detail: fmt.Sprintf("%d of %s by %s have none", missing, what.amount, what.from)})
		}
	}
	return found
}

// paid is a transfer as far as the journal knows it before it is settled.
type paid struct {
	from   common.Address
	amount string
}

// figures counts the findings of an audit.
type figures struct {
	payments, transfers int
	doubles, lost       int
}

// audit lets recovery come to its end and compares the books with the chain. purser is stopped after it.
func (w *world) audit(t *testing.T) (n figures, found []hostile.Finding) {
	t.Helper()
	w.Clock.Until(t, 5*time.Minute, func() string {
		for _, c := range shop.Everybody(w.customers) {
			books, err := hostile.ReadBooks(shop.Bounded(t), c)
			if err != nil {
				t.Fatal(err)
			}
			if open := shop.Open(books); open != "" {
				return open
			}
		}
		return ""
	})
	for _, c := range shop.Everybody(w.customers) {
		books, ledger, err := process.ReadAccount(shop.Bounded(t), c, w.Chain)
		if err != nil {
			t.Fatal(err)
		}
		n.payments += len(books.Payments)
		n.transfers += len(ledger.Transfers)
		for _, times := range ledger.PerOrder() {
			n.doubles += times - 1
		}
		here := w.Audit(books, ledger, func(order uint64) bool { return w.customers[shopperOf(order).door()] == c })
		for _, f := range here {
			if f.Rule == hostile.RuleBooked {
				n.lost++
			}
		}
		if len(here) > 0 {
			w.seen = append(w.seen, fmt.Sprintf("payments %+v\nevents %+v\ntransfers %+v", books.Payments, books.Events, ledger.Transfers))
		}
		found = append(found, here...)
	}
	w.purser.End(t)
	w.purser.Check(t)
	return n, found
}

// report fails the test for each finding, with what the last audit has read.
func (w *world) report(t *testing.T, found []hostile.Finding) {
	t.Helper()
	for _, f := range found {
		t.Error(f)
	}
	if len(found) > 0 {
		t.Log(strings.Join(w.seen, "\n"))
	}
}
