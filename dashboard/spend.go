package dashboard

import (
	"context"
	"net/http"
	"slices"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const spendRows = 50

type spendPage struct {
	listing
	Views  []tab
	Events []spendRow
	Tools  *toolList // in the place of events; nil: they are listed
}

type spendRow struct {
	When             moment
	Site             site
	Path, Task       string // Path is that of the payment
	KeyName, KeyPath string
	Amount           amount
	Payee, PayeePath string
	Transaction      transaction
	Corrects         string // page of the corrected payment
	Warning          *state
}

// spend serves GET /dashboard/spend. The query is a filter: see filterOf. ?before= is the end of the
// previous page. ?by=tool adds up what tools cost.
func (d *dashboard) spend(r *http.Request, v visit) (answer, error) {
	keys, err := d.Books.KeysIn(r.Context(), v.scope())
	if err != nil {
		return answer{}, err
	}
	q := r.URL.Query()
	f, before := filterOf(q, v.now), q.Get("before")
	f.State = "" // money that moved has one
	if q.Get("by") == byTool {
		f.By, before = byTool, ""
	}
	p := spendPage{listing: listingOf(spendPath, f, before, keys), Views: spendViews(f)}
	a := answer{page: "spend", title: "Spend", nav: spendPath}
	if len(f.wrong) > 0 {
		a.status, a.body = http.StatusUnprocessableEntity, p
		return a, nil
	}
	if f.By != "" {
		if err := d.spendByTool(r.Context(), v, &p); err != nil {
			return answer{}, err
		}
		a.body = p
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
	if p.end(len(page.Entries), page.Next, "") {
		p.Unused = unused{"Nothing is spent yet. A payment appears here when it is settled. To try one:", d.tryCommands(r)}
	}
	a.body = p
	return a, nil
}

// spendViews leads to the lists of Spend.
func spendViews(f filter) []tab {
	each, tools := f, f
	each.By, tools.By = "", byTool
	return []tab{{"Each payment", each.path(), f.By == ""}, {"By tool", tools.path(), f.By == byTool}}
}

// spendByTool fills a page with what tools cost.
func (d *dashboard) spendByTool(ctx context.Context, v visit, p *spendPage) error {
	list, err := d.tools(ctx, v, p.filter)
	if err != nil {
		return err
	}
	if p.Sums, err = d.spendSums(ctx, v, p.filter); err != nil {
		return err
	}
	if list.Caption = "What tools of MCP servers cost, the most expensive first"; len(list.Rows) > 0 {
		p.Tools = &list
		return nil
	}
	each := p.filter
	each.By = ""
	p.None = emptyList{"No tool of an MCP server was paid here. " + list.Note, each.path(), "Show each payment"}
	return nil
}

func (d *dashboard) spendRow(e pay.SpendEntry, f filter, named map[string]string) spendRow {
	row := spendRow{
		When: momentOf(e.Created, inTable), Site: siteOf(e.RequestURL), Task: cut(e.Task, maxName),
		KeyName: named[e.KeyID], KeyPath: keyPath(e.KeyID), Amount: amountOf(e.Amount, e.Corrects != "", cut(e.Currency, 12)),
		Transaction: d.transaction(e.Network, e.Transaction), Path: paymentsPath + "/" + e.PaymentID,
	}
	row.Payee, row.PayeePath = payeeOf(e.PayTo, f, spendPath)
	switch {
	case e.Corrects != "":
		row.Corrects = row.Path
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
