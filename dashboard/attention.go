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

// attention lists payments that need a person.
type attention struct {
	Title  string
	Groups []attentionGroup
}

type attentionGroup struct {
	Name, Advice   string
	More, MorePath string // the way to the others
	Payments       []paymentRow
}

// attention returns the payments that need a person, or nil without any.
func (d *dashboard) attention(ctx context.Context, v visit) (*attention, error) {
	var a attention
	for _, g := range []struct {
		label  string
		group  attentionGroup
		limit  int
		counts func(*pay.Payment) bool
	}{
		{"disputed", attentionGroup{
			Name:   "Disputed",
			Advice: "Somebody said that these were settled, and the chain says that they were not. The spend was taken back. Find out who said so before you pay that seller again.",
		}, attentionShown + 1, func(p *pay.Payment) bool { return v.now.Sub(p.Created) < disputeTime }},
		{"unresolved", attentionGroup{
			Name:   "Unresolved",
			Advice: "These have expired and nobody could tell whether the money moved. With PURSER_RPC_URL set, purser finds out on the chain by itself. Without it, ask the seller, and whoever runs this purser closes them with what they know.",
		}, attentionShown + 1, func(*pay.Payment) bool { return true }},
		{"open", attentionGroup{
			Name:   "Open and expired",
			Advice: "These were sent, and cannot move money any more if they have not yet. purser is looking for evidence of what became of them; their money stays reserved until then. There is nothing to do.",
		}, openLooked, func(p *pay.Payment) bool { return !p.Refused && !p.Unresolved && v.now.After(p.ValidBefore()) }},
	} {
		list, err := d.Books.OrganizationPayments(ctx, v.org(), g.label, g.limit)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			if !g.counts(p) {
				continue
			}
			if len(g.group.Payments) == attentionShown {
				g.group.More, g.group.MorePath = "All of them", "/dashboard/payments?state="+g.label
				break
			}
			g.group.Payments = append(g.group.Payments, rowOf(p, momentOf(p.Created, "2 Jan, 15:04")))
		}
		if len(g.group.Payments) > 0 {
			a.Groups = append(a.Groups, g.group)
		}
	}
	if len(a.Groups) == 0 {
		return nil, nil //nolint:nilnil // nil means none
	}
	a.Title = "Payments that want a look"
	return &a, nil
}
