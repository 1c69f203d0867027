package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Money is how much a scenario may move for each order.
type Money int

// What a scenario may move.
const (
	AtMostOnce Money = iota
	Never
	Once
)

// Scenario is something that happens to a customer's order, and what must hold all the same. Beside what it says
// itself, every rule of an audit must.
type Scenario struct {
	Name  string
	Holds string // what must hold, in words
	Doors []Door // where it can happen

	Facilitator []FacilitatorFault
	Seller      []SellerFault
	// RPC fails while recovery looks for evidence, once the customers are gone. Without traffic of its own, a scenario
	// then has four orders: one paid, one paid and one unpaid whose answers were lost, and one only claimed to be paid.
	RPC *RPCFault
	// Version of the protocol that the seller speaks; 0 is 2.
	Version int
	// Pair is two orders at once.
	Pair bool
	// NeedsKey: at the API, who asks again without an idempotency key buys again, because the terms are others.
	NeedsKey bool
	// Expired: what was put off until everybody is gone happens when the authorizations are no longer valid.
	Expired bool

	Money Money
	// Ends are the labels that payments may have at the end. None: there must be no payments.
	Ends []string
}

// Custom is a way to ask for an order.
type Custom struct {
	Name string
	// Keyed: with an idempotency key.
	Keyed bool
	// HangsUp: the first time, the customer is gone when the fault is met.
	HangsUp bool
	// Twins: the first time, two requests at once.
	Twins bool
}

// Customs are all of them.
func Customs() []Custom {
	return []Custom{
		{Name: "with a key", Keyed: true},
		{Name: "without a key"},
		{Name: "hangs up", HangsUp: true},
		{Name: "twice at once with a key", Keyed: true, Twins: true},
	}
}

// Fits reports whether a scenario says anything about customers of this kind at a door.
func (s Scenario) Fits(door Door, c Custom) bool {
	switch {
	case !slices.Contains(s.Doors, door):
		return false
	case s.Pair && (c.Twins || c.HangsUp):
		return false
	case s.RPC != nil:
		return c.Keyed && !c.Twins
	}
	return !s.NeedsKey || door == ProxyDoor || c.Keyed
}

// attempts is how often a customer asks for an order until it gives up.
const attempts = 3

// Played is what happened to a customer.
type Played struct {
	Scenario Scenario
	Door     Door
	Custom   Custom
	Orders   []uint64
	Results  []Result
}

// Play has a customer meet the scenario at a door: it asks for an order, and asks again while it gets nothing. The order
// is the first of those that the customer asks for, whose numbers count up. What was put off until everybody is gone is
// the caller's to do, see [World.Late].
func (s Scenario) Play(ctx context.Context, w *World, c *Customer, door Door, custom Custom, order uint64) Played {
	p := Played{Scenario: s, Door: door, Custom: custom}
	if s.RPC != nil {
		for i, faults := range [][]FacilitatorFault{{}, {ResetAfter}, {ResetBefore}, {InventsSuccess}} {
			w.Facilitator.Meet(faults...)
			p.buy(ctx, w, c, order+uint64(i), 1)
		}
		w.Facilitator.Meet()
		return p
	}
	w.Facilitator.Meet(s.Facilitator...)
	w.Seller.Meet(s.Seller...)
	defer w.Facilitator.Meet()
	defer w.Seller.Meet()
	if !s.Pair {
		p.buy(ctx, w, c, order, attempts)
		return p
	}
	pair := []*Played{{Scenario: s, Door: door, Custom: custom}, {Scenario: s, Door: door, Custom: custom}}
	var both sync.WaitGroup
	for i, one := range pair {
		both.Go(func() { one.buy(ctx, w, c, order+uint64(i), attempts) })
	}
	both.Wait()
	for _, one := range pair {
		p.Orders = append(p.Orders, one.Orders...)
		p.Results = append(p.Results, one.Results...)
	}
	return p
}

// buy asks for one order until it is done or the customer gives up.
func (p *Played) buy(ctx context.Context, w *World, c *Customer, order uint64, tries int) {
	p.Orders = append(p.Orders, order)
	o := Order{ID: order, Version: p.Scenario.Version}
	if p.Custom.Keyed {
		o.Key = fmt.Sprintf("order-%d", order)
	}
	for n := range tries {
		var got []Result
		switch {
		case n == 0 && p.Custom.HangsUp:
			once, cancel := context.WithCancel(ctx)
			w.onMet(func() {
				cancel()
				w.Noticed(ctx)
			})
			got = []Result{c.Buy(once, w.SellerURL, p.Door, o)}
			w.onMet(nil)
			cancel()
		case n == 0 && p.Custom.Twins:
			got = make([]Result, 2)
			var both sync.WaitGroup
			for i := range got {
				both.Go(func() { got[i] = c.Buy(ctx, w.SellerURL, p.Door, o) })
			}
			both.Wait()
		default:
			got = []Result{c.Buy(ctx, w.SellerURL, p.Door, o)}
		}
		p.Results = append(p.Results, got...)
		if slices.ContainsFunc(got, func(r Result) bool { return r.Done || !p.Custom.Keyed && r.Told() }) {
			return
		}
	}
}

// Judge is the audit of a play, once everything is over: recovery is through, with an RPC that can be trusted, at a
// time when no authorization is valid any more.
func (p Played) Judge(w *World, b Books, l Ledger) []Finding {
	a := &audit{findings: Audit(b, l, nil)}
	per := l.PerOrder()
	for _, order := range p.Orders {
		switch n := per[order]; {
		case p.Scenario.Money == Never && n != 0:
			a.find(RuleEnd, "order %d moved money", order)
		case p.Scenario.Money == Once && n == 0:
			a.find(RuleEnd, "order %d moved no money", order)
		}
	}
	for _, one := range b.Payments {
		if !slices.Contains(p.Scenario.Ends, one.Label()) {
			a.find(RuleEnd, "payment %s is %q, not one of %q", one.ID, one.Label(), p.Scenario.Ends)
		}
	}
	if n := w.Thief.Stolen(); n != 0 {
		a.find(RuleKept, "%d payloads got to a thief", n)
	}
	for _, r := range p.Results {
		if r.Lured {
			a.find(RuleLured, "%d with a challenge", r.Status)
		}
	}
	return a.findings
}

// Meanwhile judges what recovery has made of the books with an RPC that fails.
func (p Played) Meanwhile(before, now Books, l Ledger) []Finding {
	a := &audit{}
	moved := map[string]bool{}
	for _, t := range l.Transfers {
		moved[t.Value.String()] = true
	}
	was := map[string]Payment{}
	for _, one := range before.Payments {
		was[one.ID] = one
	}
	for _, one := range now.Payments {
		old := was[one.ID]
		switch {
		case moved[one.Amount] && (one.State == "void" || one.Has("disputed")):
			a.find(RuleHeld, "payment %s has its transfer and is %q", one.ID, one.Label())
		case !moved[one.Amount] && (one.Has("confirmed") || one.State == "settled" && old.State != "settled"):
			a.find(RuleHeld, "payment %s has no transfer and is %q %v", one.ID, one.Label(), one.Flags)
		case p.Scenario.RPC.Blind() && (one.Label() != old.Label() || one.Has("confirmed") != old.Has("confirmed")):
			a.find(RuleHeld, "payment %s was %q and is %q", one.ID, old.Label(), one.Label())
		}
	}
	return a.findings
}

// Story tells what the customer has seen.
func (p Played) Story() string {
	var lines []string
	for _, r := range p.Results {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "; ")
}

// Patience is how long a purser in a hostile world should wait for its facilitator and for a seller, so that a
// scenario takes seconds.
const Patience = 5 * time.Second
