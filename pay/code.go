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
	CodeFailures   ErrorCode = "failures"  // *FailuresError
	CodeQuestions  ErrorCode = "questions" // *QuestionsError
	CodeNoRepeat   ErrorCode = "no-repeat"
	CodeKeyRevoked ErrorCode = "key-revoked"
	CodePausedBy   ErrorCode = "paused-by-operator"
	CodeManyPaused ErrorCode = "many-paused-hosts"
	CodeApproval   ErrorCode = "approval" // *ApprovalError

	// A payment.
	CodeFailed        ErrorCode = "failed"       // *FailedError
	CodeOpen          ErrorCode = "open"         // *OpenError
	CodeSpent         ErrorCode = "spent"        // *SpentError
	CodeUnresolvable  ErrorCode = "unresolvable" // *UnresolvableError
	CodeLeaseHeld     ErrorCode = "lease-held"
	CodeLeaseLost     ErrorCode = "lease-lost"
	CodeTransaction   ErrorCode = "transaction-known"
	CodeChallenge     ErrorCode = "challenge-taken"
	CodeNoAddress     ErrorCode = "no-address"
	CodeSellerSettles ErrorCode = "seller-settles" // *SellerSettlesError
	CodeAllowance     ErrorCode = "allowance"      // *AllowanceError
	CodeWalletCode    ErrorCode = "wallet-code"    // *WalletCodeError
	CodeCallerGone    ErrorCode = "caller-gone"
	CodeUncancelable  ErrorCode = "uncancelable" // *UncancelableError

	// A transaction of a wallet: package treasury has the errors.
	CodeGas            ErrorCode = "no-gas"                 // *GasError
	CodeNoTransactions ErrorCode = "no-transactions"        // the signer signs none
	CodeRejected       ErrorCode = "transaction-rejected"   // *RejectedError
	CodeReverts        ErrorCode = "transaction-would-fail" // *RevertError
	CodeRPC            ErrorCode = "rpc"                    // *RPCError

	// The books.
	CodeKeyNotFound     ErrorCode = "key-not-found"
	CodeAccountNotFound ErrorCode = "account-not-found"
	CodeSessionNotFound ErrorCode = "session-not-found"
	CodeOrgNotFound     ErrorCode = "organization-not-found"
	CodeWalletNotFound  ErrorCode = "wallet-not-found"
	CodePaymentNotFound ErrorCode = "payment-not-found"
	CodeEventNotFound   ErrorCode = "event-not-found"
	CodeApprovalUnknown ErrorCode = "approval-not-found"
	CodeApprovalClosed  ErrorCode = "approval-closed"
	CodeKeyExists       ErrorCode = "key-exists"
	CodeKeyLimit        ErrorCode = "key-limit"
	CodeKeyClaimed      ErrorCode = "key-claimed"
	CodeKeyLinked       ErrorCode = "key-linked"
	CodeNotRevealable   ErrorCode = "not-revealable"
	CodeWalletLimit     ErrorCode = "wallet-limit"
	CodeAddressTaken    ErrorCode = "address-taken"
	CodeWalletLive      ErrorCode = "wallet-live"
	CodeNoSecret        ErrorCode = "no-secret"

	// What purser depends on.
	CodeUnavailable    ErrorCode = "unavailable"
	CodeReconciling    ErrorCode = "reconciling" // *ReconcilingError
	CodeClock          ErrorCode = "clock"       // *ClockError
	CodeNotReconciling ErrorCode = "not-reconciling"
	CodeNoChain        ErrorCode = "no-chain"
	CodeNoFacilitator  ErrorCode = "no-facilitator"
	CodeSilent         ErrorCode = "facilitator-silent" // *SilentError
	CodeSigner         ErrorCode = "signer"             // *SignerError
	CodeUnready        ErrorCode = "network-unready"    // *UnreadyError
	CodeEnded          ErrorCode = "ended"              // the context of the call ended
)

// coded is an error that knows its code. One that is about a payment comes before its cause: the
// lease that was lost is an open payment to the caller.
type coded interface {
	error
	ErrorCode() ErrorCode
}

func (*InputError) ErrorCode() ErrorCode         { return CodeInput }
func (*HeaderError) ErrorCode() ErrorCode        { return CodeHeader }
func (*NoWalletError) ErrorCode() ErrorCode      { return CodeNoWallet }
func (*PolicyError) ErrorCode() ErrorCode        { return CodePolicy }
func (*FailuresError) ErrorCode() ErrorCode      { return CodeFailures }
func (*QuestionsError) ErrorCode() ErrorCode     { return CodeQuestions }
func (*FailedError) ErrorCode() ErrorCode        { return CodeFailed }
func (*OpenError) ErrorCode() ErrorCode          { return CodeOpen }
func (*SpentError) ErrorCode() ErrorCode         { return CodeSpent }
func (*UnresolvableError) ErrorCode() ErrorCode  { return CodeUnresolvable }
func (*SellerSettlesError) ErrorCode() ErrorCode { return CodeSellerSettles }
func (*AllowanceError) ErrorCode() ErrorCode     { return CodeAllowance }
func (*WalletCodeError) ErrorCode() ErrorCode    { return CodeWalletCode }
func (*ReconcilingError) ErrorCode() ErrorCode   { return CodeReconciling }
func (*ClockError) ErrorCode() ErrorCode         { return CodeClock }
func (*SignerError) ErrorCode() ErrorCode        { return CodeSigner }
func (*SilentError) ErrorCode() ErrorCode        { return CodeSilent }
func (*UnreadyError) ErrorCode() ErrorCode       { return CodeUnready }
func (*UncancelableError) ErrorCode() ErrorCode  { return CodeUncancelable }

// Code finds the code of an error. Why a payment failed, the code of [FailedError.Cause] says.
func Code(err error) ErrorCode {
	switch c, found := errors.AsType[coded](err); {
	case found:
		return c.ErrorCode()
	case is[*x402.UnsupportedError](err):
		return CodeUnsupported
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return CodeEnded
	}
	return CodeInternal
}

func is[E error](err error) bool {
	_, found := errors.AsType[E](err)
	return found
}
