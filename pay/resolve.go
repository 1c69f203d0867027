package pay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/purserpay/purser/x402"
)

// Resolution is an operator's word on a payment. It stays, whatever the chain says later.
type Resolution struct {
	At     time.Time `json:"At"`
	By     string    `json:"By"` // who, as the operator's tool says; "" when it does not
	As     State     `json:"As"` // Settled or Void
	Reason string    `json:"Reason"`
	// Proven: the chain has said since, for good, that a payment resolved as void moved nothing.
	Proven bool `json:"Proven,omitempty"`
}

// UnresolvableError: an operator may not resolve the payment, or not yet.
type UnresolvableError struct{ Payment, Reason string }

func (e *UnresolvableError) Error() string {
	return "payment " + e.Payment + " cannot be resolved: " + e.Reason
}

// Resolvable returns nil when an operator may resolve the payment at now, else *UnresolvableError.
// While the authorization is valid, the money may still move, and the repeat of a payment that was
// declared void would be paid in addition.
func (p *Payment) Resolvable(now time.Time) error {
	no := func(format string, args ...any) error {
		return &UnresolvableError{Payment: p.ID, Reason: fmt.Sprintf(format, args...)}
	}
	given := p.ValidBefore().Add(RepeatGrace)
	switch {
	case p.Disputed:
		return no("the chain has disproved its settlement, and that is final")
	case p.State != Open:
		return no("it is %s", p.State)
	case now.Before(p.ValidBefore()):
		return no("it is valid until %s and may still settle", p.ValidBefore().Format(time.RFC3339))
	case !p.Unresolved && now.Before(given):
		return no("evidence may still come in; ask again after %s", given.Format(time.RFC3339))
	}
	return nil
}

// Ruling is an operator's verdict on a payment.
type Ruling struct {
	As     State // Settled or Void
	Reason string
	By     string
	// Transaction that moved the money, if it is known; only with Settled.
	Transaction string
}

const (
	maxReason = 500 // characters
	maxBy     = 100
)

// Validate says what is wrong with a ruling: *InputError.
func (r Ruling) Validate() error {
	if r.As != Settled && r.As != Void {
		return &InputError{Field: "as", Reason: "settled or void"}
	}
	if err := CheckReason(r.Reason, true); err != nil {
		return err
	}
	switch {
	case !oneLine(r.By, maxBy):
		return &InputError{Field: "by", Reason: fmt.Sprintf("at most %d characters on one line", maxBy)}
	case r.Transaction != "" && r.As == Void:
		return &InputError{Field: "transaction", Reason: "only a settled payment has one"}
	case r.Transaction != "" && !x402.ValidTransaction(r.Transaction):
		return &InputError{Field: "transaction", Reason: "0x and 64 hexadecimal digits"}
	}
	return nil
}

// CheckReason finds what is wrong with the reason for a change, which may be required: *InputError.
func CheckReason(reason string, required bool) error {
	if required && strings.TrimSpace(reason) == "" || !oneLine(reason, maxReason) {
		return &InputError{Field: "reason", Reason: fmt.Sprintf("1 to %d characters on one line", maxReason)}
	}
	return nil
}

// oneLine reports whether s is at most this many characters of UTF-8 without control characters.
func oneLine(s string, most int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= most && strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f }) < 0
}

// ResolvePayment closes an open payment by an operator's word. Later evidence still wins.
// *InputError, ErrPaymentNotFound, *UnresolvableError, ErrLeaseHeld, ErrTransactionKnown.
func (p *Payer) ResolvePayment(ctx context.Context, id string, r Ruling) (*Payment, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.background.Done()
	row, err := p.store.Payment(ctx, id)
	if err != nil {
		return nil, err
	}
	if p.gripped(id) {
		return nil, ErrLeaseHeld
	}
	if err := row.Resolvable(p.now()); err != nil {
		return nil, err
	}
	now := p.now().UTC()
	if row, err = p.store.Acquire(ctx, id, p.owner, now, now.Add(LeaseTime)); err != nil {
		return nil, err
	}
	write, cancel := detached(ctx) // the lease must end, even when the caller leaves
	defer cancel()
	o := Outcome{
		PaymentID: id, Fence: row.Lease.Fence, At: p.now().UTC(), Verdict: Verdict(r.As), Release: true, Answered: row.Answered,
		Reason:      fmt.Sprintf("resolved as %s by an operator: %s", r.As, r.Reason),
		Transaction: strings.ToLower(r.Transaction), ClaimedTransaction: r.Transaction != "",
		Evident:    true, // its time is over
		Resolution: &Resolution{At: p.now().UTC(), By: r.By, As: r.As, Reason: r.Reason},
	}
	written, err := p.record(write, row, o)
	if err == nil {
		p.log.Warn("payment resolved by an operator", "payment", id, "as", string(r.As), "by", r.By, "reason", r.Reason)
		return written, nil
	}
	release := Outcome{PaymentID: id, Fence: o.Fence, At: o.At, Release: true, Answered: row.Answered}
	if _, rerr := p.record(write, row, release); rerr != nil {
		p.log.Warn("lease not released", "payment", id, "error", rerr)
	}
	var cannot *UnresolvableError
	if errors.As(err, &cannot) {
		return nil, cannot
	}
	return nil, err
}
