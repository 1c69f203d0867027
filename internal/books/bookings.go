package books

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/bookkeeping"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// BookingQuery selects bookings.
type BookingQuery struct {
	KeyID    string // one key of the scope; "" is all of them
	WalletID string // "" is any
	Host     string // or a tool: see [pay.RecordedPlace]; "" is any
	Task     string // "" is any
	Over     bookkeeping.Range
}

// Bookings lists the bookings of a scope's keys, oldest first, at a cost of one page in memory. It reads the
// list twice, because the store lists the newest first. ErrKeyNotFound; *InputError for an invalid task.
func (b *Books) Bookings(ctx context.Context, s Scope, q BookingQuery) iter.Seq2[bookkeeping.Booking, error] {
	return func(yield func(bookkeeping.Booking, error) bool) {
		if err := b.visitBookings(ctx, s, q, func(e bookkeeping.Booking) bool { return yield(e, nil) }); err != nil {
			yield(bookkeeping.Booking{}, err)
		}
	}
}

func (b *Books) visitBookings(ctx context.Context, s Scope, q BookingQuery, visit func(bookkeeping.Booking) bool) error {
	if err := checkTask(q.Task); err != nil {
		return err
	}
	keys, err := b.KeysIn(ctx, s)
	if err != nil {
		return err
	}
	names, labels := bookkeeping.KeyNames(keys), make(map[string]string, len(keys))
	var ids []string
	for _, k := range keys {
		if labels[k.ID] = k.Label; q.KeyID == "" || q.KeyID == k.ID {
			ids = append(ids, k.ID)
		}
	}
	if q.KeyID != "" && len(ids) == 0 {
		return pay.ErrKeyNotFound
	}
	host, tool := pay.RecordedPlace(q.Host)
	list := pay.OrganizationSpendQuery{Host: host, Tool: tool, Task: q.Task, From: q.Over.From, To: q.Over.To, Limit: pageSize(500)}
	if !list.To.IsZero() {
		list.To = list.To.Add(-1) // its day is included
	}
	cursors, newest, err := b.pagesOf(ctx, ids, list)
	if err != nil {
		return err
	}
	for _, before := range slices.Backward(cursors) {
		page := pay.SpendPage{}
		list.Before = before
		if before == "" {
			page.Entries = newest
		} else if page, err = b.reader.ListSpend(ctx, ids, list); err != nil {
			return err
		}
		for _, e := range slices.Backward(page.Entries) {
			if !q.Over.Has(e.Created) || q.WalletID != "" && e.WalletID != q.WalletID {
				continue
			}
			if !visit(bookkeeping.Of(e, labels[e.KeyID], names[e.KeyID])) {
				return nil
			}
		}
	}
	return nil
}

// pagesOf finds the cursors of all pages, the newest page first, and returns that page. Events that come
// later do not move the others.
func (b *Books) pagesOf(ctx context.Context, ids []string, list pay.OrganizationSpendQuery) (cursors []string, newest []pay.SpendEntry, err error) {
	cursors = []string{""}
	for {
		page, err := b.reader.ListSpend(ctx, ids, list)
		if err != nil {
			return nil, nil, err
		}
		if len(cursors) == 1 {
			newest = page.Entries
		}
		if page.Next == "" {
			return cursors, newest, nil
		}
		list.Before = page.Next
		cursors = append(cursors, page.Next)
	}
}

// Past tells what wallets held and moved: see [pay.Payer].
type Past interface {
	History(ctx context.Context, q treasury.HistoryQuery) (treasury.History, error)
	BlockTime(ctx context.Context, network string, number uint64) (time.Time, error)
}

// StatementQuery selects what a statement is of.
type StatementQuery struct {
	KeyID, WalletID string // "" is all
	Over            bookkeeping.Range
	// Past compares with the chain; nil: nothing is compared, because of Why.
	Past Past
	Why  string
}

// Tally adds up the bookings of a scope and compares them with the chain, as far as that is possible.
// ErrKeyNotFound.
func (b *Books) Tally(ctx context.Context, s Scope, q StatementQuery) (*bookkeeping.Tally, error) {
	t := bookkeeping.NewTally(q.Over)
	around := bookkeeping.Range{From: q.Over.From.Add(-bookkeeping.TallyMargin), To: q.Over.To.Add(bookkeeping.TallyMargin)}
	for e, err := range b.Bookings(ctx, s, BookingQuery{KeyID: q.KeyID, WalletID: q.WalletID, Over: around}) {
		if err != nil {
			return nil, err
		}
		t.Add(e)
	}
	own, err := b.ownWallets(ctx, s, q.WalletID)
	if err != nil {
		return nil, err
	}
	byNetwork := map[string][]x402.Address{}
	for _, name := range t.Wallets() {
		t.NotCompared(name, "the wallet is lent by another owner")
	}
	for _, w := range own {
		name := bookkeeping.WalletName{Network: w.Network, Address: strings.ToLower(w.Address.String())}
		if n, known := x402.NetworkByWire(w.Network); known {
			t.AddWallet(name, w.ID, n.Assets[0].Currency(), n.Assets[0].Decimals)
		}
		switch {
		case q.Past == nil:
			t.NotCompared(name, q.Why)
		case q.KeyID != "":
			t.NotCompared(name, "only one key's payments were asked for")
		default:
			byNetwork[w.Network] = append(byNetwork[w.Network], *w.Address)
		}
	}
	for network, wallets := range byNetwork {
		if err := b.compare(ctx, t, q, network, wallets); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// compare asks a network's chain. It notes the wallets of which the chain does not tell.
func (b *Books) compare(ctx context.Context, t *bookkeeping.Tally, q StatementQuery, network string, wallets []x402.Address) error {
	h, err := q.Past.History(ctx, treasury.HistoryQuery{Network: network, Wallets: wallets, From: q.Over.From, To: q.Over.To})
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	open := map[x402.Address][]bookkeeping.OpenPayment{}
	if err == nil {
		open, err = b.openPayments(ctx, network)
	}
	for _, w := range wallets {
		name := bookkeeping.WalletName{Network: network, Address: strings.ToLower(w.String())}
		if err != nil {
			t.NotCompared(name, err.Error())
			continue
		}
		t.NotCompared(name, "")
		if err := t.Compare(name, h, open[w]); err != nil {
			return err
		}
	}
	return nil
}

// ownWallets lists the wallets of a scope that have an address, deleted ones too.
func (b *Books) ownWallets(ctx context.Context, s Scope, id string) (own []pay.Wallet, err error) {
	keys, err := b.KeysIn(ctx, s)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(keys))
	for _, k := range keys {
		seen[k.ID] = true
	}
	all, err := everything(func(after string, limit int) ([]pay.Wallet, error) { return b.reader.AllWallets(ctx, after, limit) },
		func(w pay.Wallet) string { return w.ID })
	for _, w := range all {
		if w.Address != nil && seen[w.KeyID] && (id == "" || w.ID == id) {
			own = append(own, w)
		}
	}
	return own, err
}

// maxOpen bounds the open payments that are compared with transfers.
const maxOpen = 10_000

// openPayments lists the newest open payments of a network, by wallet.
func (b *Books) openPayments(ctx context.Context, network string) (map[x402.Address][]bookkeeping.OpenPayment, error) {
	found := map[x402.Address][]bookkeeping.OpenPayment{}
	for before, count := "", 0; count < maxOpen; {
		page, err := b.reader.AllPayments(ctx, pay.LabelQuery{Label: string(pay.Open), Before: before, Limit: pageSize(500)})
		if err != nil {
			return nil, fmt.Errorf("open payments: %w", err)
		}
		for _, p := range page {
			before = p.ID
			if p.Terms.Network == network {
				from := p.Authorization.From
				found[from] = append(found[from], bookkeeping.OpenPayment{ID: p.ID, Host: p.Host, Tool: policy.ToolOf(p.RequestURL), To: p.Terms.PayTo, Amount: p.Moved()})
			}
		}
		if count += len(page); len(page) < pageSize(500) {
			break
		}
	}
	return found, nil
}
