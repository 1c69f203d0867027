package dashboard

import (
	"net/http"
	"slices"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const spendRows = 50

type spendPage struct {
	Unused           bool // no money was ever spent
	Commands         []command
	Bar              filterBar
	Sums             sums
	Filtered         bool
	Events           []spendRow
	Decimals         string
	Later            bool // not the first page
	First, Next, CSV string
}

type spendRow struct {
	When             moment
	Site             site
	Task, TaskPath   string
	KeyName, KeyPath string
	Amount           amount
	Payee, PayeePath string
	Transaction      transaction
	PaymentPath      string
	Corrects         string // page of the corrected payment
	Warning          *state
}

// spend serves GET /dashboard/spend. The query is a filter: see filterOf. ?before= is the end of the
// previous page.
func (d *dashboard) spend(r *http.Request, v visit) (answer, error) {
	keys, err := d.Books.KeysIn(r.Context(), v.scope())
	if err != nil {
		return answer{}, err
	}
	q := r.URL.Query()
	f, before := filterOf(q, v.now), q.Get("before")
	f.State = "" // money that moved has one
	p := spendPage{
		Bar: barOf(spendPath, f, keys), Filtered: f.any(),
		Later: before != "", First: f.path(""), CSV: withQuery(spendPath+".csv", f.values()),
	}
	a := answer{page: "spend", title: "Spend", nav: spendPath}
	if len(f.wrong) > 0 {
		a.status, a.body = http.StatusUnprocessableEntity, p
		return a, nil
	}
	want, err := f.spendQuery(before, spendRows)
	if err != nil {
		return answer{}, err
	}
	page, err := d.Books.SpendIn(r.Context(), v.scope(), want)
	if err != nil {
		return answer{}, err
	}
	if p.Sums, err = d.spendSums(r.Context(), v, f); err != nil {
		return answer{}, err
	}
	named := names(keys)
	var shown []amount
	for _, e := range page.Entries {
		row := d.spendRow(e, f, named)
		p.Events, shown = append(p.Events, row), append(shown, row.Amount)
	}
	p.Decimals = column(shown...)
	if page.Next != "" {
		p.Next = f.path(page.Next)
	}
	if p.Unused = len(page.Entries) == 0 && page.Next == "" && !p.Filtered && before == ""; p.Unused {
		p.Commands = d.tryCommands(r)
	}
	a.body = p
	return a, nil
}

func (d *dashboard) spendRow(e pay.SpendEntry, f filter, named map[string]string) spendRow {
	row := spendRow{
		When: momentOf(e.Created, inTable), Site: siteOf(e.RequestURL), Task: cut(e.Task, maxName),
		KeyName: named[e.KeyID], KeyPath: keyPath(e.KeyID), Amount: amountOf(e.Amount, e.Corrects != "", cut(e.Currency, 12)),
		Transaction: d.transaction(e.Network, e.Transaction), PaymentPath: "/dashboard/payments/" + e.PaymentID,
	}
	row.Payee, row.PayeePath = payeeOf(e.PayTo, f, spendPath)
	if e.Task != "" {
		only := f
		only.Task = e.Task
		row.TaskPath = only.path("")
	}
	switch {
	case e.Corrects != "":
		row.Corrects = row.PaymentPath
		row.Transaction = transaction{}
	case slices.Contains(e.Flags, "disputed"):
		row.Warning = &state{"Disputed, taken back by a correction", "bad"}
	case slices.Contains(e.Flags, "undelivered"):
		row.Warning = &state{"Paid, not delivered", "warn"}
	case slices.Contains(e.Flags, "reconciled"):
		row.Warning = &state{"Found on the chain", ""}
	}
	return row
}

// payeeOf returns an address for a list, and the path of a page with the payments to it only.
func payeeOf(to x402.Address, f filter, page string) (text, path string) {
	if to == (x402.Address{}) {
		return "", ""
	}
	f.Payee = to.String()
	return f.Payee, f.on(page, "")
}
