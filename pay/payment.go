package pay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// State holds a payment's stored state (docs/design/payments.md).
type State string

// The three stored states.
const (
	Open    State = "open"    // journaled; money may move until the authorization expires
	Settled State = "settled" // evidence that the money moved
	Void    State = "void"    // evidence that it did not and cannot
)

// Settlement says who sends the transfer to the chain.
type Settlement string

// The party that settles (docs/design/payments.md).
const (
	SettlePayer  Settlement = "payer"  // we do, through our facilitator's /settle
	SettleSeller Settlement = "seller" // the seller does, when it gets the payload
)

// PaidLooked is the number of payments to a host among which one is looked for that is [Payment.Dialed].
const PaidLooked = 16

// Dialed reports whether the payment shows that its key has paid its host: purser itself has sent the
// request there, and the chain has not disproved the payment.
func (p *Payment) Dialed() bool { return p.Door.Dials() && p.State == Settled && !p.Disputed }

// Hash identifies a request for repeats. It is a SHA-256.
type Hash [sha256.Size]byte

// MarshalText writes the hash in hex.
func (h Hash) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h[:])), nil }

// UnmarshalText reads what MarshalText wrote.
func (h *Hash) UnmarshalText(b []byte) error {
	if hex.DecodedLen(len(b)) != len(h) {
		return fmt.Errorf("hash of %d characters", len(b))
	}
	_, err := hex.Decode(h[:], b)
	return err
}

// HashOf hashes parts so that no two different lists of parts are equal.
func HashOf(parts ...string) Hash {
	d := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(d, "%d:", len(p))
		d.Write([]byte(p))
	}
	return Hash(d.Sum(nil))
}

// Terms identifies the purchase: equal terms are the same purchase.
type Terms struct {
	Settlement Settlement   `json:"Settlement"`
	Network    string       `json:"Network"` // our name
	Scheme     string       `json:"Scheme"`
	Asset      x402.Address `json:"Asset"`
	PayTo      x402.Address `json:"PayTo"`
	Amount     money.Amount `json:"Amount"`
}

func (t Terms) String() string {
	return fmt.Sprintf("%s|%s|%s|%s|%s|%s", t.Settlement, t.Network, t.Scheme, t.Asset, t.PayTo, t.Amount)
}

// bought returns the terms as they identify a purchase: a seller that asks in another protocol sells the same thing.
func (t Terms) bought() Terms {
	if t.Scheme == x402.SchemeCharge { // it moves exactly the amount
		t.Scheme = x402.SchemeExact
	}
	return t
}

// Lease is the right to send a payment's payload and to write its outcome.
type Lease struct {
	Owner string    `json:"Owner,omitempty"` // the process (and opening of the store) that holds it; empty: released
	Fence uint64    `json:"Fence"`           // grows with every acquisition; an outcome names it
	Until time.Time `json:"Until,omitzero"`
}

// Lease durations (docs/design/payments.md).
const (
	LeaseTime    = 30 * time.Second
	LeaseRenewal = 10 * time.Second
)

// Live reports whether the lease is held.
func (l Lease) Live(now time.Time) bool { return l.Owner != "" && now.Before(l.Until) }

// Payment is one journaled payment. Its row is written before anything is signed.
type Payment struct {
	ID             string      `json:"ID"` // UUIDv7
	KeyID          string      `json:"KeyID"`
	OrganizationID string      `json:"OrganizationID,omitempty"`
	Door           policy.Door `json:"Door"`
	Task           string      `json:"Task,omitempty"`
	RequestURL     string      `json:"RequestURL,omitempty"`
	Host           string      `json:"Host,omitempty"` // lower-case host of RequestURL, with a non-default port
	Terms          Terms       `json:"Terms"`
	Currency       string      `json:"Currency"` // asset symbol, "USDC"
	WalletID       string      `json:"WalletID"` // Wallet.ID
	Created        time.Time   `json:"Created"`

	// Fingerprint must match in a repeat under the same idempotency key. Identity recognizes a
	// repeat without a key (docs/design/payments.md).
	Fingerprint    Hash   `json:"Fingerprint"`
	Identity       Hash   `json:"Identity"`
	IdempotencyKey string `json:"IdempotencyKey,omitempty"`

	Offer         x402.Offer         `json:"Offer"` // what the payload echoes; dropped RetainPayload after closing
	Authorization x402.Authorization `json:"Authorization"`
	// Attempt numbers the payments under an idempotency key, from 1. 0: the nonce is random.
	Attempt uint64 `json:"Attempt,omitempty"`
	// Bound: the challenge chose the nonce, so purser derives none. No two payments of a wallet may have it:
	// see [ErrChallengeTaken].
	Bound bool `json:"Bound,omitempty"`
	// Signature is kept once known. Signing again yields the same authorization.
	Signature *x402.Signature `json:"Signature,omitempty"`

	State   State `json:"State"`
	Refused bool  `json:"Refused,omitempty"` // our facilitator declined
	// RefusedAt holds the last stage at which our facilitator declined.
	RefusedAt Stage `json:"RefusedAt,omitempty"`
	// Doubted: it was refused, or voided by purser's own word, after it was signed: its
	// authorization may be out. Meanwhile a repeat gets this payment, and its money stays reserved
	// (docs/design/payments.md).
	Doubted    bool `json:"Doubted,omitempty"`
	Unresolved bool `json:"Unresolved,omitempty"` // expired, and no evidence to be had
	Confirmed  bool `json:"Confirmed,omitempty"`  // seen on chain at a safe block past ValidBefore
	Disputed   bool `json:"Disputed,omitempty"`   // claimed settled, disproved by the chain
	// Reconciled: only the chain tells of it, because the books were restored from a backup.
	Reconciled bool      `json:"Reconciled,omitempty"`
	Closed     time.Time `json:"Closed,omitzero"` // when it became settled or void
	// Failed: it was refused, void, unresolved or disputed, and is counted for [FailureBounds].
	Failed bool `json:"Failed,omitempty"`
	// Resolution holds an operator's word, if it was needed.
	Resolution *Resolution `json:"Resolution,omitempty"`
	// Canceling is set once an operator cancels the authorization.
	Canceling *Canceling `json:"Canceling,omitempty"`

	Transaction string          `json:"Transaction,omitempty"` // 0x + 64 hex, "" when unknown
	Reason      string          `json:"Reason,omitempty"`      // why it was refused or voided, or what is unclear
	Detail      json.RawMessage `json:"Detail,omitempty"`      // the facilitator's words for the caller
	Notes       []Note          `json:"Notes,omitempty"`       // what was observed and changed nothing by itself
	// SellerSaid holds the seller's last words about a payload that it refused, cleaned by [words.OfSeller]. They
	// are untrusted: quote them as the seller's.
	SellerSaid string `json:"SellerSaid,omitempty"`
	EventID    string `json:"EventID,omitempty"` // its spend event, once settled
	// SignedReceipt holds the seller's signed receipt: see [x402.Receipt.SignedReceipt].
	SignedReceipt json.RawMessage `json:"SignedReceipt,omitempty"`
	// Charged holds what has moved where that is not the terms' amount: less by scheme upto, more with a fee for gas.
	// Zero: the terms' amount.
	Charged money.Amount `json:"Charged,omitzero"`

	// Waited holds how long the call was on its way before Created, to tell a repeat from a purchase beside
	// it. Less than 100 ms are not kept.
	Waited time.Duration `json:"Waited,omitzero"`

	Lease Lease `json:"Lease"`
	// CalledUntil holds the end of the last lease of a call, if that is behind the validity. Recovery's do not count.
	CalledUntil time.Time `json:"CalledUntil,omitzero"`
	// Answered: the caller got its answer in full and without an error status.
	Answered bool `json:"Answered,omitempty"`
	// Unanswered: the lease ended and the answer did not arrive (docs/design/calls.md, repeats without a key).
	Unanswered bool `json:"Unanswered,omitempty"`
	// Undelivered: the last paid request got an error, an empty or broken answer, or none: see [Undelivered]. An answer
	// in full ends it. NotDelivered says whether money is in it.
	Undelivered bool `json:"Undelivered,omitempty"`
	// Withheld: the seller saw the payload for the first time with the request that brought nothing. It may be right about
	// a repeat: what purser, or the way, lost of an earlier answer was delivered.
	Withheld bool `json:"Withheld,omitempty"`
	// AnswerStatus holds the HTTP status of the answer; 0: there was none, or purser has not seen it. AnswerBody is the
	// evidence of its body. Answers to repeats of a payment that was delivered change neither.
	AnswerStatus int        `json:"AnswerStatus,omitempty"`
	AnswerBody   AnswerBody `json:"AnswerBody,omitzero"`
	// Receipted: the seller's receipt was posted by the payment's key.
	Receipted bool `json:"Receipted,omitempty"`

	Reservations []Reservation `json:"Reservations,omitempty"`
	// Price names the counter that a settlement sets, for the price guard; "": it is off.
	Price Counter `json:"Price,omitempty"`

	// Check holds when recovery looks at the payment next; zero: never.
	Check  time.Time `json:"Check,omitzero"`
	Checks int       `json:"Checks,omitempty"` // how often it has looked
	// Retired: payload dropped and idempotency key forgotten, RetainPayload after closing. An unresolved
	// payment has no closing: RetainPayload after its validity.
	Retired bool `json:"Retired,omitempty"`
}

// Note is an observation that is kept with a payment and shown in its story.
type Note struct {
	At   time.Time `json:"At"`
	Text string    `json:"Text"`
}

// maxNotes bounds a payment's story, and maxHeard what was heard in it: words of sellers and callers leave
// room for purser's own. The first notes matter most.
const (
	maxNotes = 20
	maxHeard = 12
)

// Timing of repeats (docs/design/payments.md).
const (
	// ResendMargin is the validity that must be left to send a payload: facilitators want 6 s.
	ResendMargin = 6 * time.Second
	// RepeatGrace is the time after ValidBefore, or after a send that takes longer, in which a repeat still gets an
	// unanswered payment. After ValidBefore, a payment stays doubted for it without an RPC.
	RepeatGrace = 120 * time.Second
	// RetainPayload is the time for which payload and idempotency key outlive the closing.
	RetainPayload = 30 * 24 * time.Hour
)

// ValidBefore returns when the authorization expires.
func (p *Payment) ValidBefore() time.Time {
	return time.Unix(int64(p.Authorization.ValidBefore), 0).UTC()
}

// Moved returns what the payment has moved if it is settled, and what it can move otherwise.
func (p *Payment) Moved() money.Amount {
	if p.Charged.IsZero() {
		return p.Terms.Amount
	}
	return p.Charged
}

// Fee returns the part of what was moved that the wallet has paid for gas.
func (p *Payment) Fee() money.Amount { return p.Charged.SubSaturated(p.Terms.Amount) }

// Paid returns the price of a settled payment: what was moved, without gas.
func (p *Payment) Paid() money.Amount { return p.Moved().SubSaturated(p.Fee()) }

// Sendable reports whether the payload may be sent (again) at now.
func (p *Payment) Sendable(now time.Time) bool {
	return p.Canceling == nil && now.Add(ResendMargin).Before(p.ValidBefore())
}

// Lives reports whether the payment counts for repeats. A void or refused payment does while it
// is doubted.
func (p *Payment) Lives() bool {
	return p.Doubted || p.State == Settled || p.State == Open && !p.Refused
}

// Began returns when the call began that the payment was made for.
func (p *Payment) Began() time.Time { return p.Created.Add(-p.Waited) }

// Awaited reports whether a repeat without an idempotency key may still get this payment.
func (p *Payment) Awaited() bool {
	return p.IdempotencyKey == "" && p.Lives() && !p.Answered
}

// AwaitedUntil returns when a repeat without an idempotency key stops to get the payment. A seller may take longer
// for its answer than the authorization is valid, and the client gives up only then.
func (p *Payment) AwaitedUntil() time.Time {
	switch {
	case p.Door == policy.DoorOperator:
		return p.ValidBefore().Add(withdrawalGrace)
	case p.CalledUntil.After(p.ValidBefore()):
		return p.CalledUntil.Add(RepeatGrace)
	}
	return p.ValidBefore().Add(RepeatGrace)
}

// Extend extends the lease of a call.
func (p *Payment) Extend(until time.Time) {
	if p.Lease.Until = until; until.After(p.ValidBefore()) {
		p.CalledUntil = until
	}
}

// These begin the notes of a 402 to the payload.
const (
	noteRefused = "seller answered 402: "
	noteUsed    = "authorization said to be used: "
)

// Delivered reports whether the caller had the seller's answer, and it was not another 402.
func (p *Payment) Delivered() bool {
	return p.State == Settled && p.Answered && !p.Reconciled && !slices.ContainsFunc(p.Notes, func(n Note) bool {
		return strings.HasPrefix(n.Text, noteRefused) || strings.HasPrefix(n.Text, noteUsed)
	})
}

// HoldsHost reports whether the payment counts against the unanswered payments of its
// host (docs/design/surfaces.md); stores index such payments by (KeyID, Host, ValidBefore). A receipt that
// the key has posted is its word only, until the chain agrees.
func (p *Payment) HoldsHost() bool {
	waits := p.State == Open && p.Unanswered || p.Receipted && p.Claimed()
	return waits && !p.Refused && p.Door != policy.DoorOperator
}

// Flags lists the payment's flags in the order of docs/design/payments.md.
func (p *Payment) Flags() []string {
	flags := []string{}
	for _, f := range []struct {
		set  bool
		name string
	}{{p.Refused, "refused"}, {p.Unresolved, "unresolved"}, {p.Confirmed, "confirmed"}, {p.Disputed, "disputed"}, {p.Reconciled, "reconciled"}, {p.NotDelivered(), "undelivered"}} {
		if f.set {
			flags = append(flags, f.name)
		}
	}
	return flags
}

// Labels lists the payment's state and flags, by which GET /v1/payments?state= filters.
func (p *Payment) Labels() []string { return append([]string{string(p.State)}, p.Flags()...) }

// Labelled reports whether the payment has a state or flag; "" is any.
func (p *Payment) Labelled(label string) bool {
	return label == "" || slices.Contains(p.Labels(), label)
}

// ValidLabel reports whether s is a state or a flag.
func ValidLabel(s string) bool {
	switch s {
	case string(Open), string(Settled), string(Void), "refused", "unresolved", "confirmed", "disputed", "reconciled", "undelivered":
		return true
	}
	return false
}

// Clone copies the payment. Raw JSON is shared, because it is never changed.
func (p *Payment) Clone() *Payment {
	c := *p
	c.Notes = append([]Note(nil), p.Notes...)
	c.Reservations = append([]Reservation(nil), p.Reservations...)
	if p.Resolution != nil {
		r := *p.Resolution
		c.Resolution = &r
	}
	if p.Canceling != nil {
		k := *p.Canceling
		c.Canceling = &k
	}
	return &c
}

// note keeps what was heard.
func (p *Payment) note(at time.Time, text string) {
	if len(p.Notes) < maxHeard {
		p.remark(at, text)
	}
}

// remark keeps what purser itself has found out.
func (p *Payment) remark(at time.Time, text string) {
	if text == "" || len(p.Notes) >= maxNotes {
		return
	}
	p.Notes = append(p.Notes, Note{At: at, Text: words.Truncate(text, 400)})
}

// Payment finds one of the key's payments: ErrPaymentNotFound, also for another key's.
func (p *Payer) Payment(ctx context.Context, k Key, id string) (*Payment, error) {
	row, err := p.store.Payment(ctx, id)
	if err != nil {
		return nil, err
	}
	if row.KeyID != k.ID {
		return nil, ErrPaymentNotFound
	}
	return row, nil
}
