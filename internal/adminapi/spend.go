package adminapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/bookkeeping"
	"github.com/purserpay/purser/pay"
)

// SpendEvent is a spend event as the admin endpoint lists it.
type SpendEvent struct {
	ID         string           `json:"id"`
	Kind       bookkeeping.Kind `json:"kind"` // "payment", or "withdrawal", which is no spend
	PaymentID  string           `json:"payment_id"`
	KeyID      string           `json:"key_id"`
	KeyLabel   string           `json:"key_label,omitempty"`
	Amount     string           `json:"amount"` // in the smallest unit, negative for a correction
	Currency   string           `json:"currency"`
	Network    string           `json:"network"`
	Settlement string           `json:"settlement"`
	pay.Means
	Host        string    `json:"host"`
	Task        string    `json:"task"`
	RequestURL  string    `json:"request_url"` // without its query
	Transaction string    `json:"transaction"`
	Flags       []string  `json:"flags"`
	Corrects    string    `json:"corrects,omitempty"`
	Created     time.Time `json:"created_at"`
}

// Spend is a page of spend events. It may have few, or none, and not be the last.
type Spend struct {
	Spend []SpendEvent `json:"spend"`
	Next  string       `json:"next,omitempty"`
}

// spendKeys keys are listed together, newest event first; the events of the next ones follow. It
// bounds the cost of a page, however many keys there are.
const spendKeys = 1000

func shownSpent(e pay.SpendEntry) SpendEvent {
	where, _, _ := strings.Cut(e.RequestURL, "?") // the query may hold a seller's key
	flags := e.Flags
	if flags == nil {
		flags = []string{}
	}
	kind := bookkeeping.Payment
	if e.Withdraws() {
		kind = bookkeeping.Withdrawal
	}
	return SpendEvent{
		ID: e.ID, Kind: kind, PaymentID: e.PaymentID, KeyID: e.KeyID, Amount: e.SignedAmount(), Currency: e.Currency, Network: e.Network,
		Settlement: e.Settlement, Means: e.Means, Host: e.Host, Task: e.Task, RequestURL: where, Transaction: e.Transaction,
		Flags: flags, Corrects: e.Corrects, Created: e.Created,
	}
}

// spend lists what keys spent, and withdrawals:
// GET /purser/spend?key=&task=&host=&since=&until=&limit=&before=. Days are those of UTC.
func (p *Purser) spend(r *http.Request) (any, error) {
	asked := r.URL.Query()
	limit, err := pageLimit(asked, DefaultPage, MaxPage)
	if err != nil {
		return nil, err
	}
	q := pay.OrganizationSpendQuery{Task: asked.Get("task"), Host: asked.Get("host"), Limit: limit}
	for name, day := range map[string]*time.Time{"since": &q.From, "until": &q.To} {
		if text := asked.Get(name); text != "" {
			if *day, err = time.Parse(time.DateOnly, text); err != nil {
				return nil, Errorf(http.StatusBadRequest, "%s: a day such as 2026-11-01", name)
			}
		}
	}
	page, err := p.spendOf(r.Context(), asked.Get("key"), asked.Get("before"), q)
	if err != nil {
		return nil, err
	}
	answer := Spend{Spend: make([]SpendEvent, len(page.Entries)), Next: page.Next}
	for i, e := range page.Entries {
		answer.Spend[i] = shownSpent(e)
	}
	err = nameKeys(p, r.Context(), answer.Spend, func(e *SpendEvent) (string, *string) { return e.KeyID, &e.KeyLabel })
	return answer, err
}

// spendOf lists the spending of a key, or without one that of all keys. There the position is the key
// behind which the keys begin that are being listed, and the event behind which to go on with them.
func (p *Purser) spendOf(
	ctx context.Context, key, position string, q pay.OrganizationSpendQuery,
) (page pay.SpendPage, err error) {
	if key != "" {
		k, err := p.find(ctx, key)
		if err != nil {
			return page, err
		}
		q.Before = position
		return p.Books.AnySpend(ctx, []string{k.ID}, q)
	}
	after, before, found := strings.Cut(position, ".")
	if position != "" && !found {
		return page, &pay.InputError{Field: "before", Reason: "not a position in this list"}
	}
	q.Before = before
	keys, err := p.Books.Keys(ctx, after, spendKeys)
	if err != nil || len(keys) == 0 {
		return page, err
	}
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.ID
	}
	page, err = p.Books.AnySpend(ctx, ids, q)
	switch {
	case page.Next != "":
		page.Next = after + "." + page.Next
	case len(keys) == spendKeys:
		page.Next = ids[len(ids)-1] + "."
	}
	return page, err
}
