package dashboard

import (
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// pager leads to the other parts of a list, and to its export. Empty parts are not shown.
type pager struct{ First, Next, CSV, Note string }

// emptyList stands for a list without rows. Link names Path, where there are some.
type emptyList struct{ Text, Path, Link string }

// unused stands for a list that never had a row, with commands to try.
type unused struct {
	Text     string
	Commands []command
}

// listing is the part that Payments and Spend have in common.
type listing struct {
	Unused   unused
	Bar      filterBar
	Sums     sums
	Filtered bool
	Decimals string
	None     emptyList
	Pager    pager

	filter filter
}

// TaskPath leads to the list of a task, with the filter in force.
func (l listing) TaskPath(task string) string {
	l.filter.Task = task
	return l.filter.on(l.Bar.Path, "")
}

// listingOf begins a list with a filter, behind the end of the previous page.
func listingOf(page string, f filter, before string, keys []pay.Key) listing {
	l := listing{Bar: barOf(page, f, keys), Filtered: f.any(), filter: f, Pager: pager{CSV: withQuery(page+".csv", f.values())}}
	if before != "" {
		l.Pager.First = f.on(page, "")
	}
	return l
}

// end completes a list once its rows are known. next is the cursor of the following page, and never tells
// what stands where no filter hides a row. It reports whether the list never had a row.
func (l *listing) end(rows int, next, never string) (unused bool) {
	if next != "" {
		l.Pager.Next = l.filter.on(l.Bar.Path, next)
	}
	switch {
	case rows > 0 || next != "":
	case l.Pager.First != "":
		l.None = emptyList{"There is nothing older.", l.Pager.First, "Show the newest"}
	case len(l.filter.values()) == 1 && l.filter.State != "":
		l.None = emptyList{never, l.Bar.Path, "Show all"}
	case l.Filtered:
		l.None = emptyList{"Nothing matches the filter.", l.Bar.Path, "Show all"}
	default:
		l.None.Text = never
		return true
	}
	return false
}

// found is the answer to a search on the page of payments.
type found struct {
	path     string         // where the search leads; "": the list below
	payments []*pay.Payment // of one transaction
	none     string         // what there is not
}

// search finds a payment by its id, payments by their transaction, and else leads to the payments to a
// host or a payee, or for a tool. Ids and transactions are looked up; no list is read for them.
func (d *dashboard) search(r *http.Request, v visit, text string) (found, error) {
	if id, err := uuid.Parse(text); err == nil {
		_, err := d.Books.PaymentIn(r.Context(), v.scope(), id.String())
		switch {
		case errors.Is(err, pay.ErrPaymentNotFound):
			return found{none: "No payment has this id."}, nil
		case err != nil:
			return found{}, err
		}
		return found{path: paymentsPath + "/" + id.String()}, nil
	}
	if hash := strings.ToLower(text); x402.ValidTransaction(hash) {
		list, err := d.Books.TransactionIn(r.Context(), v.scope(), hash)
		switch {
		case err != nil:
			return found{}, err
		case len(list) == 0:
			return found{none: "No payment has this transaction."}, nil
		case len(list) == 1:
			return found{path: paymentsPath + "/" + list[0].ID}, nil
		}
		return found{payments: list}, nil
	}
	if _, err := x402.ParseAddress(text); err == nil {
		return found{path: filter{Payee: text}.on(paymentsPath, "")}, nil
	}
	host, tool := pay.RecordedPlace(text)
	if tool != "" {
		return found{path: filter{Host: tool}.on(paymentsPath, "")}, nil
	}
	if cut(host, maxHost) != host || strings.ContainsAny(host, " /") {
		return found{none: "This is no host, tool, id of a payment, transaction or payee."}, nil
	}
	return found{path: filter{Host: host}.on(paymentsPath, "")}, nil
}
