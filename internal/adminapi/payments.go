package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/limits"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Payment is a payment as the admin endpoint lists it. Its URL is only in its story:
// a query may hold a seller's key.
type Payment struct {
	ID           string         `json:"id"`
	KeyID        string         `json:"key_id"`
	KeyLabel     string         `json:"key_label,omitempty"` // in lists and stories
	Organization string         `json:"organization_id,omitempty"`
	State        pay.State      `json:"state"`
	Flags        []string       `json:"flags"`
	Door         policy.Door    `json:"door"`
	Task         string         `json:"task,omitempty"`
	Host         string         `json:"host"`
	Tool         string         `json:"tool,omitempty"` // of a call of MCP, such as mcp://api.example.com/tool/get_weather
	Settlement   pay.Settlement `json:"settlement"`
	pay.Means
	Network     string `json:"network"`
	Amount      string `json:"amount"`            // in the smallest unit
	Charged     string `json:"charged,omitempty"` // where a settled payment moved less (scheme upto) or more (a fee for gas)
	Currency    string `json:"currency"`
	PayTo       string `json:"pay_to"`
	Transaction string `json:"transaction"`
	Reason      string `json:"reason"`
	// SellerSaid quotes the seller about a payload that it refused. It is untrusted text, on one line.
	SellerSaid string `json:"seller_said,omitempty"`
	// AnswerStatus is the HTTP status of the answer; nil: not known. 0: none came.
	AnswerStatus *int        `json:"answer_status,omitempty"`
	AnswerBody   *AnswerBody `json:"answer_body,omitempty"` // nil: not known
	// Advice says what the operator can do about it, such as to fund an empty wallet.
	Advice      string    `json:"advice,omitempty"`
	ValidBefore time.Time `json:"valid_before"`
	Created     time.Time `json:"created_at"`
	Closed      time.Time `json:"closed_at,omitzero"`
}

// Story is all that is known of a payment, but for what could move its money.
type Story struct {
	Payment
	RequestURL string `json:"request_url"`
	// Description is the seller's; "" once its challenge is dropped.
	Description string          `json:"description,omitempty"`
	Scheme      string          `json:"scheme"`
	Asset       string          `json:"asset"`
	WalletID    string          `json:"wallet_id"`
	From        string          `json:"from"`
	Nonce       string          `json:"nonce"`  // names the authorization on chain
	Signed      bool            `json:"signed"` // a payload was made, and may have left
	Answered    bool            `json:"answered"`
	Unanswered  bool            `json:"unanswered"`
	Receipted   bool            `json:"receipted"`
	EventID     string          `json:"event_id,omitempty"`
	Detail      json.RawMessage `json:"detail,omitempty"` // the facilitator's answer
	Notes       []Note          `json:"notes"`
	// Steps are the story in order, Evidence what is known and has no time.
	Steps        []Step        `json:"steps"`
	Evidence     []string      `json:"evidence"`
	Reservations []Reservation `json:"reservations"`
	Limits       []Limit       `json:"limits,omitempty"`
	Lease        *Lease        `json:"lease,omitempty"` // nil while no attempt holds one
	Resolution   *Resolution   `json:"resolution,omitempty"`
	// SignedReceipt is the seller's; nil: it gave none.
	SignedReceipt *SignedReceipt `json:"signed_receipt,omitempty"`
	// Checked counts the looks of recovery. NextCheck is the time of the next one; zero: never.
	Checked   int       `json:"checked"`
	NextCheck time.Time `json:"next_check,omitzero"`
	// Resolvable: an operator may resolve it now. Why not is in Unresolvable.
	Resolvable   bool   `json:"resolvable"`
	Unresolvable string `json:"unresolvable,omitempty"`
}

// AnswerBody is the evidence of an answer's body: see [pay.AnswerBody].
type AnswerBody struct {
	Hash     pay.Hash `json:"sha256"`
	Bytes    int64    `json:"bytes"`    // that were hashed, from the first on
	Complete bool     `json:"complete"` // they are all
}

// SignedReceipt is a seller's signed receipt, in the form of x402's extension offer-receipt.
type SignedReceipt struct {
	// Verified: its signature is by the payee, or a signer of the key's policy. If not, it fits the payment, and its signature is not checked.
	Verified bool            `json:"verified"`
	Receipt  json.RawMessage `json:"receipt"`
}

// Limit is a limit that holds for a payment by the present policy of its key. Amounts are in the smallest unit.
type Limit struct {
	Rule  string `json:"rule"`         // such as per-payment, daily-budget or task-monthly-budget
	Of    string `json:"of,omitempty"` // the pattern of hosts, or the task
	Limit string `json:"limit"`
	// Spent and Left are those of a budget, in the day or month of the payment, and now.
	Spent  string    `json:"spent,omitempty"`
	Left   string    `json:"left,omitempty"`
	Resets time.Time `json:"resets_at,omitzero"`
	// Since and Ends are those of a task's total.
	Since time.Time `json:"since,omitzero"`
	Ends  time.Time `json:"ends_at,omitzero"`
}

// Note is a line of a payment's story.
type Note struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Reservation holds a part of a limit for a payment.
type Reservation struct {
	Counter  string `json:"counter"`
	Amount   string `json:"amount"`
	Released bool   `json:"released"`
}

// Lease names the attempt that works on a payment.
type Lease struct {
	Owner string    `json:"owner"`
	Until time.Time `json:"until"`
}

// Resolution is an operator's ruling on a payment.
type Resolution struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	As     pay.State `json:"as"`
	Reason string    `json:"reason"`
	Proven bool      `json:"proven"` // the chain has said since that a payment resolved as void moved nothing
}

// Payments is a page of payments, newest first.
type Payments struct {
	Payments []Payment `json:"payments"`
	Next     string    `json:"next,omitempty"`
}

func shownPayment(p *pay.Payment) Payment {
	shown := Payment{
		ID: p.ID, KeyID: p.KeyID, Organization: p.OrganizationID, State: p.State, Flags: p.Flags(), Door: p.Door, Task: p.Task,
		Host: p.Host, Tool: policy.ToolOf(p.RequestURL), Settlement: p.Terms.Settlement, Means: p.Means(), Network: p.Terms.Network, Amount: p.Terms.Amount.String(),
		Currency: p.Currency, PayTo: p.Terms.PayTo.String(), Transaction: p.Transaction, Reason: p.Reason, SellerSaid: p.SellerSaid, Advice: p.EmptyWallet(),
		ValidBefore: p.ValidBefore(), Created: p.Created, Closed: p.Closed,
	}
	if !p.Charged.IsZero() {
		shown.Charged = p.Charged.String()
	}
	shown.AnswerStatus, shown.AnswerBody = shownAnswer(p)
	return shown
}

func shownAnswer(p *pay.Payment) (status *int, body *AnswerBody) {
	if p.NotDelivered() || p.AnswerStatus != 0 {
		status = &p.AnswerStatus
	}
	if b := p.AnswerBody; b.Hash != (pay.Hash{}) {
		body = &AnswerBody{b.Hash, b.Size, !b.Cut}
	}
	return status, body
}

// story returns a payment's story, with the limits that hold for it.
func (p *Purser) story(ctx context.Context, row *pay.Payment) (Story, error) {
	s := storyOf(row, time.Now())
	k, err := p.Books.Key(ctx, row.KeyID)
	switch {
	case errors.Is(err, pay.ErrKeyNotFound):
		return s, nil
	case err != nil:
		return s, err
	}
	s.KeyLabel = k.Label
	limited, err := limits.OfPayment(ctx, p.Payer, k, row)
	for _, l := range limited {
		s.Limits = append(s.Limits, shownLimit(l))
	}
	return s, err
}

func shownLimit(u limits.Use) Limit {
	shown := Limit{Rule: u.Rule, Of: u.Of, Limit: u.Limit.String(), Resets: u.Resets}
	if u.Spent != nil {
		shown.Spent, shown.Left = u.Spent.String(), u.Left.String()
	}
	if u.Total != nil {
		shown.Since, shown.Ends = u.Total.Begin, u.Total.Until
	}
	return shown
}

func storyOf(p *pay.Payment, now time.Time) Story {
	s := Story{
		Payment: shownPayment(p), RequestURL: p.RequestURL, Scheme: p.Terms.Scheme, Asset: p.Terms.Asset.String(),
		WalletID: p.WalletID, From: p.Authorization.From.String(), Nonce: p.Authorization.Nonce.String(),
		Signed: p.Signature != nil, Answered: p.Answered, Unanswered: p.Unanswered, Receipted: p.Receipted,
		EventID: p.EventID, Detail: p.Detail, Notes: []Note{}, Reservations: []Reservation{},
		Description: words.Truncate(p.Offer.Description(), 300), Checked: p.Checks, NextCheck: p.Check, Steps: stepsOf(p), Evidence: evidenceOf(p),
	}
	for _, n := range p.Notes {
		s.Notes = append(s.Notes, Note(n))
	}
	for _, r := range p.Reservations {
		s.Reservations = append(s.Reservations, Reservation{string(r.Counter), r.Amount.String(), r.Released})
	}
	if p.Lease.Owner != "" {
		s.Lease = &Lease{p.Lease.Owner, p.Lease.Until}
	}
	if r := p.Resolution; r != nil {
		s.Resolution = &Resolution{r.At, r.By, r.As, r.Reason, r.Proven}
	}
	if p.SignedReceipt != nil {
		s.SignedReceipt = &SignedReceipt{x402.VerifiedReceipt(p.SignedReceipt), p.SignedReceipt}
	}
	switch err := p.Resolvable(now); {
	case err != nil:
		s.Unresolvable = err.Error()
	case p.Lease.Live(now):
		s.Unresolvable = pay.ErrLeaseHeld.Error()
	default:
		s.Resolvable = true
	}
	return s
}

// PaymentLabels lists the states and flags that payments can be listed by.
var PaymentLabels = []string{
	string(pay.Open), string(pay.Settled), string(pay.Void), "refused", "unresolved", "confirmed", "disputed", "reconciled", "undelivered",
}

// payments lists those of all keys, or of one: GET /purser/payments?state=&key=&limit=&before=.
func (p *Purser) payments(r *http.Request) (any, error) {
	asked := r.URL.Query()
	label, before, key := asked.Get("state"), asked.Get("before"), asked.Get("key")
	if label != "" && !pay.ValidLabel(label) {
		return nil, Errorf(http.StatusBadRequest, "state: one of %s", strings.Join(PaymentLabels, ", "))
	}
	list, next, err := listed(r, func(limit int) ([]*pay.Payment, error) {
		if key == "" {
			return p.Books.AllPayments(r.Context(), pay.LabelQuery{Label: label, Before: before, Limit: limit})
		}
		k, err := p.find(r.Context(), key)
		if err != nil {
			return nil, err
		}
		return p.Books.Payments(r.Context(), k, label, limit, before)
	}, func(p *pay.Payment) string { return p.ID }, func(p *pay.Payment) (Payment, error) { return shownPayment(p), nil })
	if err == nil {
		err = nameKeys(p, r.Context(), list, func(p *Payment) (string, *string) { return p.KeyID, &p.KeyLabel })
	}
	return Payments{list, next}, err
}

func (p *Purser) payment(r *http.Request) (any, error) {
	payment, err := p.findPayment(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return p.story(r.Context(), payment)
}

// Ruling is the body of POST /purser/payments/{id}/resolve.
type Ruling struct {
	As          pay.State `json:"as"`
	Reason      string    `json:"reason"`
	By          string    `json:"by,omitempty"` // the operator; default: that of the header
	Transaction string    `json:"transaction,omitempty"`
}

// resolve closes a payment that the evidence has left open.
func (p *Purser) resolve(r *http.Request, want Ruling) (any, error) {
	want.By = cmp.Or(want.By, operatorOf(r).ID)
	payment, err := p.findPayment(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if payment, err = p.Payer.ResolvePayment(r.Context(), payment.ID, pay.Ruling(want)); err != nil {
		return nil, err
	}
	return p.story(r.Context(), payment)
}
