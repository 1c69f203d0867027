package books

import (
	"context"
	"time"

	"github.com/purserpay/purser/pay"
)

// Complete days that the spend of a wallet is told of.
const (
	WeekDays  = 7
	MonthDays = 30
)

// WalletSpend holds what left a wallet, by all keys that draw from it.
type WalletSpend struct {
	// Today is the UTC day that has begun. Week and Month are the WeekDays and MonthDays before it. They
	// are payments to sellers.
	Today, Week, Month pay.Sum
	// Withdrawn left by withdrawals, in Month and Today.
	Withdrawn pay.Sum
}

// WalletSpend adds up what left wallets, by their ids. The caller has checked that the reader may see
// them.
func (b *Books) WalletSpend(ctx context.Context, walletIDs []string) (map[string]WalletSpend, error) {
	all := make(map[string]WalletSpend, len(walletIDs))
	today := pay.DayOf(b.now())
	week := today.AddDate(0, 0, -WeekDays)
	err := b.reader.VisitWalletDays(ctx, walletIDs, today.AddDate(0, 0, -MonthDays), today, func(id string, d pay.WalletDay) {
		s := all[id]
		s.Withdrawn.Add(d.Withdrawn)
		switch {
		case !d.Day.Before(today):
			s.Today.Add(d.Spent)
		default:
			s.Month.Add(d.Spent)
			if !d.Day.Before(week) {
				s.Week.Add(d.Spent)
			}
		}
		all[id] = s
	})
	return all, err
}

// CompleteDays returns the number of complete UTC days since a wallet was made that Week has, the day
// of its making included.
func CompleteDays(w pay.Wallet, now time.Time) int {
	days := int(pay.DayOf(now).Sub(pay.DayOf(w.Created)) / (24 * time.Hour))
	return max(0, min(days, WeekDays))
}
