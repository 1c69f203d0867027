package dashboard

import (
	"net/http"
	"strings"

	"github.com/purserpay/purser/pay"
)

const paymentRows = 100

type paymentsPage struct {
	Labels               []tab
	About, Caption, None string
	Payments             []paymentRow
	Decimals             string
	More                 string // the number of rows, when there may be more
}

// paymentLabels lists the labels by which payments can be filtered, with texts for each.
var paymentLabels = []struct{ label, name, about, none string }{
	{"", "All", "Every time money was about to move: also what was refused, and what never came to be.", "No payment yet."},
	{"open", "Open", "Journaled, and not known yet whether the money moved. Most of these close within seconds.", "Nothing is open."},
	{"settled", "Settled", "There is evidence that the money moved.", "Nothing was settled yet."},
	{"void", "Not paid", "There is evidence that the money did not move and cannot any more.", "There is none."},
	{"refused", "Refused", "The facilitator did not take them. Their place in the month was given back.", "None was refused."},
	{"unresolved", "Unresolved", "Expired, and nobody could tell whether the money moved. Set PURSER_RPC_URL, or close them by hand: their pages say how.", "None is unresolved. That is how it should be."},
	{"disputed", "Disputed", "Somebody said that the money moved, and the chain says that it did not. The spend was taken back by a correction.", "None is disputed. That is how it should be."},
}

// payments serves GET /dashboard/payments. ?state= is a state or a flag.
func (d *dashboard) payments(r *http.Request, v visit) (answer, error) {
	want := r.URL.Query().Get("state")
	p := paymentsPage{}
	known := false
	for _, l := range paymentLabels {
		path := "/dashboard/payments"
		if l.label != "" {
			path += "?state=" + l.label
		}
		current := l.label == want
		if p.Labels = append(p.Labels, tab{Name: l.name, Path: path, Current: current}); current {
			known, p.About, p.None, p.Caption = true, l.about, l.none, l.name+" payments, newest first"
		}
	}
	if !known {
		return answer{}, errNotFound
	}
	list, err := d.Books.PaymentsIn(r.Context(), v.scope(), want, paymentRows)
	if err != nil {
		return answer{}, err
	}
	var shown []amount
	for _, one := range list {
		row := rowOf(one, momentOf(one.Created, inTable))
		p.Payments, shown = append(p.Payments, row), append(shown, row.Amount)
	}
	p.Decimals = column(shown...)
	if len(list) == paymentRows {
		p.More = count(paymentRows)
	}
	return answer{page: "payments", title: "Payments", nav: "/dashboard/spend", body: p}, nil
}

type paymentPage struct {
	ID, Task, PayTo, KeyName, KeyPath, Settlement, Network, Flags, Reason, SellerSaid, Resolution, Story string
	Amount                                                                                               amount
	State                                                                                                state
	Site                                                                                                 site
	When, Valid, Closed                                                                                  moment
	Transaction                                                                                          transaction
	Notes                                                                                                []noted
	Commands                                                                                             []command
}

type noted struct {
	When moment
	Text string
}

// payment serves GET /dashboard/payments/{id}, with all that is known about a payment.
func (d *dashboard) payment(r *http.Request, v visit) (answer, error) {
	id, err := pathID(r)
	if err != nil {
		return answer{}, err
	}
	one, err := d.Books.PaymentIn(r.Context(), v.scope(), id)
	if err != nil {
		return answer{}, err
	}
	k, err := d.Books.KeyIn(r.Context(), v.scope(), one.KeyID)
	if err != nil {
		return answer{}, err
	}
	p := paymentPage{
		ID: one.ID, Task: cut(one.Task, maxTitle), PayTo: one.Terms.PayTo.String(), KeyName: label(k), KeyPath: keyPath(k.ID), Network: one.Terms.Network,
		Settlement: "the seller, when it gets the payload", Flags: strings.Join(one.Flags(), ", "), Reason: cut(one.Reason, maxTitle), Story: story(one),
		Amount: amountOf(one.Moved(), false, one.Currency), State: stateOf(one), Site: whole(one.RequestURL),
		When: momentOf(one.Created, inText), Valid: momentOf(one.ValidBefore(), inText), Transaction: d.transaction(one.Terms.Network, one.Transaction),
	}
	switch {
	case one.Reconciled:
		p.Settlement = "not known: the books were restored from before it"
	case one.Terms.Settlement == pay.SettlePayer:
		p.Settlement = "purser, through its facilitator"
	}
	if !one.Closed.IsZero() {
		p.Closed = momentOf(one.Closed, inText)
	}
	if one.Resolution != nil {
		p.Resolution = cut(one.Resolution.Reason, 1000)
	}
	if one.SellerSaid != "" {
		p.SellerSaid = pay.QuoteWords(one.SellerSaid)
	}
	if p.Transaction.Full != "" {
		p.Transaction.Text = p.Transaction.Full
	}
	for _, n := range one.Notes {
		p.Notes = append(p.Notes, noted{momentOf(n.At, "2 Jan, 15:04:05"), cut(n.Text, 500)})
	}
	if one.Unresolved {
		p.Commands = commands(
			[2]string{"the command that shows all that is known", "purser payments show " + one.ID},
			[2]string{"the command for money that moved", "purser payments resolve " + one.ID + " --as settled --reason 'the seller confirmed it'"},
			[2]string{"the command for money that did not move", "purser payments resolve " + one.ID + " --as void --reason 'the seller says that nothing came in'"},
		)
	}
	return answer{page: "payment", title: "Payment of " + p.Amount.String(), nav: "/dashboard/spend", body: p}, nil
}

// story describes a payment's state, and what to do about it.
func story(p *pay.Payment) string {
	switch {
	case p.Disputed:
		return "Somebody said that it was settled, and the chain disproves it: no such transfer is there. A correction has taken the spend back. The agent may have got its answer all the same. Ask the seller, or whoever runs the facilitator, before you pay through them again."
	case p.Unresolved:
		return "It has expired, and there is no evidence of what became of it. Its amount stays in the budgets of its day and month. With PURSER_RPC_URL set, purser finds the evidence on the chain by itself; without it, somebody who knows can say so."
	case p.State == pay.Settled && p.Confirmed:
		return "The money moved. It was seen on the chain, past the time when that could have changed."
	case p.State == pay.Settled:
		return "The money moved, by the word of the facilitator, the seller or the chain. purser checks it on the chain once it can no longer change, if it has an RPC."
	case p.State == pay.Void:
		return "No money moved, and none can any more. Its place in the month and in the budgets was given back."
	case p.Refused:
		return "The facilitator did not take it. Its place in the month was given back at once, its amount in the budgets follows when it has expired."
	}
	return "It was journaled, and it is not known yet whether the money moved. purser looks for evidence by itself; its amount is reserved until then. A request that is repeated gets the same payment again, never a second one."
}
