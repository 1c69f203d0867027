package adminapi

import (
	"context"

	"github.com/purserpay/purser/pay"
)

// Today tells how much of a key's daily budget is used on the present day (UTC).
type Today struct {
	// Spent sums all doors, in the smallest unit of USDC; negative when more of an earlier day was
	// taken back.
	Spent string `json:"spent"`
	// Left remains of the daily budget in force at the proxy, after the reservations of open
	// payments; nil without a budget.
	Left *string `json:"left"`
}

// withToday adds to a shown key what it did today, and its quota.
func (p *Purser) withToday(ctx context.Context, k pay.Key, shown Key) (Key, error) {
	today, err := p.Payer.Today(ctx, k, pay.DoorProxy, p.Networks[0].Assets[0].Symbol)
	if err != nil {
		return shown, err
	}
	net, negative := today.Spent.Net()
	shown.Today = &Today{Spent: net.String()}
	if negative {
		shown.Today.Spent = "-" + shown.Today.Spent
	}
	if today.Left != nil {
		left := today.Left.String()
		shown.Today.Left = &left
	}
	return p.withQuota(ctx, k, shown)
}

// shownToday is a key as it is shown by itself.
func (p *Purser) shownToday(ctx context.Context, k pay.Key) (Key, error) {
	return p.withToday(ctx, k, shownKey(p.Payer, k))
}
