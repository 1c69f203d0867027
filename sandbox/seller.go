package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"

	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/x402"
)

// maxTimeoutSeconds is the time that the seller gives payers.
const maxTimeoutSeconds = 60

// SellerOptions configures a Seller.
type SellerOptions struct {
	// Facilitator is the base URL of an x402 facilitator.
	Facilitator string
	// PayTo receives the money.
	PayTo x402.Address
	// Settled returns the transaction that made an authorization's transfer, or "" without one.
	// Without this function, no prepaid good is sold.
	Settled func(ctx context.Context, a x402.Authorization) (transaction string, err error)
	// Client calls the facilitator.
	Client *http.Client
	// Logger gets failures of the facilitator. Default: none.
	Logger *slog.Logger
}

// Seller is a small paid API. GET / lists its goods and prices. It verifies and settles payments
// through its facilitator, like the reference resource servers. A refusal contains only the
// facilitator's reason.
type Seller struct {
	o   SellerOptions
	mux *http.ServeMux

	mu        sync.Mutex
	delivered map[delivery]bool // prepaid payments that were answered
}

// delivery identifies a payment: the token accepts a nonce of a payer only once.
type delivery struct {
	payer x402.Address
	nonce x402.Nonce
}

// NewSeller returns a seller of all goods.
func NewSeller(o SellerOptions) *Seller {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Seller{o: o, mux: http.NewServeMux(), delivered: map[delivery]bool{}}
	s.mux.HandleFunc("GET /{$}", catalogue)
	for _, g := range goods() {
		switch {
		case g.price.IsZero():
			s.mux.HandleFunc(g.pattern, g.serve)
		case g.flow != flowPrepaid || o.Settled != nil:
			s.mux.Handle(g.pattern, &paywall{seller: s, good: g})
		}
	}
	return s
}

// ServeHTTP serves the catalogue and the goods.
func (s *Seller) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// till talks to the facilitator.
func (s *Seller) till() honest.Till {
	return honest.Till{Facilitator: s.o.Facilitator, Client: s.o.Client}
}

// alreadyDelivered and notSettled are reasons of a prepaid seller.
const (
	alreadyDelivered = "payment_already_delivered"
	notSettled       = "payment_not_settled"
)

// claim accepts a prepaid payment that moved the money and was not answered yet. reason says in the
// words of a challenge why it was refused.
func (s *Seller) claim(ctx context.Context, p payment) (receipt honest.SettleAnswer, reason string, err error) {
	a, signature, err := p.payload.Authorization()
	if err != nil {
		return receipt, "invalid_payload", nil //nolint:nilerr // the buyer's mistake
	}
	chain, usdc := honest.Network()
	signer, err := x402.Recover(a.Digest(usdc, chain.ChainID), signature)
	switch {
	// The chain shows the rest to all readers, so only the signature proves who paid.
	case err != nil || signer != a.From:
		return receipt, honest.BadSignature, nil
	case a.To != s.o.PayTo:
		return receipt, honest.BadRecipient, nil
	case a.Value.String() != p.required.Amount:
		return receipt, honest.BadValueV2, nil
	}
	transaction, err := s.o.Settled(ctx, a)
	if err != nil {
		return receipt, "", err
	}
	if transaction == "" {
		return receipt, notSettled, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := delivery{a.From, a.Nonce}
	if s.delivered[d] {
		return receipt, alreadyDelivered, nil
	}
	s.delivered[d] = true
	return honest.SettleAnswer{Success: true, Transaction: transaction, Network: p.required.Network, Payer: a.From.String()}, "", nil
}

// unavailable answers 502 when the facilitator cannot be used. It sends no payment header, because
// the outcome is unknown.
func (s *Seller) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	if !errors.Is(err, context.Canceled) || r.Context().Err() == nil {
		s.o.Logger.Error("the seller's facilitator failed", "path", r.URL.Path, "error", err)
	}
	honest.WriteJSON(w, http.StatusBadGateway, map[string]string{"error": "the facilitator could not be used"})
}
