package treasury

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

// openPage is the number of payments that are read at once.
const openPage = 500

// Authorizations lists the payments that a part of a wallet's balance is kept for, newest first.
func (t Treasury) Authorizations(ctx context.Context, walletID string) ([]*pay.Payment, error) {
	var list []*pay.Payment
	// A payment that is not open is doubted or claimed until a safe block past its validity tells of it.
	oldest := t.Clock().Add(-24 * time.Hour)
	for _, q := range []pay.LabelQuery{
		{Label: string(pay.Open), Without: []string{"unresolved"}}, {Label: "unresolved"}, {Label: string(pay.Void)}, {Label: string(pay.Settled), Without: []string{"confirmed", "disputed"}},
	} {
		for q.Limit = openPage; ; {
			page, err := t.Store.AllPayments(ctx, q)
			if err != nil {
				return nil, fmt.Errorf("listing the payments of a wallet: %w", err)
			}
			over := len(page) < q.Limit
			for _, row := range page {
				if q.Label != string(pay.Open) && row.Created.Before(oldest) {
					over = true
					break
				}
				if row.WalletID == walletID && row.Reserves() {
					list = append(list, row)
				}
			}
			if over {
				break
			}
			q.Before = page[len(page)-1].ID
		}
	}
	slices.SortFunc(list, func(a, b *pay.Payment) int { return strings.Compare(b.ID, a.ID) })
	return list, nil
}
