package hostile

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Rule is a promise that an audit checks.
type Rule string

// The rules. Some make an exception for payments that purser itself marks as unresolved.
const (
	// RuleBooked: every transfer out of the wallet belongs to exactly one settled payment, with the
	// same payee and amount.
	RuleBooked Rule = "every transfer is in the books once"
	// RuleMoved: every settled payment that is not disputed has its transfer.
	RuleMoved Rule = "every settled payment is on the chain"
	// RuleEvents: a settled payment has one spend event of its amount. A disputed one also has a
	// correction. Other payments have none.
	RuleEvents Rule = "every settled payment has one spend event"
	// RuleSum: the spend events add up to the money that left the wallet, except for unresolved
	// payments.
	RuleSum Rule = "the spend events add up to what left the wallet"
	// RuleAuthorized: money leaves the wallet only by an authorization, and the balance is the
	// rest.
	RuleAuthorized Rule = "nothing leaves the wallet without an authorization"
	// RuleOnce: an order is paid for at most as often as it was bought.
	RuleOnce Rule = "one order moves money at most once"
	// RuleClosed: recovery leaves no payment open, except unresolved ones.
	RuleClosed Rule = "nothing stays open"
	// RuleChecked: every settled payment was checked on the chain.
	RuleChecked Rule = "every settled payment is confirmed or disputed"
	// RuleEnd: the scenario ends as its table entry says.
	RuleEnd Rule = "the scenario ends as it must"
	// RuleKept: payloads reach only the seller and the facilitator.
	RuleKept Rule = "payloads go to nobody else"
	// RuleLured: once a payload has left, the client gets no challenge.
	RuleLured Rule = "no client is asked to pay again"
	// RuleHeld: evidence that cannot be trusted decides nothing.
	RuleHeld Rule = "bad evidence decides nothing"
)

// Finding is a broken rule.
type Finding struct {
	Rule   Rule
	Detail string
}

func (f Finding) String() string { return string(f.Rule) + ": " + f.Detail }

// Audit compares purser's books with the chain, once recovery is done. allowed holds how often each
// order may move money; the default is once.
func Audit(b Books, l Ledger, allowed map[uint64]int) []Finding {
	a := &audit{books: b, ledger: l, events: map[string][]SpendEvent{}}
	for _, e := range b.Events {
		a.events[e.PaymentID] = append(a.events[e.PaymentID], e)
	}
	a.transfers()
	a.payments()
	a.sums()
	a.orders(allowed)
	return a.findings
}

type audit struct {
	books    Books
	ledger   Ledger
	events   map[string][]SpendEvent // by payment
	findings []Finding
}

func (a *audit) report(r Rule, format string, args ...any) {
	a.findings = append(a.findings, Finding{r, fmt.Sprintf(format, args...)})
}

// transfers checks each transfer against the books.
func (a *audit) transfers() {
	claims := map[string][]Payment{}
	for _, p := range a.books.Payments {
		if p.State == "settled" && !p.Has("disputed") {
			claims[strings.ToLower(p.Transaction)] = append(claims[strings.ToLower(p.Transaction)], p)
		}
	}
	used := map[string]int{}
	for _, u := range a.ledger.Used {
		used[strings.ToLower(u.Tx)]++
	}
	for _, t := range a.ledger.Transfers {
		tx := strings.ToLower(t.Tx)
		if used[tx] == 0 {
			a.report(RuleAuthorized, "%s left in %s, which uses no authorization of the wallet", t.Value, tx)
		}
		used[tx]--
		switch by := claims[tx]; {
		case len(by) == 0 && a.unresolved(t.Value):
		case len(by) != 1:
			a.report(RuleBooked, "%s for order %d left in %s, which %d payments claim", t.Value, OrderOf(t.Value), tx, len(by))
		case by[0].Amount != t.Value.String() || !strings.EqualFold(by[0].PayTo, t.To.Hex()):
			a.report(RuleBooked, "%s to %s left in %s, payment %s says %s to %s", t.Value, t.To, tx, by[0].ID, by[0].Amount, by[0].PayTo)
		}
	}
}

// unresolved reports whether purser marks a payment of this amount as unresolved.
func (a *audit) unresolved(amount *big.Int) bool {
	return slices.ContainsFunc(a.books.Payments, func(p Payment) bool { return p.Has("unresolved") && p.Amount == amount.String() })
}

// payments checks each payment against the chain and the spend events.
func (a *audit) payments() {
	onChain := map[string]bool{}
	for _, t := range a.ledger.Transfers {
		onChain[strings.ToLower(t.Tx)] = true
	}
	known := map[string]bool{}
	for _, p := range a.books.Payments {
		known[p.ID] = true
		want := []string{}
		switch {
		case p.State == "settled" && p.Has("disputed"):
			want = []string{p.Amount, "-" + p.Amount}
		case p.State == "settled":
			want = []string{p.Amount}
			if !p.Has("confirmed") {
				a.report(RuleChecked, "payment %s of %s is neither", p.ID, p.Amount)
			}
			if !onChain[strings.ToLower(p.Transaction)] {
				a.report(RuleMoved, "payment %s of %s is settled by %q", p.ID, p.Amount, p.Transaction)
			}
		case p.State == "open" && !p.Has("unresolved") && !p.Has("refused"):
			a.report(RuleClosed, "payment %s of %s: %s", p.ID, p.Amount, p.Reason)
		}
		a.eventsOf(p, want...)
	}
	for payment, events := range a.events {
		if !known[payment] {
			a.report(RuleEvents, "%d of them are of payment %q, which is unknown", len(events), payment)
		}
	}
}

// eventsOf compares a payment's events with the amounts that they must have, in any order.
func (a *audit) eventsOf(p Payment, want ...string) {
	have := []string{}
	for _, e := range a.events[p.ID] {
		have = append(have, e.Amount)
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		a.report(RuleEvents, "payment %s (%s) of %s has %v, not %v", p.ID, p.Label(), p.Amount, have, want)
	}
}

// sums compares the books, the transfers and the balance.
func (a *audit) sums() {
	left, booked, unknown := new(big.Int), new(big.Int), new(big.Int)
	for _, t := range a.ledger.Transfers {
		left.Add(left, t.Value)
	}
	add := func(sum *big.Int, what, id, given string) {
		amount, ok := new(big.Int).SetString(given, 10)
		if !ok {
			a.report(RuleSum, "%s %s has the amount %q", what, id, given)
			return
		}
		sum.Add(sum, amount)
	}
	for _, e := range a.books.Events {
		add(booked, "event", e.ID, e.Amount)
	}
	for _, p := range a.books.Payments {
		if p.Has("unresolved") {
			add(unknown, "payment", p.ID, p.Amount)
		}
	}
	if missing := new(big.Int).Sub(left, booked); missing.Sign() < 0 || missing.Cmp(unknown) > 0 {
		a.report(RuleSum, "the books say %s, the chain %s, unresolved is %s", booked, left, unknown)
	}
	if rest := new(big.Int).Sub(a.ledger.Received, left); rest.Cmp(a.ledger.Balance) != 0 {
		a.report(RuleAuthorized, "the wallet got %s and paid %s, but has %s", a.ledger.Received, left, a.ledger.Balance)
	}
}

// orders counts how often each order was paid for.
func (a *audit) orders(allowed map[uint64]int) {
	for order, n := range a.ledger.PerOrder() {
		most, given := allowed[order]
		if !given {
			most = 1
		}
		if n > most {
			a.report(RuleOnce, "order %d moved money %d times, %d allowed", order, n, most)
		}
	}
}
