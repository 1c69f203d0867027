package dashboard

import (
	"context"
	"time"

	"github.com/purserpay/purser/pay"
)

const (
	attentionShown = 3
	// disputeTime is the age up to which the overview shows a disputed payment. It cannot change
	// any more, and stays in the lists.
	disputeTime = 30 * 24 * time.Hour
	// nothingTime is the same for a payment that brought nothing.
	nothingTime = 7 * 24 * time.Hour
	// openLooked bounds the open payments that are searched for expired ones.
	openLooked = 50
)

// attention lists payments of a kind that needs a person.
type attention struct {
	Name, Advice string
	MorePath     string // the way to the others
	Payments     []paymentRow
}

func (d *dashboard) attention(ctx context.Context, v visit) (groups []attention, err error) {
	for _, g := range []struct {
		label, name, advice string
		limit               int
		counts              func(*pay.Payment) bool
	}{
		{
			"disputed", "Disputed",
			"The seller or the facilitator reported these payments as settled, but the chain does not have them. purser took the spend back. Find out which of them was wrong before you pay that seller again.",
			attentionShown + 1, func(p *pay.Payment) bool { return v.now.Sub(p.Created) < disputeTime },
		},
		{
			"undelivered", "Paid and not delivered",
			"These sellers have the money, and answered with an error, with nothing, or not at all. After several in a row, purser pauses the host for the key, until a person lets it on again on the page of the key. To pay it nothing from now on, forbid it in the limits of the key.",
			attentionShown + 1, func(p *pay.Payment) bool { return p.PaidForNothing() && v.now.Sub(p.Created) < nothingTime },
		},
		{
			"unresolved", "Unresolved",
			"These payments have expired, and purser does not know whether the money moved. With PURSER_RPC_URL set, purser finds out from the chain. Without it, ask the seller; the operator then closes them with the command purser payments resolve.",
			attentionShown + 1, func(*pay.Payment) bool { return true },
		},
		{
			"open", "Open and expired",
			"These payments were sent and have expired since. purser is checking whether the money moved, and keeps it reserved until then. You do not have to do anything.",
			openLooked, func(p *pay.Payment) bool { return !p.Refused && !p.Unresolved && v.now.After(p.ValidBefore()) },
		},
	} {
		list, err := d.Books.PaymentsIn(ctx, v.scope(), g.label, g.limit)
		if err != nil {
			return nil, err
		}
		a := attention{Name: g.name, Advice: g.advice}
		for _, p := range list {
			if !g.counts(p) {
				continue
			}
			if len(a.Payments) == attentionShown {
				a.MorePath = "/dashboard/payments?state=" + g.label
				break
			}
			a.Payments = append(a.Payments, rowOf(p, momentOf(p.Created, "2 Jan, 15:04")))
		}
		if len(a.Payments) > 0 {
			groups = append(groups, a)
		}
	}
	return groups, nil
}
