package dashboard

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/bookkeeping"
	"github.com/purserpay/purser/pay"
)

const (
	exportRows = 500 // per page
	// exportPause is the time that a client has to read one page of the export.
	exportPause = time.Minute
	// exportTime is RFC 3339 with milliseconds, which separate events of one second.
	exportTime = "2006-01-02T15:04:05.000Z07:00"
)

var exportHead = []string{
	"id", "created_at", "amount", "currency", "host", "request_url", "task", "key_id", "key_label",
	"payment_id", "corrects", "network", "settlement", "transaction", "flags", "kind", "protocol", "rail",
}

// exportSpend serves GET /dashboard/spend.csv: every event that the filter selects, newest first.
// It reads page by page. Amounts are exact, in whole USDC; those of corrections are negative.
func (d *dashboard) exportSpend(r *http.Request, v visit) (answer, error) {
	f := filterOf(r.URL.Query(), v.now)
	for _, w := range f.wrong {
		return answer{}, &pay.InputError{Field: w.Field, Reason: w.Text}
	}
	want, err := f.spendQuery("", exportRows)
	if err != nil {
		return answer{}, err
	}
	keys, err := d.Books.KeysIn(r.Context(), v.scope())
	if err != nil {
		return answer{}, err
	}
	first, err := d.exportPage(r.Context(), v, want)
	if err != nil {
		return answer{}, err // an error page can still be sent
	}
	leave, err := d.throttle.enterExport(v.scope().String())
	if err != nil {
		return answer{}, err
	}
	labels := make(map[string]string, len(keys))
	for _, k := range keys {
		labels[k.ID] = k.Label
	}
	return answer{stream: func(w http.ResponseWriter, r *http.Request) error {
		defer leave()
		h := w.Header()
		h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
		h.Set("Content-Disposition", `attachment; filename="purser-spend-`+v.now.Format(isoDay)+`.csv"`)
		if r.Method == http.MethodHead {
			return nil
		}
		e := export{Writer: csv.NewWriter(w), control: http.NewResponseController(w), labels: labels}
		if err := e.Write(exportHead); err != nil {
			return err
		}
		for page := first; ; {
			if err := e.page(page); err != nil || page.Next == "" {
				return err
			}
			want.Before = page.Next
			var err error
			if page, err = d.nextPage(r.Context(), v, want); err != nil {
				return err
			}
		}
	}}, nil
}

// nextPage reads the next page, while the visitor is signed in.
func (d *dashboard) nextPage(ctx context.Context, v visit, want pay.OrganizationSpendQuery) (pay.SpendPage, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	if err := d.stillIn(ctx, v); err != nil {
		return pay.SpendPage{}, err
	}
	return d.exportPage(ctx, v, want)
}

// stillIn checks that the gate would still admit the visitor. A slow client can draw an export out
// for hours. Signing out, here or everywhere, ends the export too.
func (d *dashboard) stillIn(ctx context.Context, v visit) error {
	if _, err := d.Books.Session(ctx, v.Session); err != nil {
		return fmt.Errorf("looking at the session again: %w", err)
	}
	if v.All {
		epoch, err := d.Books.OperatorEpoch(ctx)
		if err == nil && epoch != v.Epoch {
			err = pay.ErrSessionNotFound
		}
		if err != nil || v.Account.ID == "" {
			return err
		}
	}
	a, err := d.Books.Account(ctx, v.Account.ID)
	if err == nil && a.Generation != v.Account.Generation {
		err = pay.ErrSessionNotFound
	}
	if err != nil {
		return fmt.Errorf("looking at the account again: %w", err)
	}
	return nil
}

func (d *dashboard) exportPage(ctx context.Context, v visit, want pay.OrganizationSpendQuery) (pay.SpendPage, error) {
	leave, err := d.throttle.read(ctx, v.scope().String())
	if err != nil {
		return pay.SpendPage{}, err
	}
	defer leave()
	return d.Books.SpendIn(ctx, v.scope(), want)
}

// kindOf is the word of bookings for a row.
func kindOf(withdraws bool) string {
	if withdraws {
		return string(bookkeeping.Withdrawal)
	}
	return string(bookkeeping.Payment)
}

type export struct {
	*csv.Writer
	control *http.ResponseController
	labels  map[string]string // of keys, by id
}

func (e export) page(p pay.SpendPage) error {
	rows := make([][]string, 0, len(p.Entries))
	for _, s := range p.Entries {
		sign := ""
		if s.Corrects != "" {
			sign = "-"
		}
		row := []string{
			s.ID, s.Created.UTC().Format(exportTime), sign + s.Amount.Format(decimals), s.Currency, s.Host, s.RequestURL, s.Task, s.KeyID, e.labels[s.KeyID],
			s.PaymentID, s.Corrects, s.Network, s.Settlement, s.Transaction, strings.Join(s.Flags, " "), kindOf(s.Withdraws()), s.Protocol, s.Rail,
		}
		for i := range row {
			if i != 2 { // the amount is a number of ours
				row[i] = bookkeeping.Inert(row[i])
			}
		}
		rows = append(rows, row)
	}
	return e.rows(rows)
}

// rows sends a part of the file.
func (e export) rows(rows [][]string) error {
	if err := e.control.SetWriteDeadline(time.Now().Add(exportPause)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("bounding the export: %w", err)
	}
	for _, row := range rows {
		if err := e.Write(row); err != nil {
			return err
		}
	}
	if e.Flush(); e.Error() != nil {
		return e.Error()
	}
	if err := e.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
