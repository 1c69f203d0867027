package adminapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/plainjson"
	"github.com/purserpay/purser/pay"
)

// ArchivedPayment is a closed payment for keeping, with its spend events: none for a void one, two
// for a disputed one.
type ArchivedPayment struct {
	Payment
	RequestURL    string         `json:"request_url"` // without its query
	Scheme        string         `json:"scheme"`
	Asset         string         `json:"asset"`
	WalletID      string         `json:"wallet_id"`
	From          string         `json:"from"`
	Nonce         string         `json:"nonce"`
	Notes         []Note         `json:"notes"`
	Resolution    *Resolution    `json:"resolution,omitempty"`
	SignedReceipt *SignedReceipt `json:"signed_receipt,omitempty"` // it may name the URL with its query
	Spend         []SpendEvent   `json:"spend"`
}

func archived(p pay.ClosedPayment, now time.Time) ArchivedPayment {
	s := storyOf(p.Payment, now)
	a := ArchivedPayment{
		Payment: s.Payment, Scheme: s.Scheme, Asset: s.Asset, WalletID: s.WalletID, From: s.From, Nonce: s.Nonce,
		Notes: s.Notes, Resolution: s.Resolution, SignedReceipt: s.SignedReceipt, Spend: []SpendEvent{},
	}
	a.RequestURL, _, _ = strings.Cut(s.RequestURL, "?") // the query may hold a seller's key
	for _, e := range p.Events {
		a.Spend = append(a.Spend, shownSpent(p.Entry(e)))
	}
	return a
}

// archivePage is the number of payments that are read and sent at once.
const archivePage = 200

// archive sends closed payments, oldest first, each as a line of JSON: GET /purser/archive?before=.
// An answer that is cut off lacks payments; one that ends has them all.
func (h *Handler) archive(w http.ResponseWriter, r *http.Request) error {
	q := pay.ClosedQuery{Limit: archivePage}
	if text := r.URL.Query().Get("before"); text != "" {
		var err error
		if q.Before, err = time.Parse(time.DateOnly, text); err != nil {
			return Errorf(http.StatusBadRequest, "before: a day such as 2026-11-01")
		}
	}
	page, err := h.closedPayments(r.Context(), q)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out, sent := plainjson.Encoder(w), http.NewResponseController(w)
	for {
		_ = sent.SetWriteDeadline(time.Now().Add(stallTime))
		for _, p := range page.Payments {
			if err := out.Encode(archived(p, time.Now())); err != nil {
				panic(http.ErrAbortHandler) // the client has left
			}
		}
		if page.Next == "" {
			return nil
		}
		if err := sent.Flush(); err != nil {
			panic(http.ErrAbortHandler)
		}
		q.After = page.Next
		if page, err = h.closedPayments(r.Context(), q); err != nil {
			if p := h.Serving(); p != nil && r.Context().Err() == nil {
				p.Log.Warn("archive cut off", "error", err)
			}
			panic(http.ErrAbortHandler) // an answer would become a line of it
		}
	}
}

// closedPayments reads a page. The request is counted in only meanwhile, so a long archive does not
// keep purser from stopping, and goes on after a reload.
func (h *Handler) closedPayments(ctx context.Context, q pay.ClosedQuery) (page pay.ClosedPage, err error) {
	p, err := h.purser()
	if err != nil {
		return page, err
	}
	if err := p.Enter(); err != nil {
		return page, Errorf(http.StatusServiceUnavailable, "%w", err)
	}
	defer p.Leave()
	if page, err = p.Books.ClosedPayments(ctx, q); err != nil {
		return page, failure(err)
	}
	return page, nil
}
