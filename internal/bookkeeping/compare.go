package bookkeeping

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// runningSlack is the time before the newest safe block in which a booking may be of a later one.
const runningSlack = 2 * time.Minute

// movement names a transfer out of a wallet as the books know it.
type movement struct {
	transaction, to string
	amount          money.Amount
}

func movementOf(m treasury.Transfer, withTransaction bool) movement {
	name := movement{"", strings.ToLower(m.To.String()), m.Left()}
	if withTransaction {
		name.transaction = m.Transaction
	}
	return name
}

// Compare compares a wallet with what the chain tells of it. open are the wallet's open payments.
func (t *Tally) Compare(name WalletName, h treasury.History, open []OpenPayment) error {
	w := t.wallet(name)
	owner, err := x402.ParseAddress(name.Address)
	if err != nil {
		return fmt.Errorf("wallet %s: %w", name.Address, err)
	}
	ends, known := h.Balances[owner]
	if !known {
		return fmt.Errorf("the chain tells nothing of wallet %s", name.Address)
	}
	w.Symbol, w.Digits = h.Asset.Symbol, h.Asset.Decimals
	w.Chain = &ChainWord{Opening: h.Opening, Closing: h.Closing, Running: h.Running, Derived: h.Derived}
	w.Chain.Balance.Set(ends[1].Big())
	w.Opening, w.Deposits = &Signed{*ends[0].Big()}, &Sum{}
	var moved big.Int // by the chain
	var left []*treasury.Transfer
	for i, m := range h.Transfers {
		if m.From != owner && m.To != owner {
			continue
		}
		inside := h.Inside(m)
		if inside {
			w.Chain.Transfers++
		}
		if m.To == owner && inside {
			w.Deposits.add(m.Value.Big())
			w.deposits = append(w.deposits, m)
			moved.Add(&moved, m.Value.Big())
		}
		if m.From == owner && !m.Part {
			left = append(left, &h.Transfers[i])
			if inside {
				moved.Sub(&moved, m.Left().Big())
			}
		}
	}
	w.Closing = &Signed{}
	w.Closing.Add(&w.Opening.Int, &w.Deposits.Amount.Int)
	w.Closing.Add(&w.Closing.Int, w.Change())

	left = w.match(left)
	for _, p := range w.inOrder() {
		w.comparePayment(p, h)
	}
	for _, m := range left {
		if h.Inside(*m) {
			w.strangeTransfer(*m, open)
		}
	}
	var rest Signed // what transfers do not explain
	rest.Sub(&w.Chain.Balance.Int, &w.Opening.Int)
	if rest.Sub(&rest.Int, &moved); rest.Sign() != 0 {
		w.differ(Difference{Reason: Unexplained, Amount: rest})
	}
	w.judge()
	return nil
}

// match finds the transfers of payments: first by their transactions, then, of payments without one, by
// payee and amount. It returns the transfers that no payment has.
func (w *tally) match(list []*treasury.Transfer) (left []*treasury.Transfer) {
	for _, byTransaction := range []bool{true, false} {
		found := map[movement][]*treasury.Transfer{}
		for _, m := range list {
			name := movementOf(*m, byTransaction)
			found[name] = append(found[name], m)
		}
		taken := map[*treasury.Transfer]bool{}
		for _, p := range w.inOrder() {
			if p.transfer != nil || byTransaction == (p.Transaction == "") {
				continue
			}
			name := movement{strings.ToLower(p.Transaction), strings.ToLower(p.Other), p.Amount}
			if same := found[name]; len(same) > 0 {
				p.transfer, found[name] = same[0], same[1:]
				taken[p.transfer] = true
			}
		}
		left = slices.DeleteFunc(list, func(m *treasury.Transfer) bool { return taken[m] })
		list = left
	}
	return left
}

// inOrder lists the payments in the order of their bookings.
func (w *tally) inOrder() []*paid {
	list := make([]*paid, 0, len(w.payments))
	for _, p := range w.payments {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *paid) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return list
}

// comparePayment notes how a payment differs, if it does.
func (w *tally) comparePayment(p *paid, h treasury.History) {
	chain, ever := 0, 0
	d := Difference{At: p.At, PaymentID: p.PaymentID, Host: p.Host, Tool: policy.ToolOf(p.URL), Transaction: p.Transaction, Other: p.Other}
	if p.transfer != nil {
		ever = 1
		if d.Block, d.Transaction = p.transfer.Block, p.transfer.Transaction; h.Inside(*p.transfer) {
			chain = 1
		}
	}
	if p.in == chain {
		return
	}
	d.Amount.Mul(p.Amount.Big(), big.NewInt(int64(p.in-chain)))
	switch {
	case slices.Contains(p.Flags, "disputed") && ever == 0:
		d.Reason = Disputed
	case p.all == ever:
		d.Reason = Timing
	case ever == 1:
		d.Reason = Corrected
	case h.Running && p.At.After(h.Closing.Time.Add(-runningSlack)):
		d.Reason = Timing // its block is not safe yet
	default:
		d.Reason = Missing
	}
	w.differ(d)
}

// strangeTransfer notes a transfer that is not booked.
func (w *tally) strangeTransfer(m treasury.Transfer, open []OpenPayment) {
	d := Difference{Reason: NotBooked, Block: m.Block, Transaction: m.Transaction, Other: m.To.String()}
	d.Amount.Neg(m.Left().Big())
	for i, p := range open {
		if p.ID != "" && p.To == m.To && m.Value.Cmp(p.Amount) <= 0 && p.Amount.Cmp(m.Left()) <= 0 { // gas is no price
			d.Reason, d.PaymentID, d.Host, d.Tool = Open, p.ID, p.Host, p.Tool
			open[i].ID = "" // it moves money once
			break
		}
	}
	if d.Reason == NotBooked {
		w.strange = append(w.strange, m)
	}
	w.differ(d)
}

func (w *tally) differ(d Difference) { w.Differences = append(w.Differences, d) }

// judge sums the differences up, and shortens their list. Contradictions come first.
func (w *tally) judge() {
	w.Verdict = Equal
	for _, d := range w.Differences {
		if !d.Reason.explained() {
			w.Verdict = Differs
		} else if w.Verdict == Equal {
			w.Verdict = Explained
		}
	}
	slices.SortStableFunc(w.Differences, func(a, b Difference) int {
		return cmp.Compare(rank(a.Reason), rank(b.Reason))
	})
	if n := len(w.Differences); n > maxDifferences {
		w.Differences, w.More = w.Differences[:maxDifferences], n-maxDifferences
	}
}

func rank(r Reason) int {
	if r.explained() {
		return 1
	}
	return 0
}

// ChainBookings lists what only the chain tells of the range: deposits, and transfers that the books do not
// know. timeOf tells the time of a block.
func (t *Tally) ChainBookings(timeOf func(network string, block uint64) (time.Time, error)) (list []Booking, err error) {
	type place struct {
		network string
		block   uint64
	}
	times := map[place]time.Time{}
	for _, name := range t.Wallets() {
		w := t.wallets[name]
		add := func(kind Kind, m treasury.Transfer, amount money.Amount, other x402.Address) {
			at, known := times[place{name.Network, m.Block}]
			if !known && err == nil {
				at, err = timeOf(name.Network, m.Block)
				times[place{name.Network, m.Block}] = at
			}
			list = append(list, Booking{
				ID: fmt.Sprintf("%s.%d.%s", m.Transaction, m.Index, kind), Kind: kind, At: at, Amount: amount, Symbol: w.Symbol, Digits: w.Digits,
				Network: name.Network, Wallet: w.Address, WalletID: w.WalletID, Transaction: m.Transaction, Other: other.String(), Flags: []string{},
			})
		}
		for _, m := range w.deposits {
			add(Deposit, m, m.Value, m.From)
		}
		for _, m := range w.strange {
			add(Unbooked, m, m.Left(), m.To)
		}
	}
	slices.SortStableFunc(list, func(a, b Booking) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return list, err
}
