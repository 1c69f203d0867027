package caddymodule

import (
	"context"

	"github.com/purserpay/purser/pay"
)

// adminToday is how far a key's money has gone on the present day (UTC).
type adminToday struct {
	// Spent is what was spent, through whatever door, in the smallest unit of USDC; negative
	// when more of an earlier day was taken back.
	Spent string `json:"spent"`
	// Left is what the daily budget in force at the proxy has left, after what open payments
	// hold; nil without one.
	Left *string `json:"left"`
}

// withToday adds to a shown key what it did today, and its quota.
func (t *tenant) withToday(ctx context.Context, k pay.Key, shown adminKey) (adminKey, error) {
	today, err := t.payer.Today(ctx, k, pay.DoorProxy, t.app.settings.networks[0].Assets[0].Symbol)
	if err != nil {
		return shown, adminFailure(err)
	}
	net, negative := today.Spent.Net()
	shown.Today = &adminToday{Spent: net.String()}
	if negative {
		shown.Today.Spent = "-" + shown.Today.Spent
	}
	if today.Left != nil {
		left := today.Left.String()
		shown.Today.Left = &left
	}
	return t.withQuota(ctx, k, shown)
}

// shownToday is a key as it is shown by itself.
func (t *tenant) shownToday(ctx context.Context, k pay.Key) (adminKey, error) {
	return t.withToday(ctx, k, shownKey(t.payer, k))
}
