package boltfill

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// Declines writes as many counts of declined requests as a store keeps for the keys, up to the day of to.
func Declines(ctx context.Context, db *boltstore.DB, keys []string, to time.Time) error {
	reasons := []string{"per-payment", "daily-budget", "hosts", "price-guard", "insufficient-funds"}
	price := money.New(1_500_000)
	for _, key := range keys {
		var list []pay.Declined
		for ago := range pay.MaxDeclinedDays {
			day := pay.DayOf(to).AddDate(0, 0, -ago)
			for n := range pay.MaxDeclined {
				list = append(list, pay.Declined{
					KeyID: key, Day: day, Reason: reasons[n%len(reasons)], Host: "api-" + strconv.Itoa(n/len(reasons)) + ".example.com", Count: 1 + n,
					First: day, Last: day.Add(time.Duration(n) * time.Second), Price: &price, Task: "task-1", Detail: "1.50 USDC is above the limit of 1.00 USDC",
				})
			}
		}
		if err := db.AddDeclines(ctx, list); err != nil {
			return fmt.Errorf("boltfill: %w", err)
		}
	}
	return nil
}
