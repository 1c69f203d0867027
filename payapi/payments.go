package payapi

import (
	"encoding/json"
	"net/http"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// paymentState is the part of a journaled payment in every answer about it.
type paymentState struct {
	ID          string   `json:"id"`
	State       string   `json:"state"`
	Flags       []string `json:"flags"`
	ValidBefore string   `json:"validBefore"`
}

func newPaymentState(p *pay.Payment) paymentState {
	return paymentState{p.ID, string(p.State), p.Flags(), stamp(p.ValidBefore())}
}

// payment is a payment in full.
type payment struct {
	paymentState
	pay.Means
	Settlement  string `json:"settlement"`
	Amount      string `json:"amount"`
	Charged     string `json:"charged,omitempty"` // where it is not amount: less by scheme upto, more with a fee for gas
	Currency    string `json:"currency"`
	Network     string `json:"network"`
	PayTo       string `json:"payTo"`
	RequestURL  string `json:"request_url"`
	Transaction string `json:"transaction"`
	CreatedAt   string `json:"created_at"`
	Reason      string `json:"reason,omitempty"`
	Task        string `json:"task,omitempty"`
	// SellerSaid quotes the seller about a payload that it refused.
	SellerSaid string `json:"sellerSaid,omitempty"`
	// SignedReceipt is in answers about one payment only.
	SignedReceipt *signedReceipt `json:"signedReceipt,omitempty"`
}

// signedReceipt is the seller's, in the form of x402's extension offer-receipt.
type signedReceipt struct {
	Verified bool            `json:"verified"`
	Receipt  json.RawMessage `json:"receipt"`
}

func newPayment(p *pay.Payment) payment {
	shown := payment{
		paymentState: newPaymentState(p), Means: p.Means(), Settlement: string(p.Terms.Settlement),
		Amount: p.Terms.Amount.String(), Currency: p.Currency, Network: p.Terms.Network,
		PayTo: p.Terms.PayTo.String(), RequestURL: p.RequestURL, Transaction: p.Transaction,
		CreatedAt: stamp(p.Created), Reason: p.Reason, Task: p.Task, SellerSaid: p.SellerSaid,
	}
	if !p.Charged.IsZero() {
		shown.Charged = p.Charged.String()
	}
	return shown
}

func onePayment(p *pay.Payment) reply {
	shown := newPayment(p)
	if p.SignedReceipt != nil {
		shown.SignedReceipt = &signedReceipt{x402.VerifiedReceipt(p.SignedReceipt), p.SignedReceipt}
	}
	return reply{status: http.StatusOK, body: map[string]payment{"payment": shown}}
}

// showPayment serves GET /v1/payments/{id}.
func (a *API) showPayment(r *http.Request, key pay.Key) (reply, error) {
	id, err := pathID(r, pay.ErrPaymentNotFound)
	if err != nil {
		return reply{}, err
	}
	p, err := a.payer.Payment(r.Context(), key, id)
	if err != nil {
		return reply{}, err
	}
	return onePayment(p), nil
}

// listPayments serves GET /v1/payments: the key's payments, newest first.
func (a *API) listPayments(r *http.Request, key pay.Key) (reply, error) {
	pg, err := readPage(r)
	if err != nil {
		return reply{}, err
	}
	label, given, err := pg.only("state")
	if err != nil {
		return reply{}, err
	}
	if given && !pay.ValidLabel(label) {
		return reply{}, badRequest("Invalid state", "a state (open, settled, void) or a flag (refused, unresolved, confirmed, disputed, reconciled, undelivered)")
	}
	list, err := a.books.Payments(r.Context(), key, label, pg.limit, pg.before)
	if err != nil {
		return reply{}, err
	}
	shown := make([]payment, len(list))
	for i, p := range list {
		shown[i] = newPayment(p)
	}
	return reply{status: http.StatusOK, body: map[string][]payment{"payments": shown}}, nil
}

// postReceipt serves POST /v1/payments/{id}/receipt. A receipt that proves nothing gets a normal
// answer too: the payment shows the result.
func (a *API) postReceipt(r *http.Request, key pay.Key) (reply, error) {
	f, err := readFields(r, textReceipt)
	if err != nil {
		return reply{}, err
	}
	value, _, err := f.text("receipt", textReceipt)
	if err != nil {
		return reply{}, err
	}
	receipt, err := a.protocols.DecodeReceipt(value)
	if err != nil {
		return reply{}, badRequest(textReceipt, err.Error())
	}
	id, err := pathID(r, pay.ErrPaymentNotFound)
	if err != nil {
		return reply{}, err
	}
	p, err := a.payer.PostReceipt(r.Context(), key, id, receipt)
	if err != nil {
		return reply{}, err
	}
	return onePayment(p), nil
}
