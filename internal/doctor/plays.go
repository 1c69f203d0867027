package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/sandbox/hostile"
)

// play is a scenario that one kind of customer meets at one door.
type play struct {
	scenario hostile.Scenario
	door     hostile.Door
	custom   hostile.Custom
}

func (p play) String() string {
	return fmt.Sprintf("%s, %s, customer %s", p.scenario.Name, p.door, p.custom.Name)
}

// Customs, by what they are about.
var (
	keyed   = hostile.Custom{Name: "with a key", Keyed: true}
	bare    = hostile.Custom{Name: "without a key"}
	hangsUp = hostile.Custom{Name: "hangs up", HangsUp: true}
	twins   = hostile.Custom{Name: "twice at once with a key", Keyed: true, Twins: true}
)

// named is the scenario of that name. There is one, which a test sees to.
func named(name string) hostile.Scenario {
	for _, s := range hostile.Scenarios() {
		if s.Name == name {
			return s
		}
	}
	return hostile.Scenario{Name: name}
}

// facilitated are plays in which the facilitator fails; it does at one door only.
func facilitated(c hostile.Custom, faults ...hostile.FacilitatorFault) (list []play) {
	for _, f := range faults {
		list = append(list, play{named("facilitator " + f.Name), hostile.PayerDoor, c})
	}
	return list
}

// sold are plays in which the seller fails.
func sold(door hostile.Door, c hostile.Custom, faults ...hostile.SellerFault) (list []play) {
	for _, f := range faults {
		list = append(list, play{named("seller " + f.Name), door, c})
	}
	return list
}

// everywhere are plays of a scenario at every door.
func everywhere(c hostile.Custom, names ...string) (list []play) {
	for _, name := range names {
		for _, door := range hostile.Doors() {
			list = append(list, play{named(name), door, c})
		}
	}
	return list
}

func onceAttacks() []attack {
	return []attack{
		{group: neverTwice, name: "answer-lost", tries: "the facilitator moves the money and its answer is lost; the client asks again", holds: "paid once", plays: slices.Concat(
			facilitated(bare, hostile.ResetAfter, hostile.FailsAfter), facilitated(keyed, hostile.ResetAfter),
		)},
		{group: neverTwice, name: "request-lost", tries: "the facilitator fails before the money moves; the client asks again", holds: "paid once", plays: slices.Concat(
			facilitated(bare, hostile.ResetBefore, hostile.VerifyReset), facilitated(keyed, hostile.FailsBefore),
		)},
		{group: neverTwice, name: "seller-hangs-up", tries: "the seller takes the money and hangs up; the client asks again", holds: "paid once", plays: slices.Concat(
			sold(hostile.ProxyDoor, bare, hostile.HangsUpAfter), sold(hostile.ProxyDoor, keyed, hostile.HangsUpAfter),
			sold(hostile.SellerDoor, bare, hostile.HangsUpAfter), sold(hostile.SellerDoor, keyed, hostile.HangsUpAfter),
		)},
		{group: neverTwice, name: "seller-breaks", tries: "the seller answers 5xx, cuts the goods off or hangs up around the payment", holds: "paid once", plays: slices.Concat(
			sold(hostile.ProxyDoor, bare, hostile.BrokenAfter, hostile.BrokenBefore, hostile.HangsUpBefore, hostile.CutGoods),
			sold(hostile.SellerDoor, keyed, hostile.BrokenAfter),
		)},
		{group: neverTwice, name: "asks-again", tries: "the seller takes the money and asks for it again, or for more", holds: "paid once", plays: slices.Concat(
			sold(hostile.ProxyDoor, bare, hostile.AsksAgainAfter, hostile.AsksMoreAfter, hostile.BareAfter, hostile.DeniesReceipt),
			sold(hostile.SellerDoor, keyed, hostile.AsksAgainAfter),
		)},
		{group: neverTwice, name: "client-hangs-up", tries: "the client hangs up in the middle and repeats at once, without a key", holds: "paid once", plays: slices.Concat(
			facilitated(hangsUp, hostile.ResetAfter), sold(hostile.ProxyDoor, hangsUp, hostile.HangsUpAfter, hostile.BrokenBefore),
		)},
		{group: neverTwice, name: "twice-at-once", tries: "two requests with the same key at once", holds: "paid once", plays: slices.Concat(
			everywhere(twins, "nothing fails"), sold(hostile.ProxyDoor, twins, hostile.HangsUpAfter), facilitated(twins, hostile.ResetAfter),
		)},
		{group: neverTwice, name: "settled-twice", tries: "one payment is settled twice, or captured by somebody who is faster", holds: "paid once", plays: slices.Concat(
			facilitated(bare, hostile.Duplicate), sold(hostile.ProxyDoor, bare, hostile.TakesTwice, hostile.Preempted),
		)},
		{group: neverTwice, name: "settled-late", tries: "the settlement comes when everybody is gone, in time or too late", holds: "paid once, or never", plays: slices.Concat(
			facilitated(bare, hostile.SettlesLate), sold(hostile.ProxyDoor, bare, hostile.TakesLate),
			[]play{{named("seller answers 504, and settles when it is too late"), hostile.ProxyDoor, bare}},
		)},
		{group: neverTwice, name: "refused-and-sent", tries: "the facilitator refuses each try, and makes the transfer all the same; the client asks again and again", holds: "one authorization, paid once", plays: slices.Concat(
			facilitated(keyed, hostile.VerifyRefusesAndSends), facilitated(bare, hostile.VerifyRefusesAndSends),
		)},
		{group: neverTwice, name: "killed", tries: killTries, run: killed},
	}
}

func lieAttacks() []attack {
	return []attack{
		{group: neverNothing, name: "claims-success", tries: "the facilitator claims a transfer that never was, or somebody else's", holds: "booked, disproved by the ledger, and taken back", plays: facilitated(
			bare, hostile.InventsSuccess, hostile.ClaimsAnothers,
		)},
		{group: neverNothing, name: "denies-success", tries: "the facilitator denies the transfer that it made", holds: "paid once, and booked", plays: facilitated(
			bare, hostile.DeniesAfter, hostile.DeniesByName, hostile.RefusesAfter, hostile.PendingAfter,
		)},
		{group: neverNothing, name: "says-used", tries: "the facilitator calls a payment used that is not", holds: "the ledger is asked, and it is paid once", plays: facilitated(
			bare, hostile.VerifySaysUsed, hostile.SaysDuplicateBefore,
		)},
		{group: neverNothing, name: "mixed-up", tries: "the facilitator mixes up the answers of two payments", holds: "each payment ends with its own transaction, or is taken back", plays: facilitated(
			bare, hostile.Swaps, hostile.SwapsRefused,
		)},
		{group: neverNothing, name: "nonsense", tries: "the facilitator answers nonsense, contradicts itself, or names reasons that nobody knows", holds: "paid once", plays: facilitated(
			bare, hostile.Malformed, hostile.TwoVerdicts, hostile.Contradicts, hostile.UnknownReason,
		)},
		{group: neverNothing, name: "false-receipt", tries: "the seller's receipt is invented, somebody else's, or does not fit", holds: "the ledger decides", plays: sold(
			hostile.ProxyDoor, bare, hostile.InventsReceipt, hostile.AnothersReceipt, hostile.OtherPayer, hostile.OtherChainReceipt, hostile.NonsenseReceipt,
		)},
		{group: neverNothing, name: "rpc-lies", tries: "the RPC answers for another chain or for a fork, from the future, or leaves events out", run: lyingRPC},
	}
}

// otherScenarios are all that no attack has, at every door where they fit.
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

// outlasts: the scenario is over when purser's own time limits are, which are the user's and may be minutes.
func outlasts(s hostile.Scenario) bool {
	for _, word := range []string{"times out", "never answers"} {
		if strings.Contains(s.Name, word) {
			return true
		}
	}
	return false
}

// played is a play that is over but for what recovery makes of it.
type played struct {
	hostile.Played
	player *player
	began  time.Time
}

// playAll plays an attack's scenarios, some at a time, each with a customer of its own, and says what held.
func (e *examination) playAll(ctx context.Context, a attack) (outcome, error) {
	list := slices.DeleteFunc(slices.Clone(a.plays), func(p play) bool { return p.door == hostile.ProxyDoor && e.noProxy != "" })
	if len(list) == 0 {
		return off("%s", e.noProxy), nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stories, errs := make([][]string, len(list)), make([]error, len(list))
	var all sync.WaitGroup
	for i, p := range list {
		all.Go(func() {
			if stories[i], errs[i] = e.playOne(ctx, p); errs[i] != nil {
				cancel() // nothing can be said any more
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return outcome{}, err
		}
	}
	if err := errors.Join(errs...); err != nil {
		return outcome{}, err
	}
	story := slices.Concat(stories...)
	if len(story) > 0 {
		return failed(story, "%s", a.tries), nil
	}
	return held("%s: %s (%s)", a.tries, a.holds, times(len(list))), nil
}

// times is how often an attack was tried.
func times(n int) string {
	if n == 1 {
		return "one way"
	}
	return fmt.Sprintf("%d ways", n)
}

// playOne plays a scenario and waits until books and ledger are what they must be. The story is empty if they are.
func (e *examination) playOne(ctx context.Context, p play) ([]string, error) {
	over, err := e.perform(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	if p.scenario.Expired {
		if err := rest(ctx, validity+time.Second); err != nil {
			return nil, err
		}
		over.player.world.Late(ctx)
	}
	// What a facilitator refuses is kept for two minutes more, and never settles: nobody waits for that here.
	if slices.Contains(over.Scenario.Ends, "void") {
		over.Scenario.Ends = append(slices.Clone(over.Scenario.Ends), "open, refused")
	}
	story, err := e.await(ctx, over.player, over.Judge)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	if len(story) > 0 {
		story = slices.Concat([]string{p.String(), "  the customer saw: " + over.Story()}, story)
	}
	return story, nil
}

// perform is the part of a play in which the customer is there.
func (e *examination) perform(ctx context.Context, p play) (played, error) {
	select {
	case e.turns <- struct{}{}:
		defer func() { <-e.turns }()
	case <-ctx.Done():
		return played{}, ctx.Err()
	}
	over := played{began: time.Now()}
	var err error
	if over.player, err = e.enroll(ctx, e.main, e.neutral); err != nil {
		return over, err
	}
	over.Played = p.scenario.Play(ctx, over.player.world, over.player.at(p.door), p.door, p.custom, firstOrder)
	if !p.scenario.Expired {
		over.player.world.Late(ctx)
	}
	return over, ctx.Err()
}

// firstOrder is what customers ask for first. It costs a tenth of a thousandth of a dollar, which few limits forbid.
const firstOrder = 10

// await asks for books and ledger until nothing is wrong with them, or nothing will change any more.
func (e *examination) await(
	ctx context.Context, p *player, judge func(*hostile.World, hostile.Books, hostile.Ledger) []hostile.Finding,
) ([]string, error) {
	const often = 500 * time.Millisecond
	done := 0 // times that all was closed and something was wrong
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
			return tell(wrong, b, l), nil
		}
		if err := rest(ctx, often); err != nil {
			return tell(wrong, b, l), nil //nolint:nilerr // the time is over, and this is what is known
		}
	}
}

// closed: recovery has nothing left to find.
func closed(b hostile.Books) bool {
	return !slices.ContainsFunc(b.Payments, func(p hostile.Payment) bool {
		return p.State == "open" || p.State == "settled" && !p.Has("confirmed") && !p.Has("disputed")
	})
}

// final: no recovery can repair it.
func final(wrong []hostile.Finding) bool {
	return slices.ContainsFunc(wrong, func(f hostile.Finding) bool {
		return slices.Contains([]hostile.Rule{
			hostile.RuleOnce, hostile.RuleKept, hostile.RuleLured, hostile.RuleAuthorized,
		}, f.Rule)
	})
}

// tell is the story of books and ledger.
func tell(wrong []hostile.Finding, b hostile.Books, l hostile.Ledger) (story []string) {
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

// rest waits.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
