package attacks

import (
	"context"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/sandbox/hostile"
)

func limitAttacks() []attack {
	return []attack{
		{group: withinLimits, name: "price-above-limit", tries: "the seller asks for more than one payment may cost", run: aboveLimit, proxied: true},
		{group: withinLimits, name: "daily-budget", tries: "a stream of payments, many at once, goes on beyond the day's budget", run: beyondBudget, proxied: true},
		{group: withinLimits, name: "limits-on-rest", tries: "an agent's key asks the API for signatures over more than the limits", run: limitsOnREST},
		{group: withinLimits, name: "shared-budget", tries: "a stream of payments through proxy and API at once goes on beyond the day's budget", run: beyondBudgetEverywhere},
		{group: withinLimits, name: "price-drift", tries: "the price changes between question and payment, and with each repeat", holds: "only what was asked for is signed", plays: withSeller(
			hostile.ProxyDoor, bare, hostile.PriceDrifts, hostile.PriceMoves,
		)},
		{group: withinLimits, name: "payee-changes", tries: "the seller hangs up and wants the repeat to pay somebody else", holds: "only what was asked for is signed", plays: []play{
			{otherPayee(), hostile.ProxyDoor, bare},
		}},
		{group: withinLimits, name: "wrong-token", tries: "the seller wants another token, network, scheme or EIP-712 domain", holds: "nothing is signed", plays: slices.Concat(
			withSeller(hostile.ProxyDoor, bare, hostile.OtherAsset, hostile.OtherNetwork, hostile.OtherScheme, hostile.OtherDomain),
			withSeller(hostile.PayerDoor, bare, hostile.OtherAsset, hostile.OtherDomain),
		)},
		{group: withinLimits, name: "wrong-amount", tries: "the seller wants 2^256-1, or 0, or names no amount", holds: "nothing is signed", plays: slices.Concat(
			withSeller(hostile.ProxyDoor, bare, hostile.HugeAmount, hostile.NoAmount, hostile.NothingAsked),
			withSeller(hostile.PayerDoor, bare, hostile.HugeAmount, hostile.NothingAsked),
		)},
		{group: withinLimits, name: "no-time", tries: "the seller gives a second's time to pay", holds: "nothing is signed", plays: withSeller(hostile.ProxyDoor, bare, hostile.NoTime)},
		{group: withinLimits, name: "endless-challenge", tries: "the seller's challenge has no end, or a thousand ways to pay, or is long and to be kept", holds: "nothing is signed", plays: slices.Concat(
			withSeller(hostile.ProxyDoor, bare, hostile.EndlessChallenge, hostile.ManyRequirements, hostile.FatChallenge),
			withSeller(hostile.PayerDoor, bare, hostile.FatChallenge), withSeller(hostile.SellerDoor, bare, hostile.FatChallenge),
		)},
	}
}

// otherPayee returns a seller that hangs up on the payment and then names another payee. The repeat
// must send the first payload, so the other payee gets nothing.
func otherPayee() hostile.Scenario {
	var asked atomic.Int64
	return hostile.Scenario{
		Name: "seller hangs up, and wants somebody else paid", Holds: "a repeat sends the same payload",
		Doors: []hostile.Door{hostile.ProxyDoor}, Money: hostile.Once, Ends: []string{"settled"},
		Seller: []hostile.SellerFault{
			hostile.HangsUpBefore,
			{Name: "asks for another payee the second time", On: hostile.Unpaid, Always: true, Do: func(v *hostile.Visit) {
				if asked.Add(1) == 1 {
					v.Serve()
					return
				}
				v.Challenge("Payment required", func(t *hostile.Terms) { t.PayTo = "0x000000000000000000000000000000000000dEaD" })
			}},
		},
	}
}

// order returns the id of an order that costs at least amount, and little more.
func order(amount *big.Int) uint64 {
	n := new(big.Int).Add(amount, big.NewInt(hostile.PriceStep-1))
	return n.Div(n, big.NewInt(hostile.PriceStep)).Uint64()
}

// maxPrice is the price of the largest order that sellers understand, in smallest units.
var maxPrice = big.NewInt((1<<32 - 1) * hostile.PriceStep)

// aboveLimit asks for slightly more than the limit of one payment.
func aboveLimit(ctx context.Context, e *examination) (outcome, error) {
	one, err := e.enroll(ctx, e.main, e.neutral)
	if err != nil {
		return outcome{}, err
	}
	most := one.inForce.MaxPayment.Max()
	switch {
	case most == nil:
		return off("payments have no limit (PURSER_MAX_PAYMENT, max_payment)"), nil
	case most.Big().Cmp(maxPrice) >= 0:
		return off("payments may cost %s USDC, which is as good as no limit", dollars(most.Big())), nil
	}
	got := one.proxied.Buy(ctx, one.world.SellerURL, hostile.ProxyDoor, hostile.Order{ID: order(most.Big()) + 1})
	b, l, err := e.account(ctx, one)
	if err != nil {
		return outcome{}, err
	}
	if len(l.Transfers) == 0 && len(b.Payments) == 0 && got.Status == http.StatusPaymentRequired {
		return held("a price above %s USDC is not paid: the client gets its 402 (%s)", dollars(most.Big()), got.Reason), nil
	}
	story := slices.Concat([]string{"the customer saw: " + got.String()}, storyOf(nil, b, l))
	return failed(story, "a price above the limit of %s USDC for one payment", dollars(most.Big())), nil
}

// dollars formats an amount in the token's smallest unit for people.
func dollars(amount *big.Int) string {
	return new(big.Rat).SetFrac(amount, big.NewInt(1_000_000)).FloatString(2)
}

// streams is the number of payments that together use a day's budget. Some more are tried.
const streams = 8

// beyondBudget asks for more than the day's budget at once, through the proxy.
func beyondBudget(ctx context.Context, e *examination) (outcome, error) {
	return e.stream(ctx, hostile.ProxyDoor)
}

// beyondBudgetEverywhere asks for more than the day's budget at once, through all doors. The doors
// share the budget.
func beyondBudgetEverywhere(ctx context.Context, e *examination) (outcome, error) {
	doors := hostile.Doors()
	if e.noProxy != "" {
		doors = []hostile.Door{hostile.PayerDoor, hostile.SellerDoor}
	}
	return e.stream(ctx, doors...)
}

// stream asks for more than the day's budget at once, through the given doors in turn.
func (e *examination) stream(ctx context.Context, doors ...hostile.Door) (outcome, error) {
	// The limits on single payments and on their number must not interfere.
	never := 0
	policy := policy.Policy{MaxPayment: policy.NoCap(), PerMinute: &never}
	if e.neutral != nil {
		policy.AllowHosts, policy.AllowPayees = e.neutral.AllowHosts, e.neutral.AllowPayees
	}
	one, err := e.enroll(ctx, e.main, &policy)
	if err != nil {
		return outcome{}, err
	}
	budget := one.inForce.DailyBudget.Max()
	if budget == nil {
		return off("days have no budget (PURSER_DAILY_BUDGET, daily_budget)"), nil
	}
	each := new(big.Int).Div(budget.Big(), big.NewInt(streams))
	if each.Cmp(maxPrice) >= 0 || new(big.Int).Mul(each, big.NewInt(streams+4)).Cmp(big.NewInt(funds)) >= 0 {
		return off("a day's budget is %s USDC, which is as good as none", dollars(budget.Big())), nil
	}
	first := order(each)
	results := make([]hostile.Result, streams+4)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			door := doors[i%len(doors)]
			results[i] = one.at(door).Buy(ctx, one.world.SellerURL, door, hostile.Order{ID: first + uint64(i)})
		})
	}
	all.Wait()
	b, l, err := e.account(ctx, one)
	if err != nil {
		return outcome{}, err
	}
	spent, refused := new(big.Int), 0
	for _, t := range l.Transfers {
		spent.Add(spent, t.Value)
	}
	story := []string{}
	for _, r := range results {
		if r.Status == http.StatusPaymentRequired {
			refused++
		}
		story = append(story, "the customer saw: "+r.String())
	}
	says := fmt.Sprintf("%d payments at once for a budget of %s USDC a day", len(results), dollars(budget.Big()))
	switch {
	case spent.Cmp(budget.Big()) > 0:
		return failed(append(story, storyOf(nil, b, l)...), "%s: %s USDC were spent", says, dollars(spent)), nil
	case refused == 0 || spent.Sign() == 0:
		return outcome{}, fmt.Errorf("%s: nothing was refused, or nothing paid; %s", says, strings.Join(story, "; "))
	}
	return held("%s: %s were spent, %d refused", says, dollars(spent), refused), nil
}
