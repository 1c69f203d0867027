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
			"Somebody said that these were settled, and the chain says that they were not. The spend was taken back. Find out who said so before you pay that seller again.",
			attentionShown + 1, func(p *pay.Payment) bool { return v.now.Sub(p.Created) < disputeTime },
		},
		{
			"unresolved", "Unresolved",
			"These have expired and nobody could tell whether the money moved. With PURSER_RPC_URL set, purser finds out on the chain by itself. Without it, ask the seller, and whoever runs this purser closes them with what they know.",
			attentionShown + 1, func(*pay.Payment) bool { return true },
		},
		{
			"open", "Open and expired",
			"These were sent, and cannot move money any more if they have not yet. purser is looking for evidence of what became of them; their money stays reserved until then. There is nothing to do.",
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
