package books

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/purserpay/purser/pay"
)

// DeclinedQuery says which declined requests are asked for. Empty fields ask for all.
type DeclinedQuery struct {
	KeyID, Reason string
	Host          string    // a host, a URL of it, or a tool there: see [pay.RecordedPlace]
	From, To      time.Time // UTC days. Days from before pay.MaxDeclinedDays are not kept; a To of zero is today
}

// DeclinedIn lists what was declined to a scope's keys: each key, reason and host once, the latest first. Its errors
// are those of [Books.DeclinesIn].
func (b *Books) DeclinedIn(ctx context.Context, s Scope, q DeclinedQuery, now time.Time) ([]pay.Declined, error) {
	if q.To.IsZero() {
		q.To = pay.DayOf(now)
	}
	if oldest := q.To.AddDate(0, 0, 1-pay.MaxDeclinedDays); q.From.Before(oldest) {
		q.From = oldest
	}
	days, err := b.DeclinesIn(ctx, s, SummaryQuery{From: q.From, To: q.To, KeyID: q.KeyID})
	if err != nil {
		return nil, err
	}
	type group struct{ keyID, reason, host string }
	host, tool := pay.RecordedPlace(q.Host)
	at := map[group]int{}
	var list []pay.Declined
	for _, one := range days {
		oneHost, oneTool := one.Place()
		if q.Reason != "" && one.Reason != q.Reason || host != "" && oneHost != host || tool != "" && oneTool != tool {
			continue
		}
		g := group{one.KeyID, one.Reason, one.Host}
		i, known := at[g]
		if !known {
			at[g] = len(list)
			list = append(list, one)
			continue
		}
		sum := list[i]
		if one.Last.After(sum.Last) {
			sum, one = one, sum
		}
		sum.Count += one.Count
		if one.First.Before(sum.First) {
			sum.First = one.First
		}
		list[i] = sum
	}
	slices.SortFunc(list, func(a, b pay.Declined) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.KeyID, b.KeyID), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Host, b.Host))
	})
	return list, nil
}
