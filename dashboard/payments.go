package dashboard

import (
	"net/http"
	"strings"

	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/pay"
)

const paymentRows = 50

type paymentsPage struct {
	listing
	About, Caption, Search string
	Payments               []paymentRow
}

// paymentLabels lists the labels by which payments can be filtered, with texts for each.
var paymentLabels = []struct{ label, name, about, none string }{
	{"", "All", "Every payment that purser began, whether the money moved or not.", "There is no payment yet."},
	{"open", "Open", "purser does not know yet whether the money moved. Most of these close within seconds.", "No payment is open."},
	{"settled", "Settled", "The money moved.", "No payment is settled yet."},
	{"confirmed", "Confirmed", "The money moved, and purser has seen that on the chain.", "No payment is confirmed yet."},
	{"void", "Not paid", "The money did not move, and it cannot move any more.", "There is none."},
	{"refused", "Refused", "The facilitator did not accept these payments. They do not count in your plan.", "No payment was refused."},
	{"unresolved", "Unresolved", "These payments expired, and purser could not find out whether the money moved. If you set PURSER_RPC_URL, purser finds out on the chain. You can also close them yourself: their pages say how.", "No payment is unresolved."},
	{"undelivered", "Not delivered", "The money moved, or may have, and the seller answered with an error, with nothing, or not at all.", "Every payment was delivered."},
	{"disputed", "Disputed", "The seller or the facilitator reported that the money moved, but the chain shows that it did not. purser has taken the spend back.", "No payment is disputed."},
}

// payments serves GET /dashboard/payments. The query is a filter: see filterOf. ?before= is the end
// of the previous page. ?q= is a search instead: see search.
func (d *dashboard) payments(r *http.Request, v visit) (answer, error) {
	q := r.URL.Query()
	f, before := filterOf(q, v.now), q.Get("before")
	p, known := paymentsPage{}, false
	never, sumName := "", ""
	for _, l := range paymentLabels {
		if l.label == f.State {
			if sumName = l.name; l.label == "" {
				sumName = spentName
			}
			known, p.About, never, p.Caption = true, l.about, l.none, l.name+" payments, newest first"
		}
	}
	if !known || before != "" && !isID(before) {
		return answer{}, errNotFound
	}
	keys, err := d.Books.KeysIn(r.Context(), v.scope())
	if err != nil {
		return answer{}, err
	}
	p.listing = listingOf(paymentsPath, f, before, keys)
	a := answer{page: "payments", title: "Payments", nav: paymentsPath}
	if text := strings.TrimSpace(q.Get("q")); text != "" {
		return d.searched(r, v, a, p, text, keys)
	}
	if len(f.wrong) > 0 {
		a.status, a.body = http.StatusUnprocessableEntity, p
		return a, nil
	}
	want, err := f.paymentFilter(before, paymentRows)
	if err != nil {
		return answer{}, err
	}
	page, err := d.Books.PaymentListIn(r.Context(), v.scope(), f.KeyID, want)
	if err != nil {
		return answer{}, err
	}
	total, err := d.Books.SumPaymentsIn(r.Context(), v.scope(), f.KeyID, want)
	if err != nil {
		return answer{}, err
	}
	p.Sums = sumsOf(sumName, total)
	p.rows(page.Payments, keys)
	if p.end(len(page.Payments), page.Next, never) {
		p.Unused = unused{never, d.tryCommands(r)}
	}
	a.body = p
	return a, nil
}

// rows adds payments to the list.
func (p *paymentsPage) rows(list []*pay.Payment, keys []pay.Key) {
	named := names(keys)
	var shown []amount
	for _, one := range list {
		row := rowOf(one, momentOf(one.Created, inTable))
		row.Payee, row.PayeePath = payeeOf(one.Terms.PayTo, p.filter, paymentsPath)
		row.KeyName, row.KeyPath = named[one.KeyID], keyPath(one.KeyID)
		p.Payments, shown = append(p.Payments, row), append(shown, row.Amount)
	}
	p.Decimals = column(shown...)
}

// searched answers a search: it leads to what was found, or shows several payments, or none.
func (d *dashboard) searched(r *http.Request, v visit, a answer, p paymentsPage, text string, keys []pay.Key) (answer, error) {
	found, err := d.search(r, v, text)
	if err != nil {
		return answer{}, err
	}
	if found.path != "" {
		return answer{redirect: found.path}, nil
	}
	p.Search, p.Pager = cut(text, maxSearch), pager{}
	p.About, p.Caption = "Payments of one transaction.", "Payments of the transaction"
	if p.rows(found.payments, keys); found.none != "" {
		p.About, p.None = paymentLabels[0].about, emptyList{found.none, paymentsPath, "Show all"}
	}
	a.body = p
	return a, nil
}

// maxSearch bounds the shown text of a search, in characters.
const maxSearch = 300

type paymentPage struct {
	ID, Task, PayTo, KeyName, KeyPath, Settlement, Network, Means, Flags, Reason, SellerSaid, Resolution, Story string
	Amount                                                                                                      amount
	State                                                                                                       state
	Site                                                                                                        site
	When, Valid, Closed                                                                                         moment
	Transaction                                                                                                 transaction
	Notes                                                                                                       []noted
	Commands                                                                                                    []command
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
		ID: one.ID, Task: cut(one.Task, maxTitle), PayTo: one.Terms.PayTo.String(), KeyName: label(k), KeyPath: keyPath(k.ID), Network: one.Terms.Network, Means: one.Means().Words(),
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
		p.SellerSaid = words.Quote(one.SellerSaid)
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
	return answer{page: "payment", title: "Payment of " + p.Amount.String(), nav: paymentsPath, body: p}, nil
}

// story describes a payment's state, and what to do about it.
func story(p *pay.Payment) string {
	switch {
	case p.Disputed:
		return "It was reported as settled, but the chain has no such transfer. A correction took the spend back. The agent may have got its answer all the same. Ask the seller, or the operator of the facilitator, before you pay through them again."
	case p.Unresolved:
		return "It has expired, and there is no evidence of whether the money moved. Its amount stays in the budgets of its day and month. With PURSER_RPC_URL set, purser looks for it on the chain. Without it, the operator closes the payment."
	case p.PaidForNothing():
		return "The money moved, and the request brought nothing: " + p.Answer() + ". A repeat of the request sends the same payment again, as long as the agent waits for it. If this goes on, forbid the host in the limits of the key."
	case p.State == pay.Settled && p.Confirmed:
		return "The money moved. purser has seen it on the chain, where it cannot change any more."
	case p.State == pay.Settled:
		return "The money moved, as the facilitator, the seller or the chain says. With an RPC, purser checks it on the chain once it cannot change any more."
	case p.State == pay.Void:
		return "No money moved, and none can any more. The payment counts against no budget and no plan."
	case p.Refused:
		return "The facilitator did not accept it. It does not count against the plan. Its amount returns to the budgets when it has expired."
	}
	return "purser has recorded it and does not know yet whether the money moved. Its amount is reserved until purser knows. A repeat of the request gets this payment again, never a second one."
}
