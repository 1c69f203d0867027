package adminapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/purserpay/purser/internal/bookkeeping"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/plainjson"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
)

// bookingsFlush is the number of bookings that are sent at once.
const bookingsFlush = 500

// statementTime bounds how long the chain is read for a statement. A month of a network with blocks every
// two seconds takes an RPC some hundred calls.
const statementTime = 15 * time.Minute

// bookings sends bookings, oldest first, each as a line of JSON:
// GET /purser/bookings?key=&wallet=&task=&host=&from=&to=&chain=true. Days are those of UTC; that of to is
// left out. With chain, there are also deposits and the transfers that only the chain tells of. An answer
// that is cut off lacks bookings; one that ends has them all.
func (h *Handler) bookings(w http.ResponseWriter, r *http.Request) error {
	p, err := h.purser()
	if err != nil {
		return err
	}
	if err := p.Enter(); err != nil {
		return Errorf(http.StatusServiceUnavailable, "%w", err)
	}
	defer p.Leave()
	asked := r.URL.Query()
	q, err := p.bookingQuery(r.Context(), asked)
	if err != nil {
		return failure(err)
	}
	var onlyChain []bookkeeping.Booking
	if asked.Get("chain") == "true" {
		if onlyChain, err = p.chainBookings(r.Context(), q); err != nil {
			return failure(err)
		}
	}
	out, sent, count := plainjson.Encoder(w), http.NewResponseController(w), 0
	begin := func() {
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Cache-Control", "no-store")
	}
	for b, err := range bookkeeping.Merge(p.Books.Bookings(r.Context(), books.OfOperator(), q), onlyChain) {
		switch {
		case err != nil && count == 0:
			return failure(err)
		case err != nil:
			if r.Context().Err() == nil {
				p.Log.Warn("list of bookings cut off", "error", err)
			}
			panic(http.ErrAbortHandler) // an answer would become a line of it
		case count == 0:
			begin()
		}
		if count%bookingsFlush == 0 {
			_ = sent.SetWriteDeadline(time.Now().Add(stallTime))
		}
		if count++; out.Encode(b) != nil {
			panic(http.ErrAbortHandler) // the client has left
		}
	}
	if count == 0 {
		begin()
	}
	return nil
}

// bookingQuery reads the filters of a request.
func (p *Purser) bookingQuery(ctx context.Context, asked url.Values) (q books.BookingQuery, err error) {
	q.Task, q.Host = asked.Get("task"), asked.Get("host")
	for name, day := range map[string]*time.Time{"from": &q.Over.From, "to": &q.Over.To} {
		if text := asked.Get(name); text != "" {
			if *day, err = time.Parse(time.DateOnly, text); err != nil {
				return q, Errorf(http.StatusBadRequest, "%s: a day such as 2026-11-01", name)
			}
		}
	}
	if !q.Over.From.IsZero() && !q.Over.To.IsZero() && !q.Over.From.Before(q.Over.To) {
		return q, Errorf(http.StatusBadRequest, "to: a day behind that of from")
	}
	if name := asked.Get("key"); name != "" {
		k, err := p.find(ctx, name)
		if err != nil {
			return q, err
		}
		q.KeyID = k.ID
	}
	if name := asked.Get("wallet"); name != "" {
		w, err := p.findWallet(ctx, name)
		if err != nil {
			return q, err
		}
		q.WalletID = w.ID
	}
	return q, nil
}

// chainBookings lists what only the chain tells of.
func (p *Purser) chainBookings(ctx context.Context, q books.BookingQuery) ([]bookkeeping.Booking, error) {
	switch {
	case q.Over.From.IsZero() || q.Over.To.IsZero():
		return nil, Errorf(http.StatusBadRequest, "chain: from and to say how much of the chain is read")
	case q.KeyID != "" || q.Task != "" || q.Host != "":
		return nil, Errorf(http.StatusBadRequest, "chain: deposits have no key, task or host")
	}
	ctx, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	t, err := p.tally(ctx, books.StatementQuery{WalletID: q.WalletID, Over: q.Over}, true)
	if err != nil {
		return nil, err
	}
	for _, w := range t.Statement().Wallets {
		if w.Verdict == bookkeeping.NotCompared {
			return nil, Errorf(http.StatusConflict, "the chain tells nothing of wallet %s on %s: %s", w.Address, w.Network, w.Why)
		}
	}
	return t.ChainBookings(func(network string, block uint64) (time.Time, error) {
		return treasury.Of(p.Payer).BlockTime(ctx, network, block)
	})
}

// tally adds up bookings, and compares them with the chain if it is to be asked and there is an RPC.
func (p *Purser) tally(ctx context.Context, q books.StatementQuery, chain bool) (*bookkeeping.Tally, error) {
	switch {
	case !chain:
		q.Why = "the chain was not asked"
	case p.Chain == nil:
		q.Why = pay.ErrNoChain.Error()
	default:
		q.Past = treasury.Of(p.Payer)
	}
	t, err := p.Books.Tally(ctx, books.OfOperator(), q)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, Errorf(http.StatusGatewayTimeout, "the RPC did not tell the whole time within %s", statementTime)
	}
	return t, err
}

// statement sums up a time for each wallet: GET /purser/statement?from=&to=&key=&wallet=&chain=false.
func (p *Purser) statement(r *http.Request) (any, error) {
	asked := r.URL.Query()
	q, err := p.bookingQuery(r.Context(), asked)
	if err != nil {
		return nil, err
	}
	if q.Over.From.IsZero() || q.Over.To.IsZero() {
		return nil, Errorf(http.StatusBadRequest, "from and to: the first day, and the one behind the last")
	}
	ctx, cancel := context.WithTimeout(r.Context(), statementTime)
	defer cancel()
	t, err := p.tally(ctx, books.StatementQuery{KeyID: q.KeyID, WalletID: q.WalletID, Over: q.Over}, asked.Get("chain") != "false")
	if err != nil {
		return nil, err
	}
	return t.Statement(), nil
}
