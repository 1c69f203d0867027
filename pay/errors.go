package pay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Errors that stores and the pipeline return. Doors map them to their own answers in
// one place each.
var (
	// ErrKeyNotFound: no key has this secret or id.
	ErrKeyNotFound = errors.New("key not found")
	// ErrKeyExists: a supplied secret collides with an existing key.
	ErrKeyExists = errors.New("that API key already exists")
	// ErrKeyLimit: the organization's plan has no room for another key.
	ErrKeyLimit = errors.New("API key limit reached")
	// ErrKeyClaimed: the key belongs to another organization.
	ErrKeyClaimed = errors.New("the key belongs to another organization")
	// ErrKeyLinked: the key belongs to this organization already.
	ErrKeyLinked = errors.New("the key belongs to this organization already")
	// ErrKeyRevoked: the key was revoked, which is for ever.
	ErrKeyRevoked = errors.New("the key is revoked, and that is for ever")
	// ErrPausedByOperator: an operator has paused the key, and only one resumes it.
	ErrPausedByOperator = errors.New("an operator has paused the key, and only an operator can resume it")
	// ErrNotRevealable: the key is unclaimed, so no copy of it is kept.
	ErrNotRevealable = errors.New("only a claimed key can be shown again")
	// ErrAccountNotFound: no account has this id.
	ErrAccountNotFound = errors.New("account not found")
	// ErrSessionNotFound: there is no such session, or its time is over.
	ErrSessionNotFound = errors.New("session not found")
	// ErrOrganizationNotFound: no organization has this id.
	ErrOrganizationNotFound = errors.New("organization not found")
	// ErrNoChain: no RPC is configured for the network, so the balance is unknown.
	ErrNoChain = errors.New("no RPC for this network, so its balances are not known")
	// ErrWalletNotFound: no live wallet with this id belongs to the key.
	ErrWalletNotFound = errors.New("wallet not found")
	// ErrWalletLimit: the plan, or an unclaimed key's bound, has no room for another wallet.
	ErrWalletLimit = errors.New("wallet limit reached")
	// ErrPaymentNotFound: no payment with this id, or it belongs to another key.
	ErrPaymentNotFound = errors.New("payment not found")
	// ErrEventNotFound: a listing was to go on behind a spend event that the key does not have.
	ErrEventNotFound = errors.New("spend event not found")
	// ErrIdempotencyReused: the idempotency key stands for another request.
	ErrIdempotencyReused = errors.New("the idempotency key stands for another request")
	// ErrNothingToRepeat: no new payment was asked for, and the call repeats no earlier one.
	ErrNothingToRepeat = errors.New("there is no earlier payment to repeat")
	// ErrQuota: the monthly payment limit is reached.
	ErrQuota = errors.New("payment limit reached for this month")
	// ErrLeaseHeld: another send holds the payment's lease.
	ErrLeaseHeld = errors.New("payment is held by another send")
	// ErrLeaseLost: the lease was taken over or has lapsed; nothing was written.
	ErrLeaseLost = errors.New("lease lost")
	// ErrTransactionKnown: the claimed transaction is recorded for another payment.
	ErrTransactionKnown = errors.New("transaction is recorded for another payment")
	// ErrPolicyChanged: the key has another policy or owner, or its organization another plan,
	// than the call was judged by.
	ErrPolicyChanged = errors.New("the key's policy, owner or plan has changed")
	// ErrUnavailable: the store cannot write at the moment; nothing was written.
	ErrUnavailable = errors.New("store unavailable")
	// ErrQueued: the store cannot write at the moment, but keeps the outcome and will
	// write it before anything else once it can.
	ErrQueued = errors.New("outcome queued, not yet durable")
	// ErrNoAddress: the wallet has no address because no wallet provider is configured.
	ErrNoAddress = errors.New("no wallet provider is configured, so this wallet has no address to pay from")
	// ErrNoFacilitator: no facilitator is configured, so payments that it would settle cannot be made.
	ErrNoFacilitator = errors.New("no facilitator is configured")
	// ErrCallerGone: the caller left before anything was sent; nothing was.
	ErrCallerGone = errors.New("caller gone before the payment was sent")
)

// NoWalletError: the key has no wallet for the network of the requirements.
type NoWalletError struct{ Network string }

func (e *NoWalletError) Error() string { return "no wallet for network " + e.Network }

// InputError: a field of the request is malformed. Field is the REST name.
type InputError struct{ Field, Reason string }

func (e *InputError) Error() string { return e.Field + ": " + e.Reason }

// PolicyError: a rule refused the payment before anything was signed. Rule is a stable
// word: paused, amount, challenge-too-large, doors, validity, hosts, payees, per-payment, daily-budget, monthly-budget,
// per-minute, price-guard, unanswered, and the limits of a part: host-per-payment,
// host-daily-budget, host-monthly-budget, task-per-payment, task-daily-budget,
// task-monthly-budget.
type PolicyError struct{ Rule, Detail string }

func (e *PolicyError) Error() string { return "refused by policy (" + e.Rule + "): " + e.Detail }

// Stage names the facilitator call, or what stands for it, that a payment failed at.
type Stage string

// The stages of a failed payment.
const (
	StageVerify Stage = "verification"
	StageSettle Stage = "settlement"
)

// FailedError: the payment was not made, or it is not known whether it was. Payment is
// nil when nothing was journaled; its state says which of the two it is.
type FailedError struct {
	Stage       Stage
	Payment     *Payment
	Detail      string
	Facilitator json.RawMessage // the facilitator's words, nil if it had none
	Funds       bool            // the wallet holds too little
	Cause       error

	// again, when not nil, reads the balance behind Funds once more, which was a remembered one, and
	// reports whether there is more now.
	again func(context.Context) bool
}

func (e *FailedError) Error() string {
	s := fmt.Sprintf("payment %s failed", e.Stage)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

func (e *FailedError) Unwrap() error { return e.Cause }

// failedFor returns the error of a payment that failed before a facilitator had it.
func failedFor(p *Payment, cause error) error {
	return &FailedError{Stage: StageVerify, Payment: p, Detail: cause.Error(), Cause: cause}
}

// SellerSettlesError: the seller says that the authorization is used already, so it settles payments
// itself. Another one that purser settles would buy nothing.
type SellerSettlesError struct {
	Earlier string // the payment that purser settled for the same URL; "" if none is found
}

func (e *SellerSettlesError) Error() string {
	return "the seller says that the authorization is used already: it settles payments itself"
}

// SpentError: the request was paid, and the payload that the seller would have to get is
// lost with the books that had it.
type SpentError struct{ Payment *Payment }

func (e *SpentError) Error() string {
	return fmt.Sprintf("the request was paid with payment %s, whose payload is lost", e.Payment.ID)
}

// OpenError: a repeat met a payment whose outcome is unknown and that cannot be driven on now.
// Another call is sending it, or it has expired.
type OpenError struct{ Payment *Payment }

func (e *OpenError) Error() string {
	return fmt.Sprintf("payment %s is open: its outcome is not known yet", e.Payment.ID)
}
