package pay

import (
	"errors"

	"github.com/purserpay/purser/policy"
)

// ReplayView is read by the decision on an earlier payment.
type ReplayView interface {
	Counters
	paidHosts
}

// Replayed says what a policy would have done with a payment.
type Replayed struct {
	Rule string        // by which it declines the payment; "": it lets it through
	Ask  string        // by which the payment would have needed an approval; "": it needs none
	Rate []Reservation // taken from the minute, if there is a limit on it
	// Hours count the payment by the hour, if the policy wants that.
	Hours []Reservation
	// Price names the last price that was paid there.
	Price Counter
}

// Replay decides on an earlier payment as Begin does on a new one, without what depends on the moment.
func Replay(pol policy.Policy, v ReplayView, row *Payment) (r Replayed, err error) {
	again := row.Clone()
	// The books do not keep the method. Payments to one path with two methods share a price here.
	again.Price = priceCounter(row.KeyID, row.Currency, "", row.RequestURL)
	r.Price = again.Price
	err = refuses(pol, again)
	if err == nil {
		err = guard(pol, v, again)
	}
	if err == nil {
		err = budgets(pol, v, again, nil)
	}
	for _, l := range rate(pol, again) {
		r.Rate = append(r.Rate, l.Reservation)
		if err == nil {
			err = check(v, l)
		}
	}
	if refused, ok := errors.AsType[*PolicyError](err); ok {
		return Replayed{Rule: refused.Rule}, nil
	} else if err != nil {
		return Replayed{}, err
	}
	if pol.CountsHours() {
		if r.Hours, err = byHour.spending(v, again); err != nil {
			return Replayed{}, err
		}
	}
	r.Ask, _, err = asks(pol, v, again)
	return r, err
}
