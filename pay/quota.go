package pay

import (
	"context"
	"time"

	"github.com/purserpay/purser/money"
)

// Quota bounds and counts the payments of a key in a calendar month (UTC).
type Quota struct {
	// Organization shares the quota among its keys; "" for an unclaimed key, which has its own.
	Organization string
	Used, Most   money.Amount
	// Resets holds when the next month's count begins.
	Resets time.Time
}

// Quota finds the monthly quota of a key; nil if the key has none. The operator's keys have
// none, and no key has one without plans.
func (p *Payer) Quota(ctx context.Context, k Key) (*Quota, error) {
	now := p.now().UTC()
	var j Judgement
	if err := p.setPlace(ctx, &j, k, now); err != nil || j.Place.Max == nil {
		return nil, err
	}
	l := j.Place
	used, err := p.store.Counter(ctx, l.Counter)
	if err != nil {
		return nil, err
	}
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return &Quota{Organization: k.OrganizationID, Used: used, Most: *l.Max, Resets: month.AddDate(0, 1, 0)}, nil
}

// setPlace sets the place in the month's count of the key's owner, and its bound. The operator's
// keys take none: plans are for keys from POST /api-keys. Without plans, the place has no bound.
func (p *Payer) setPlace(ctx context.Context, j *Judgement, k Key, now time.Time) error {
	if k.Operator {
		return nil
	}
	j.Place = Limit{Reservation: Reservation{Counter: PlaceCounter(k.Owner(), now), Amount: money.New(1), Release: ReleasePlace}}
	if p.ruling().NoPlans {
		return nil
	}
	most := uint64(p.ruling().Plans.Unclaimed())
	j.Unclaimed = money.New(most)
	if k.Claimed() {
		org, err := p.store.Organization(ctx, k.OrganizationID)
		if err != nil {
			return err
		}
		j.OrganizationID, j.Plan = k.OrganizationID, org.Plan
		most = uint64(p.ruling().Plans.Of(org.Plan).Payments)
	}
	limit := money.New(most)
	j.Place.Max, j.Place.Refusal = &limit, ErrQuota
	return nil
}
