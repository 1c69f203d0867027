package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Money says how much money a scenario may move for each order.
type Money int

// Values of Money.
const (
	AtMostOnce Money = iota
	Never
	Once
)

// Scenario is a failure that meets a customer's order, and the end that it must have. All rules of
// an audit must hold as well.
type Scenario struct {
	Name  string
	Holds string // the required end, in words
	Doors []Door // where the scenario can happen

	Facilitator []FacilitatorFault
	Seller      []SellerFault
	// RPC fails while recovery looks for evidence, after the customers have left. The scenario then
	// plays four orders by itself: one paid, two whose answers were lost (one paid, one not), and
	// one falsely claimed to be paid.
	RPC *RPCFault
	// Version is the x402 version that the seller speaks; 0 means 2.
	Version int
	// Pair plays two orders at once.
	Pair bool
	// NeedsKey limits the scenario to customers with idempotency keys at the API. Without one, a
	// repeat is a new purchase there, because its terms differ.
	NeedsKey bool
	// Expired performs postponed calls only after the authorizations have expired.
	Expired bool

	Money Money
	// Ends lists the labels that payments may have at the end. An empty list allows no payment.
	Ends []string
}

// Custom is a way in which a customer requests an order.
type Custom struct {
	Name string
	// Keyed sends an idempotency key.
	Keyed bool
	// HangsUp makes the customer leave during the first fault.
	HangsUp bool
	// Twins sends the first request twice at once.
	Twins bool
}

// Ways in which customers request orders.
var (
	Keyed     = Custom{Name: "with a key", Keyed: true}
	Bare      = Custom{Name: "without a key"}
	HangingUp = Custom{Name: "hangs up", HangsUp: true}
	Twins     = Custom{Name: "twice at once with a key", Keyed: true, Twins: true}
)

// Customs lists all ways.
func Customs() []Custom { return []Custom{Keyed, Bare, HangingUp, Twins} }

// Fits reports whether a scenario applies to this kind of customer at a door.
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

// attempts is the number of requests that a customer makes for an order.
const attempts = 3

// Played holds the experience of a customer in a scenario.
type Played struct {
	Scenario Scenario
	Door     Door
	Custom   Custom
	Orders   []uint64
	Results  []Result
}

// Play lets a customer meet the scenario at a door. The customer requests an order, and repeats the
// request while it gets nothing. order is the first order; further ones count up. The caller must
// perform postponed calls; see [World.Late].
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

// buy requests one order until it is done or the customer gives up.
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
			hangUp := func() { w.HangUp(ctx, cancel) }
			w.met.Store(&hangUp)
			got = []Result{c.Buy(once, w.SellerURL, p.Door, o)}
			w.met.Store(nil)
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

// Judge audits a play after its end. Recovery must have finished, with a trustworthy RPC, after all
// authorizations have expired.
func (p Played) Judge(w *World, b Books, l Ledger) []Finding {
	a := &audit{findings: Audit(b, l, nil)}
	per := l.PerOrder()
	for _, order := range p.Orders {
		switch n := per[order]; {
		case p.Scenario.Money == Never && n != 0:
			a.report(RuleEnd, "order %d moved money", order)
		case p.Scenario.Money == Once && n == 0:
			a.report(RuleEnd, "order %d moved no money", order)
		}
	}
	for _, one := range b.Payments {
		if !slices.Contains(p.Scenario.Ends, one.Label()) {
			a.report(RuleEnd, "payment %s is %q, not one of %q", one.ID, one.Label(), p.Scenario.Ends)
		}
	}
	if n := w.Thief.Stolen(); n != 0 {
		a.report(RuleKept, "%d payloads got to a thief", n)
	}
	for _, r := range p.Results {
		if r.Lured {
			a.report(RuleLured, "%d with a challenge", r.Status)
		}
	}
	return a.findings
}

// Meanwhile judges the decisions of recovery while the RPC fails.
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
			a.report(RuleHeld, "payment %s has its transfer and is %q", one.ID, one.Label())
		case !moved[one.Amount] && (one.Has("confirmed") || one.State == "settled" && old.State != "settled"):
			a.report(RuleHeld, "payment %s has no transfer and is %q %v", one.ID, one.Label(), one.Flags)
		case p.Scenario.RPC.Blind() && (one.Label() != old.Label() || one.Has("confirmed") != old.Has("confirmed")):
			a.report(RuleHeld, "payment %s was %q and is %q", one.ID, old.Label(), one.Label())
		}
	}
	return a.findings
}

// Story describes the results that the customer saw.
func (p Played) Story() string {
	var lines []string
	for _, r := range p.Results {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "; ")
}

// Patience is a good timeout for purser's calls in a hostile world. With it, a scenario takes
// seconds.
const Patience = 5 * time.Second
