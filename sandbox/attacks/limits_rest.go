package attacks

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/purserpay/purser/sandbox/hostile"
)

// limitsOnREST asks the API for slightly more than the limits, in both settlements, directly and
// through the proxy. An agent holds the key that it pays with at the proxy, so the same limits must
// hold at the API.
func limitsOnREST(ctx context.Context, e *examination) (outcome, error) {
	one, err := e.enroll(ctx, e.main, e.neutral)
	if err != nil {
		return outcome{}, err
	}
	most := one.inForce.MaxPayment.Max()
	if most == nil {
		most = one.inForce.DailyBudget.Max()
	}
	switch {
	case most == nil:
		return off("neither payments nor days have a limit (PURSER_MAX_PAYMENT, PURSER_DAILY_BUDGET)"), nil
	case most.Big().Cmp(maxPrice) >= 0:
		return off("payments may cost %s USDC, which is as good as no limit", dollars(most.Big())), nil
	}
	agents := map[string]*player{"a key that you make": one}
	own, err := e.deployment(ctx, one)
	if err != nil {
		return outcome{}, err
	}
	if own != nil {
		agents["PURSER_KEY"] = own
	}
	asked, id := 0, order(most.Big())
	var story []string
	for name, agent := range agents {
		ways := map[string]*hostile.Customer{"directly": agent.customer}
		if e.main.proxy != "" {
			ways["through the proxy"] = agent.proxied.AskingThroughProxy()
		}
		for way, customer := range ways {
			for _, door := range []hostile.Door{hostile.PayerDoor, hostile.SellerDoor} {
				id++
				asked++
				got := customer.Buy(ctx, agent.world.SellerURL, door, hostile.Order{ID: id})
				if got.Status != http.StatusPaymentRequired || !strings.Contains(got.Reason, "Payment refused by policy") {
					story = append(story, fmt.Sprintf("%s, %s, %s: the customer saw: %s", name, way, door, got))
				}
			}
		}
		b, l, err := e.account(ctx, agent)
		if err != nil {
			return outcome{}, err
		}
		if len(l.Transfers)+len(b.Payments) > 0 {
			story = append(story, storyOf(nil, b, l)...)
		}
	}
	if len(story) > 0 {
		return failed(story, "the API signs for more than the limit of %s USDC", dollars(most.Big())), nil
	}
	return held("the API signs for no more than %s USDC: %d requests for more are refused, by %s", dollars(most.Big()), asked,
		strings.Join(slices.Sorted(maps.Keys(agents)), " and ")), nil
}

// deployment returns the deployment's own key as a customer in another player's world, or nil
// without such a key.
func (e *examination) deployment(ctx context.Context, one *player) (*player, error) {
	if e.main.key == "" {
		return nil, nil //nolint:nilnil // the comment above says so
	}
	p := &player{purser: e.main, world: one.world, inForce: one.inForce}
	return p, e.settle(ctx, p, e.main.key)
}
