package pay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/purserpay/purser/internal/words"
)

// sentinel is an error that holds nothing but its code.
type sentinel struct {
	kind ErrorCode
	text string
}

// CodedError makes an error that holds nothing but its code.
func CodedError(kind ErrorCode, text string) error { return &sentinel{kind, text} }

func (e *sentinel) Error() string        { return e.text }
func (e *sentinel) ErrorCode() ErrorCode { return e.kind }

// Errors that stores and the pipeline return.
var (
	ErrKeyNotFound error = &sentinel{CodeKeyNotFound, "key not found"}
	// ErrSecretReplaced is an ErrKeyNotFound: the key has another secret since `purser keys reissue`.
	ErrSecretReplaced         = fmt.Errorf("%w: its secret was replaced", ErrKeyNotFound)
	ErrKeyExists        error = &sentinel{CodeKeyExists, "that API key already exists"}
	ErrKeyLimit         error = &sentinel{CodeKeyLimit, "API key limit reached"} // of the organization's plan
	ErrKeyClaimed       error = &sentinel{CodeKeyClaimed, "the key belongs to another organization"}
	ErrKeyLinked        error = &sentinel{CodeKeyLinked, "the key belongs to this organization already"}
	ErrKeyRevoked       error = &sentinel{CodeKeyRevoked, "the key is revoked, and that is for ever"}
	ErrPausedByOperator error = &sentinel{CodePausedBy, "an operator has paused the key, and only an operator can resume it"}
	ErrManyPausedHosts  error = &sentinel{CodeManyPaused, fmt.Sprintf("%d hosts are paused for the key, and there can be no more: pause the key, or list the hosts that it may pay", MaxPausedHosts)}
	// ErrNotRevealable: the key is unclaimed, so no copy of it is kept.
	ErrNotRevealable        error = &sentinel{CodeNotRevealable, "only a claimed key can be shown again"}
	ErrAccountNotFound      error = &sentinel{CodeAccountNotFound, "account not found"}
	ErrSessionNotFound      error = &sentinel{CodeSessionNotFound, "session not found"} // or its time is over
	ErrOrganizationNotFound error = &sentinel{CodeOrgNotFound, "organization not found"}
	ErrNoChain              error = &sentinel{CodeNoChain, "no RPC for this network, so its balances are not known"}
	ErrWalletNotFound       error = &sentinel{CodeWalletNotFound, "wallet not found"} // no live one of the key
	ErrApprovalNotFound     error = &sentinel{CodeApprovalUnknown, "approval not found"}
	// ErrApprovalClosed: it has another answer, was used or has expired.
	ErrApprovalClosed error = &sentinel{CodeApprovalClosed, "the approval is closed: it has an answer, was used, or its time is over"}
	// ErrNoSecret: the wallet's key is not in the store. Its provider keeps it, or it has none.
	ErrNoSecret   error = &sentinel{CodeNoSecret, "purser does not have the wallet's key: its provider keeps it, or it has none"}
	ErrWalletLive error = &sentinel{CodeWalletLive, "the wallet is not deleted"}
	// ErrWalletLimit: the plan, or an unclaimed key's bound, has no room for another wallet.
	ErrWalletLimit error = &sentinel{CodeWalletLimit, "wallet limit reached"}
	// ErrAddressTaken: a wallet has the address, deleted or not, of any key and network.
	ErrAddressTaken    error = &sentinel{CodeAddressTaken, "a wallet has this address already"}
	ErrPaymentNotFound error = &sentinel{CodePaymentNotFound, "payment not found"} // or it belongs to another key
	// ErrEventNotFound: a listing was to go on behind a spend event that the key does not have.
	ErrEventNotFound     error = &sentinel{CodeEventNotFound, "spend event not found"}
	ErrIdempotencyReused error = &sentinel{CodeReused, "the idempotency key stands for another request"}
	// ErrNothingToRepeat: no new payment was asked for, and the call repeats no earlier one.
	ErrNothingToRepeat error = &sentinel{CodeNoRepeat, "there is no earlier payment to repeat"}
	ErrQuota           error = &sentinel{CodeQuota, "payment limit reached for this month"}
	ErrLeaseHeld       error = &sentinel{CodeLeaseHeld, "payment is held by another send"}
	ErrLeaseLost       error = &sentinel{CodeLeaseLost, "lease lost"} // taken over or lapsed; nothing was written
	// ErrTransactionKnown: the claimed transaction is recorded for another payment.
	ErrTransactionKnown error = &sentinel{CodeTransaction, "transaction is recorded for another payment"}
	// ErrChallengeTaken: another payment of the wallet has the nonce that the challenge chose. If a call asks the
	// seller for a fresh challenge, it can be paid. Nothing was written.
	ErrChallengeTaken error = &sentinel{CodeChallenge, "another payment has answered this challenge"}
	// ErrPolicyChanged: the key has another policy or owner, or its organization another plan,
	// than the call was judged by. Or the wallet that was chosen is not the key's to use any more.
	ErrPolicyChanged       = errors.New("the key's policy, owner, plan or wallet has changed")
	ErrUnavailable   error = &sentinel{CodeUnavailable, "store unavailable"} // nothing was written
	// ErrQueued: the store cannot write at the moment, but keeps the outcome and will
	// write it before anything else once it can.
	ErrQueued              = errors.New("outcome queued, not yet durable")
	ErrNoAddress     error = &sentinel{CodeNoAddress, "no wallet provider is configured, so this wallet has no address to pay from"}
	ErrNoFacilitator error = &sentinel{CodeNoFacilitator, "no facilitator is configured"}
	ErrCallerGone    error = &sentinel{CodeCallerGone, "caller gone before the payment was sent"}
)

// NoWalletError: the key has no wallet for the network of the requirements.
type NoWalletError struct {
	Network string
	// Unpayable says why no wallet can be created there; "": one can.
	Unpayable string
}

func (e *NoWalletError) Error() string {
	if e.Unpayable != "" {
		return "unsupported network " + e.Network + ": " + e.Unpayable
	}
	return "no wallet for network " + e.Network
}

// InputError: a field of the request is malformed. Field is the REST name.
type InputError struct{ Field, Reason string }

func (e *InputError) Error() string { return e.Field + ": " + e.Reason }

// PolicyError: a rule refused the payment before anything was signed. Rule is a stable word:
// paused, amount, own-wallet, challenge-too-large, doors, validity, hosts, payees, per-payment, daily-budget,
// monthly-budget, max-amount, per-minute, price-guard, unanswered; one of a part: host- or task-per-payment,
// -daily-budget, -monthly-budget; or one about the seller's signed offers: offer-unreadable,
// offer-differs, offer-signature, offer-expired. Detail tells people of it, with amounts in whole
// units.
type PolicyError struct {
	Rule, Detail string
	Figures      *Figures // nil: the rule counts nothing

	over *budgetUse // the budget that the payment would pass; nil: none
}

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

// SilentError: the facilitator was asked and gave no verdict, or is not asked because it has given none too often. It
// has refused nothing.
type SilentError struct{ Cause error }

func (e *SilentError) Error() string { return "the facilitator did not answer: " + e.Cause.Error() }
func (e *SilentError) Unwrap() error { return e.Cause }

// silence returns the error of a payment for which the facilitator gave no verdict. p is nil before there is one.
func silence(stage Stage, p *Payment, err error) error {
	cause := &SilentError{err}
	return &FailedError{Stage: stage, Payment: p, Detail: cause.Error(), Facilitator: faultDetail(err), Cause: cause}
}

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

// UnreadyError: a rail cannot make a payment at the moment. Its network's RPC does not answer, gas is too dear, the
// challenge ends too soon, or the chain would refuse the payment. Nothing was signed.
type UnreadyError struct {
	Network string // our name
	Cause   error
}

func (e *UnreadyError) Error() string {
	return "nothing new can be paid on " + e.Network + " at the moment: " + words.Truncate(e.Cause.Error(), 200)
}
func (e *UnreadyError) Unwrap() error { return e.Cause }

// SpentError: the request was paid, and its payload is lost with the books that had it.
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
