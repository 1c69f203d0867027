package dashboard

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
)

const (
	depositDays = 30
	depositRows = 25
	// depositsAgain is the time for which a list is shown again. Reading one is many questions to an RPC.
	depositsAgain = 30 * time.Second
	// depositsAtOnce bounds the lists that are read at once, by all visitors.
	depositsAtOnce = 2
	maxDeposits    = 1000
)

// deposits tells of transfers to a wallet, or why none are known.
type deposits struct {
	List     []depositRow
	Decimals string
	Note     string // since when they are listed, or why they are unknown
	Unknown  bool
	When     moment
}

type depositRow struct {
	When        *moment // nil: not known
	Block       string
	Amount      amount
	From        string
	Transaction transaction
}

// depositsKept remembers lists for some seconds.
type depositsKept struct {
	reading chan struct{} // of depositsAtOnce
	mu      sync.Mutex
	lists   map[string]keptDeposits // by wallet id
}

type keptDeposits struct {
	list  treasury.Deposits
	at    time.Time
	until time.Time
}

func newDepositsKept() depositsKept {
	return depositsKept{reading: make(chan struct{}, depositsAtOnce), lists: map[string]keptDeposits{}}
}

func (k *depositsKept) get(walletID string, now time.Time) (keptDeposits, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.lists, func(_ string, d keptDeposits) bool { return !now.Before(d.until) })
	d, ok := k.lists[walletID]
	return d, ok
}

func (k *depositsKept) put(walletID string, d keptDeposits) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.lists) < maxDeposits {
		k.lists[walletID] = d
	}
}

// depositsPart serves GET /dashboard/wallets/{id}/deposits, which the wallet's page loads on request.
func (d *dashboard) depositsPart(r *http.Request, v visit, w pay.Wallet, _ pay.Key) (answer, error) {
	if r.Header.Get("HX-Request") != "true" {
		return answer{redirect: walletPath(w.ID) + "?deposits=now"}, nil
	}
	return answer{page: "wallet", part: "deposits", body: d.depositsOf(r.Context(), v, w)}, nil
}

// depositsOf asks the chain for the deposits of the last days.
func (d *dashboard) depositsOf(ctx context.Context, v visit, w pay.Wallet) deposits {
	kept, known := d.deposits.get(w.ID, v.now)
	if !known {
		var err error
		if kept, err = d.readDeposits(ctx, v, w); err != nil {
			return d.noDeposits(w, err)
		}
	}
	shown := deposits{When: momentOf(kept.at, "15:04:05 UTC")}
	var sums []amount
	for _, one := range kept.list.List {
		row := depositRow{
			Block: strconv.FormatUint(one.Block, 10), Amount: amountOf(one.Value, false, kept.list.Asset.Symbol), From: one.From.String(),
			Transaction: d.transaction(w.Network, one.Transaction),
		}
		if !one.Time.IsZero() {
			row.When = new(momentOf(one.Time, inTable))
		}
		shown.List, sums = append(shown.List, row), append(sums, row.Amount)
	}
	shown.Decimals = column(sums...)
	since := momentOf(kept.list.Since, inText).Text
	switch {
	case kept.list.Partial && len(shown.List) == depositRows:
		shown.Note = "These are the newest " + strconv.Itoa(depositRows) + ", back to " + since + "."
	case kept.list.Partial:
		shown.Note = "The chain's RPC told of the time since " + since + " only: it took too long. purser statement reads further back."
	case len(shown.List) == 0:
		shown.Note = "Nothing came in during the last " + strconv.Itoa(depositDays) + " days."
	default:
		shown.Note = "All that came in during the last " + strconv.Itoa(depositDays) + " days."
	}
	return shown
}

func (d *dashboard) readDeposits(ctx context.Context, v visit, w pay.Wallet) (kept keptDeposits, err error) {
	select {
	case d.deposits.reading <- struct{}{}:
		defer func() { <-d.deposits.reading }()
	case <-ctx.Done():
		return kept, ctx.Err()
	}
	if kept, known := d.deposits.get(w.ID, d.Clock()); known { // another visitor has waited for it
		return kept, nil
	}
	kept.list, err = treasury.Of(d.Payer).Deposits(ctx, w, v.now.AddDate(0, 0, -depositDays), depositRows)
	if err == nil {
		kept.at = v.now
		kept.until = v.now.Add(depositsAgain)
		d.deposits.put(w.ID, kept)
	}
	return kept, err
}

func (d *dashboard) noDeposits(w pay.Wallet, err error) deposits {
	switch {
	case errors.Is(err, pay.ErrNoAddress):
		return deposits{Unknown: true, Note: "This wallet has no address."}
	case errors.Is(err, pay.ErrNoChain):
		return deposits{Unknown: true, Note: "purser has no connection to this chain. Its operator sets " + d.Payer.RPCSetting(w.Network) + ", and deposits appear here."}
	}
	d.Logger.Warn("deposits not known", "wallet", w.ID, "error", err)
	return deposits{Unknown: true, Note: "The chain's RPC does not answer at the moment. The wallet is not affected: try again soon."}
}
