package payapi

import (
	"net/http"

	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// quoteResult is the body of POST /v1/quote: what POST /v1/pay would pay now.
type quoteResult struct {
	Amount   string `json:"amount"` // in the asset's smallest unit
	Price    string `json:"price"`  // for people
	Currency string `json:"currency"`
	Network  string `json:"network"`
	Asset    string `json:"asset"`
	PayTo    string `json:"payTo"`
	pay.Means
	// Gas is the most that the wallet pays for gas beside the price, in the asset's smallest unit. "": nothing.
	Gas    string `json:"gas,omitempty"`
	Wallet *payer `json:"wallet,omitempty"`
	// Repeats is set if the call would be answered with an earlier payment, and nothing new paid.
	Repeats *paymentState `json:"repeats,omitempty"`
	// Offers has all of the challenge, in the order of choice. A repeat has none.
	Offers []declines.Offer `json:"offers,omitempty"`
}

// quoteError is a quote that is refused, with the offers of its challenge.
type quoteError struct {
	offers []pay.Offered
	cause  error
}

func (e *quoteError) Error() string { return e.cause.Error() }
func (e *quoteError) Unwrap() error { return e.cause }

// payer is the wallet that would pay.
type payer struct {
	ID      string `json:"id"`
	Address string `json:"address,omitempty"`
}

// quote serves POST /v1/quote. A request that POST /v1/pay would refuse gets the same refusal.
func (a *API) quote(r *http.Request, key pay.Key) (reply, error) {
	if err := a.payer.MayQuote(key.ID); err != nil {
		return reply{}, err
	}
	want, err := a.payRequest(r)
	if err != nil {
		return reply{}, err
	}
	want.Key = key
	q, err := a.payer.Quote(r.Context(), want)
	if err != nil {
		return reply{}, &quoteError{q.Offers, err}
	}
	t, means := q.Terms, q.Means
	if q.Earlier != nil {
		t, means = q.Earlier.Terms, q.Earlier.Means()
	}
	result := quoteResult{
		Amount: t.Amount.String(), Price: money.Text(t.Amount), Currency: "USDC", Network: t.Network,
		Asset: t.Asset.String(), PayTo: t.PayTo.String(), Means: means, Offers: declines.Offers(q.Offers),
	}
	if q.Earlier != nil {
		state := newPaymentState(q.Earlier)
		result.Repeats = &state
	} else {
		if !q.Gas.IsZero() {
			result.Gas = q.Gas.String()
		}
		result.Wallet = &payer{ID: q.Wallet.ID}
		if q.Wallet.Address != nil {
			result.Wallet.Address = q.Wallet.Address.String()
		}
	}
	return reply{status: http.StatusOK, body: result}, nil
}
