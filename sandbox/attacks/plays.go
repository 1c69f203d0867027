package attacks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/sandbox/hostile"
)

// play is a scenario for one kind of customer at one door.
type play struct {
	scenario hostile.Scenario
	door     hostile.Door
	custom   hostile.Custom
}

func (p play) String() string {
	return fmt.Sprintf("%s, %s, customer %s", p.scenario.Name, p.door, p.custom.Name)
}

// Kinds of customers.
var keyed, bare, hangsUp, twins = hostile.Keyed, hostile.Bare, hostile.HangingUp, hostile.Twins

// scenarioNamed returns the scenario of a name. A test checks that all names exist.
func scenarioNamed(name string) hostile.Scenario {
	for _, s := range hostile.Scenarios() {
		if s.Name == name {
			return s
		}
	}
	return hostile.Scenario{Name: name}
}

// withFacilitator returns plays in which the facilitator has these faults. Facilitators serve one
// door only.
func withFacilitator(c hostile.Custom, faults ...hostile.FacilitatorFault) (list []play) {
	for _, f := range faults {
		list = append(list, play{scenarioNamed("facilitator " + f.Name), hostile.PayerDoor, c})
	}
	return list
}

// withSeller returns plays in which the seller has these faults.
func withSeller(door hostile.Door, c hostile.Custom, faults ...hostile.SellerFault) (list []play) {
	for _, f := range faults {
		list = append(list, play{scenarioNamed("seller " + f.Name), door, c})
	}
	return list
}

// everywhere returns plays of the named scenarios at every door.
func everywhere(c hostile.Custom, names ...string) (list []play) {
	for _, name := range names {
		for _, door := range hostile.Doors() {
			list = append(list, play{scenarioNamed(name), door, c})
		}
	}
	return list
}

func onceAttacks() []attack {
	return []attack{
		{group: neverTwice, name: "answer-lost", tries: "the facilitator moves the money and its answer is lost; the client asks again", holds: "paid once", plays: slices.Concat(
			withFacilitator(bare, hostile.ResetAfter, hostile.FailsAfter), withFacilitator(keyed, hostile.ResetAfter),
		)},
		{group: neverTwice, name: "request-lost", tries: "the facilitator fails before the money moves; the client asks again", holds: "paid once", plays: slices.Concat(
			withFacilitator(bare, hostile.ResetBefore, hostile.VerifyReset), withFacilitator(keyed, hostile.FailsBefore),
		)},
		{group: neverTwice, name: "seller-hangs-up", tries: "the seller takes the money and hangs up; the client asks again", holds: "paid once", plays: slices.Concat(
			withSeller(hostile.ProxyDoor, bare, hostile.HangsUpAfter), withSeller(hostile.ProxyDoor, keyed, hostile.HangsUpAfter),
			withSeller(hostile.SellerDoor, bare, hostile.HangsUpAfter), withSeller(hostile.SellerDoor, keyed, hostile.HangsUpAfter),
		)},
		{group: neverTwice, name: "seller-breaks", tries: "the seller answers 5xx, cuts the goods off or hangs up around the payment", holds: "paid once", plays: slices.Concat(
			withSeller(hostile.ProxyDoor, bare, hostile.BrokenAfter, hostile.BrokenBefore, hostile.HangsUpBefore, hostile.CutGoods),
			withSeller(hostile.SellerDoor, keyed, hostile.BrokenAfter),
		)},
		{group: neverTwice, name: "asks-again", tries: "the seller takes the money and asks for it again, or for more", holds: "paid once", plays: slices.Concat(
			withSeller(hostile.ProxyDoor, bare, hostile.AsksAgainAfter, hostile.AsksMoreAfter, hostile.BareAfter, hostile.DeniesReceipt),
			withSeller(hostile.SellerDoor, keyed, hostile.AsksAgainAfter),
		)},
		{group: neverTwice, name: "client-hangs-up", tries: "the client hangs up in the middle and repeats at once, without a key", holds: "paid once", plays: slices.Concat(
			withFacilitator(hangsUp, hostile.ResetAfter), withSeller(hostile.ProxyDoor, hangsUp, hostile.HangsUpAfter, hostile.BrokenBefore),
		)},
		{group: neverTwice, name: "twice-at-once", tries: "two requests with the same key at once", holds: "paid once", plays: slices.Concat(
			everywhere(twins, "nothing fails"), withSeller(hostile.ProxyDoor, twins, hostile.HangsUpAfter), withFacilitator(twins, hostile.ResetAfter),
		)},
		{group: neverTwice, name: "settled-twice", tries: "one payment is settled twice, or captured by somebody who is faster", holds: "paid once", plays: slices.Concat(
			withFacilitator(bare, hostile.Duplicate), withSeller(hostile.ProxyDoor, bare, hostile.TakesTwice, hostile.Preempted),
		)},
		{group: neverTwice, name: "settled-late", tries: "the settlement comes when everybody is gone, in time or too late", holds: "paid once, or never", plays: slices.Concat(
			withFacilitator(bare, hostile.SettlesLate), withSeller(hostile.ProxyDoor, bare, hostile.TakesLate),
			[]play{{scenarioNamed("seller answers 504, and settles when it is too late"), hostile.ProxyDoor, bare}},
		)},
		{group: neverTwice, name: "refused-and-sent", tries: "the facilitator refuses each try, and makes the transfer all the same; the client asks again and again", holds: "one authorization, paid once", plays: slices.Concat(
			withFacilitator(keyed, hostile.VerifyRefusesAndSends), withFacilitator(bare, hostile.VerifyRefusesAndSends),
		)},
		{group: neverTwice, name: "killed", tries: killTries, run: killed},
	}
}

func lieAttacks() []attack {
	return []attack{
		{group: neverNothing, name: "claims-success", tries: "the facilitator claims a transfer that never was, or somebody else's", holds: "booked, disproved by the ledger, and taken back", plays: withFacilitator(
			bare, hostile.InventsSuccess, hostile.ClaimsAnothers,
		)},
		{group: neverNothing, name: "denies-success", tries: "the facilitator denies the transfer that it made", holds: "paid once, and booked", plays: withFacilitator(
			bare, hostile.DeniesAfter, hostile.DeniesByName, hostile.RefusesAfter, hostile.PendingAfter,
		)},
		{group: neverNothing, name: "says-used", tries: "the facilitator calls a payment used that is not", holds: "the ledger is asked, and it is paid once", plays: withFacilitator(
			bare, hostile.VerifySaysUsed, hostile.SaysDuplicateBefore,
		)},
		{group: neverNothing, name: "mixed-up", tries: "the facilitator mixes up the answers of two payments", holds: "each payment ends with its own transaction, or is taken back", plays: withFacilitator(
			bare, hostile.Swaps, hostile.SwapsRefused,
		)},
		{group: neverNothing, name: "nonsense", tries: "the facilitator answers nonsense, contradicts itself, or names reasons that nobody knows", holds: "paid once", plays: withFacilitator(
			bare, hostile.Malformed, hostile.TwoVerdicts, hostile.Contradicts, hostile.UnknownReason,
		)},
		{group: neverNothing, name: "false-receipt", tries: "the seller's receipt is invented, somebody else's, or does not fit", holds: "the ledger decides", plays: withSeller(
			hostile.ProxyDoor, bare, hostile.InventsReceipt, hostile.AnothersReceipt, hostile.OtherPayer, hostile.OtherChainReceipt, hostile.NonsenseReceipt,
		)},
		{group: neverNothing, name: "rpc-lies", tries: "the RPC answers for another chain or for a fork, from the future, or leaves events out", run: lyingRPC},
	}
}

// otherScenarios returns the scenarios that no attack has, at every door where they fit.
func otherScenarios(all []attack) []attack {
	known := map[string]bool{}
	for _, a := range all {
		for _, p := range a.plays {
			known[p.scenario.Name] = true
		}
	}
	byWhom := []attack{
		{group: neverNothing, name: "other-facilitators", tries: "everything else that a facilitator may do", holds: "books and ledger agree"},
		{group: neverNothing, name: "other-sellers", tries: "everything else that a seller may do", holds: "books and ledger agree"},
	}
	for _, s := range hostile.Scenarios() {
		if known[s.Name] || s.RPC != nil || outlasts(s) {
			continue
		}
		i := 1
		if len(s.Facilitator) > 0 {
			i = 0
		}
		for _, door := range s.Doors {
			for _, c := range []hostile.Custom{bare, keyed} {
				if s.Fits(door, c) {
					byWhom[i].plays = append(byWhom[i].plays, play{s, door, c})
					break
				}
			}
		}
	}
	return byWhom
}

// outlasts reports whether a scenario ends only with purser's own time limits, which the user may
// have set to minutes.
func outlasts(s hostile.Scenario) bool {
	return strings.Contains(s.Name, "times out") || strings.Contains(s.Name, "never answers")
}

// playAll plays the scenarios of an attack, some at a time, each with its own customer.
func (e *examination) playAll(ctx context.Context, a attack) (outcome, error) {
	list := slices.DeleteFunc(slices.Clone(a.plays), func(p play) bool { return p.door == hostile.ProxyDoor && e.noProxy != "" })
	if len(list) == 0 {
		return off("%s", e.noProxy), nil
	}
	story, err := gather(ctx, -1, list, func(ctx context.Context, _ int, p play) ([]string, error) { return e.playOne(ctx, p) })
	return verdict(story, a.tries, "%s (%s)", a.holds, times(len(list))), err
}

// times says how many ways of an attack were tried.
func times(n int) string {
	if n == 1 {
		return "one way"
	}
	return fmt.Sprintf("%d ways", n)
}

// playOne plays a scenario, and waits until books and ledger match its rules. The story is empty
// when they do.
func (e *examination) playOne(ctx context.Context, p play) ([]string, error) {
	one, over, err := e.perform(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	if p.scenario.Expired {
		if err := sleep(ctx, validity+time.Second); err != nil {
			return nil, err
		}
	}
	one.world.Late(ctx)
	// A refused payment stays open for two minutes longer and never settles. The play does not wait
	// for that.
	if slices.Contains(over.Scenario.Ends, "void") {
		over.Scenario.Ends = append(slices.Clone(over.Scenario.Ends), "open, refused")
	}
	story, err := e.await(ctx, one, over.Judge)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	if len(story) > 0 {
		story = slices.Concat([]string{p.String(), "  the customer saw: " + over.Story()}, story)
	}
	return story, nil
}

// perform plays a scenario with a new player, up to its last request.
func (e *examination) perform(ctx context.Context, p play) (one *player, over hostile.Played, err error) {
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return nil, over, ctx.Err()
	}
	if one, err = e.enroll(ctx, e.main, e.neutral); err != nil {
		return nil, over, err
	}
	over = p.scenario.Play(ctx, one.world, one.at(p.door), p.door, p.custom, firstOrder)
	return one, over, ctx.Err()
}

// firstOrder is the first order of each customer. It costs 0.0001 dollars, which few limits forbid.
const firstOrder = 10

// await reads books and ledger until no rule is broken, or no further change is expected.
func (e *examination) await(
	ctx context.Context, p *player, judge func(*hostile.World, hostile.Books, hostile.Ledger) []hostile.Finding,
) ([]string, error) {
	const often = 500 * time.Millisecond
	done := 0 // rounds in which all payments were closed and a rule was broken
	for deadline := time.Now().Add(validity + lastLook); ; {
		b, l, err := e.account(ctx, p)
		if err != nil {
			return nil, err
		}
		wrong := judge(p.world, b, l)
		if len(wrong) == 0 {
			return nil, nil
		}
		if closed(b) {
			done++
		}
		if done > 4 || final(wrong) || time.Now().After(deadline) {
			return storyOf(wrong, b, l), nil
		}
		if err := sleep(ctx, often); err != nil {
			return storyOf(wrong, b, l), nil //nolint:nilerr // the time is over; report what is known
		}
	}
}

// closed reports whether recovery has nothing left to find.
func closed(b hostile.Books) bool {
	return !slices.ContainsFunc(b.Payments, func(p hostile.Payment) bool {
		return p.State == "open" || p.State == "settled" && !p.Has("confirmed") && !p.Has("disputed")
	})
}

// final reports whether recovery cannot repair a finding.
func final(wrong []hostile.Finding) bool {
	return slices.ContainsFunc(wrong, func(f hostile.Finding) bool {
		return slices.Contains([]hostile.Rule{
			hostile.RuleOnce, hostile.RuleKept, hostile.RuleLured, hostile.RuleAuthorized,
		}, f.Rule)
	})
}

// storyOf describes findings, books and ledger.
func storyOf(wrong []hostile.Finding, b hostile.Books, l hostile.Ledger) (story []string) {
	for _, f := range wrong {
		story = append(story, "  broken: "+f.String())
	}
	for _, p := range b.Payments {
		story = append(story, fmt.Sprintf("  books: payment %s of %s is %s %v, transaction %q", p.ID, p.Amount, p.Label(), p.Flags, p.Transaction))
	}
	for _, t := range l.Transfers {
		story = append(story, fmt.Sprintf("  ledger: %s left to %s in %s", t.Value, t.To, t.Tx))
	}
	if len(l.Transfers) == 0 {
		story = append(story, "  ledger: nothing left the wallet")
	}
	return story
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
