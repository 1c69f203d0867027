package books

import (
	"context"
	"errors"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// Desk serves the people who answer payments that wait for an approval: it answers one, and raises the
// limit that asked for it. The pay core decides what an answer means.
type Desk struct {
	Payer *pay.Payer
	Books *Books
}

// Answered holds what became of an answer.
type Answered struct {
	Approval pay.Approval
	// Raised is the limit that the key has from now on; nil: none was raised.
	Raised *money.Amount
	// NotRaised says why a limit that was to be raised was not.
	NotRaised string
	// Failed: that is because of an error.
	Failed bool
}

// Answer answers an approval: see [pay.Payer.AnswerApproval] for its errors. With raise, it then raises
// the limit that held the payment. The answer stands if that fails.
func (d Desk) Answer(ctx context.Context, q pay.ApprovalAnswering, raise bool) (Answered, error) {
	a, err := d.Payer.AnswerApproval(ctx, q)
	done := Answered{Approval: a}
	if err != nil || !raise {
		return done, err
	}
	done.Raised, err = d.raise(ctx, a)
	switch {
	case err != nil:
		done.NotRaised, done.Failed = err.Error(), true
	case done.Raised == nil && a.Rule != pay.RuleApprovalAbove:
		done.NotRaised = "there is nothing to raise: once this payment is made, the key has paid the host"
	case done.Raised == nil:
		done.NotRaised = "there is nothing to raise: the key may pay this much without an approval by now"
	}
	return done, nil
}

// Raisable returns the limit above which a key needs an approval, if it held a payment and still does;
// nil: there is nothing to raise.
func (d Desk) Raisable(k pay.Key, a pay.Approval) *money.Amount {
	most := d.Payer.PolicyOf(k, a.Door).RequireApprovalAbove.Max()
	if a.Rule != pay.RuleApprovalAbove || most == nil || a.Terms.Amount.Cmp(*most) <= 0 {
		return nil
	}
	return most
}

// raiseTries bounds the tries against others who change the same limits.
const raiseTries = 5

// raise lets the key of an approval pay this price without one. It returns the new limit, nil if there
// is nothing to raise.
func (d Desk) raise(ctx context.Context, a pay.Approval) (*money.Amount, error) {
	if err := Changes.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer Changes.Release(1)
	for n := 1; ; n++ {
		k, err := d.Books.Key(ctx, a.KeyID)
		if err != nil || d.Raisable(k, a) == nil {
			return nil, err
		}
		var pol policy.Policy
		if k.Policy != nil {
			pol = *k.Policy
		}
		if k.Exec && len(pol.Doors) == 0 {
			pol.Doors = ExecPolicy().Doors
		}
		price := a.Terms.Amount
		pol.RequireApprovalAbove = policy.CapOf(price)
		if pol.Raise != nil && pol.Raise.RequireApprovalAbove != nil { // else it would go on to hold the price
			raise := *pol.Raise
			raise.RequireApprovalAbove, pol.Raise = pol.RequireApprovalAbove, &raise
		}
		if _, err = d.Books.SetPolicyAt(ctx, k.ID, k.PolicyRevision, &pol); err == nil {
			return &price, nil
		}
		if !errors.Is(err, pay.ErrPolicyChanged) || n == raiseTries {
			return nil, err
		}
	}
}
