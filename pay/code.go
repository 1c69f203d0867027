package pay

import (
	"context"
	"errors"

	"github.com/purserpay/purser/x402"
)

// ErrorCode names a kind of error. Each edge (REST, proxy, admin, dashboard, metrics) maps codes to
// its own answers, in one table.
type ErrorCode string

// The codes. The comments name the type where the error holds more than its code.
const (
	CodeInternal ErrorCode = "internal" // any other error

	// The request.
	CodeInput       ErrorCode = "input"       // *InputError
	CodeHeader      ErrorCode = "header"      // *HeaderError
	CodeUnsupported ErrorCode = "unsupported" // *x402.UnsupportedError
	CodeNoWallet    ErrorCode = "no-wallet"   // *NoWalletError
	CodeReused      ErrorCode = "reused"

	// What a key may do.
	CodePolicy     ErrorCode = "policy" // *PolicyError
	CodeQuota      ErrorCode = "quota"
	CodeFailures   ErrorCode = "failures" // *FailuresError
	CodeNoRepeat   ErrorCode = "no-repeat"
	CodeKeyRevoked ErrorCode = "key-revoked"
	CodePausedBy   ErrorCode = "paused-by-operator"

	// A payment.
	CodeFailed        ErrorCode = "failed"       // *FailedError
	CodeOpen          ErrorCode = "open"         // *OpenError
	CodeSpent         ErrorCode = "spent"        // *SpentError
	CodeUnresolvable  ErrorCode = "unresolvable" // *UnresolvableError
	CodeLeaseHeld     ErrorCode = "lease-held"
	CodeLeaseLost     ErrorCode = "lease-lost"
	CodeTransaction   ErrorCode = "transaction-known"
	CodeNoAddress     ErrorCode = "no-address"
	CodeSellerSettles ErrorCode = "seller-settles" // *SellerSettlesError
	CodeCallerGone    ErrorCode = "caller-gone"

	// The books.
	CodeKeyNotFound     ErrorCode = "key-not-found"
	CodeAccountNotFound ErrorCode = "account-not-found"
	CodeSessionNotFound ErrorCode = "session-not-found"
	CodeOrgNotFound     ErrorCode = "organization-not-found"
	CodeWalletNotFound  ErrorCode = "wallet-not-found"
	CodePaymentNotFound ErrorCode = "payment-not-found"
	CodeEventNotFound   ErrorCode = "event-not-found"
	CodeKeyExists       ErrorCode = "key-exists"
	CodeKeyLimit        ErrorCode = "key-limit"
	CodeKeyClaimed      ErrorCode = "key-claimed"
	CodeKeyLinked       ErrorCode = "key-linked"
	CodeNotRevealable   ErrorCode = "not-revealable"
	CodeWalletLimit     ErrorCode = "wallet-limit"

	// What purser depends on.
	CodeUnavailable    ErrorCode = "unavailable"
	CodeReconciling    ErrorCode = "reconciling" // *ReconcilingError
	CodeClock          ErrorCode = "clock"       // *ClockError
	CodeNotReconciling ErrorCode = "not-reconciling"
	CodeNoChain        ErrorCode = "no-chain"
	CodeNoFacilitator  ErrorCode = "no-facilitator"
	CodeEnded          ErrorCode = "ended" // the context of the call ended
)

// codes has the code of each error that holds nothing else.
var codes = []struct {
	err  error
	code ErrorCode
}{
	{ErrIdempotencyReused, CodeReused},
	{ErrQuota, CodeQuota},
	{ErrNothingToRepeat, CodeNoRepeat},
	{ErrKeyRevoked, CodeKeyRevoked},
	{ErrPausedByOperator, CodePausedBy},
	{ErrLeaseHeld, CodeLeaseHeld},
	{ErrLeaseLost, CodeLeaseLost},
	{ErrTransactionKnown, CodeTransaction},
	{ErrNoAddress, CodeNoAddress},
	{ErrKeyNotFound, CodeKeyNotFound},
	{ErrAccountNotFound, CodeAccountNotFound},
	{ErrSessionNotFound, CodeSessionNotFound},
	{ErrOrganizationNotFound, CodeOrgNotFound},
	{ErrWalletNotFound, CodeWalletNotFound},
	{ErrPaymentNotFound, CodePaymentNotFound},
	{ErrEventNotFound, CodeEventNotFound},
	{ErrKeyExists, CodeKeyExists},
	{ErrKeyLimit, CodeKeyLimit},
	{ErrKeyClaimed, CodeKeyClaimed},
	{ErrKeyLinked, CodeKeyLinked},
	{ErrNotRevealable, CodeNotRevealable},
	{ErrWalletLimit, CodeWalletLimit},
	{ErrNotReconciling, CodeNotReconciling},
	{ErrNoChain, CodeNoChain},
	{ErrNoFacilitator, CodeNoFacilitator},
	{ErrUnavailable, CodeUnavailable},
	{ErrCallerGone, CodeCallerGone},
	{context.Canceled, CodeEnded},
	{context.DeadlineExceeded, CodeEnded},
}

// Code finds the code of an error. An error that is about a payment comes before its cause, as the
// lease that was lost is an open payment to the caller. Why a payment failed, the code of
// [FailedError.Cause] says.
func Code(err error) ErrorCode {
	switch {
	case is[*OpenError](err):
		return CodeOpen
	case is[*SpentError](err):
		return CodeSpent
	case is[*FailedError](err):
		return CodeFailed
	case is[*PolicyError](err):
		return CodePolicy
	case is[*FailuresError](err):
		return CodeFailures
	case is[*HeaderError](err):
		return CodeHeader
	case is[*NoWalletError](err):
		return CodeNoWallet
	case is[*x402.UnsupportedError](err):
		return CodeUnsupported
	case is[*InputError](err):
		return CodeInput
	case is[*SellerSettlesError](err):
		return CodeSellerSettles
	case is[*UnresolvableError](err):
		return CodeUnresolvable
	case is[*ReconcilingError](err): // an ErrUnavailable, as the next one
		return CodeReconciling
	case is[*ClockError](err):
		return CodeClock
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return CodeInternal
}

func is[E error](err error) bool {
	_, found := errors.AsType[E](err)
	return found
}
