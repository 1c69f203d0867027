package dashboard

import (
	"context"
	"encoding/csv"
	"net/http"
	"strconv"
	"strings"

	"github.com/purserpay/purser/internal/bookkeeping"
	"github.com/purserpay/purser/pay"
)

// csvPage is a part of an export. Cells in which a spreadsheet could see a formula are inert.
type csvPage struct {
	rows [][]string
	next string // the cursor of the following page; "" at the end
}

// exportCSV streams a file page by page.
func (d *dashboard) exportCSV(r *http.Request, v visit, name string, head []string, read func(ctx context.Context, before string) (csvPage, error)) (answer, error) {
	turn := func(ctx context.Context, before string) (csvPage, error) {
		leave, err := d.throttle.read(ctx, v.scope().String())
		if err != nil {
			return csvPage{}, err
		}
		defer leave()
		return read(ctx, before)
	}
	first, err := turn(r.Context(), "")
	if err != nil {
		return answer{}, err // an error page can still be sent
	}
	leave, err := d.throttle.enterExport(v.scope().String())
	if err != nil {
		return answer{}, err
	}
	return answer{stream: func(w http.ResponseWriter, r *http.Request) error {
		defer leave()
		h := w.Header()
		h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
		h.Set("Content-Disposition", `attachment; filename="purser-`+name+`-`+v.now.Format(isoDay)+`.csv"`)
		if r.Method == http.MethodHead {
			return nil
		}
		e := export{Writer: csv.NewWriter(w), control: http.NewResponseController(w)}
		if err := e.Write(head); err != nil {
			return err
		}
		for page := first; ; {
			if err := e.rows(page.rows); err != nil || page.next == "" {
				return err
			}
			ctx, cancel := context.WithTimeout(r.Context(), pageTime)
			err := d.stillIn(ctx, v)
			if err == nil {
				page, err = turn(ctx, page.next)
			}
			cancel()
			if err != nil {
				return err
			}
		}
	}}, nil
}

// exportFilter reads the filter of an export: *pay.InputError.
func exportFilter(r *http.Request, v visit) (filter, error) {
	f := filterOf(r.URL.Query(), v.now)
	for _, w := range f.wrong {
		return f, &pay.InputError{Field: w.Field, Reason: w.Text}
	}
	return f, nil
}

// keyLabels returns the labels of the visitor's keys by id.
func (d *dashboard) keyLabels(ctx context.Context, v visit) (map[string]string, error) {
	keys, err := d.Books.KeysIn(ctx, v.scope())
	labels := make(map[string]string, len(keys))
	for _, k := range keys {
		labels[k.ID] = k.Label
	}
	return labels, err
}

// exportPayments serves GET /dashboard/payments.csv: every payment that the filter selects, newest
// first.
func (d *dashboard) exportPayments(r *http.Request, v visit) (answer, error) {
	f, err := exportFilter(r, v)
	if err != nil {
		return answer{}, err
	}
	want, err := f.paymentFilter("", exportRows)
	if err != nil {
		return answer{}, err
	}
	labels, err := d.keyLabels(r.Context(), v)
	if err != nil {
		return answer{}, err
	}
	head := []string{
		"id", "created_at", "state", "flags", "amount", "currency", "host", "request_url", "task", "key_id", "key_label",
		"pay_to", "network", "settlement", "transaction", "closed_at", "reason", "kind", "protocol", "rail",
	}
	return d.exportCSV(r, v, "payments", head, func(ctx context.Context, before string) (page csvPage, err error) {
		want.Before = before
		list, err := d.Books.PaymentListIn(ctx, v.scope(), f.KeyID, want)
		for _, p := range list.Payments {
			closed := ""
			if !p.Closed.IsZero() {
				closed = p.Closed.UTC().Format(exportTime)
			}
			page.rows = append(page.rows, inertCells(
				p.ID, p.Created.UTC().Format(exportTime), string(p.State), strings.Join(p.Flags(), " "), p.Moved().Format(decimals), p.Currency, p.Host, p.RequestURL, p.Task,
				p.KeyID, labels[p.KeyID], p.Terms.PayTo.String(), p.Terms.Network, string(p.Terms.Settlement), p.Transaction, closed, p.Reason, kindOf(p.Withdraws()), p.Means().Protocol, p.Means().Rail,
			))
		}
		page.next = list.Next
		return page, err
	})
}

// exportDeclined serves GET /dashboard/declined.csv: every row that the filter selects.
func (d *dashboard) exportDeclined(r *http.Request, v visit) (answer, error) {
	f, err := exportFilter(r, v)
	if err != nil {
		return answer{}, err
	}
	f = declinedPeriod(f, v)
	labels, err := d.keyLabels(r.Context(), v)
	if err != nil {
		return answer{}, err
	}
	head := []string{"reason", "host", "key_id", "key_label", "count", "first_at", "last_at", "last_price", "currency", "last_task", "last_detail", "tool"}
	return d.exportCSV(r, v, "declined", head, func(ctx context.Context, _ string) (page csvPage, err error) {
		list, err := d.declinedIn(ctx, v, f)
		for _, one := range list {
			price, symbol := "", ""
			if one.Price != nil {
				price, symbol = one.Price.Format(decimals), currency
			}
			host, tool := one.Place()
			page.rows = append(page.rows, inertCells(
				one.Reason, host, one.KeyID, labels[one.KeyID], strconv.Itoa(one.Count), one.First.UTC().Format(exportTime), one.Last.UTC().Format(exportTime),
				price, symbol, one.Task, one.Detail, tool,
			))
		}
		return page, err
	})
}

// inertCells makes a row without formulas. No amount of these files is negative.
func inertCells(cells ...string) []string {
	for i := range cells {
		cells[i] = bookkeeping.Inert(cells[i])
	}
	return cells
}
