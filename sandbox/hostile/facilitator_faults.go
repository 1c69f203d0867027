package hostile

import (
	"net/http"
	"time"
)

// Faults of a facilitator. Those with "after" in their names move the money before they fail.
var (
	VerifyTimesOut = FacilitatorFault{Name: "verify times out", On: Verify, Do: (*Call).Hang}
	VerifyReset    = FacilitatorFault{Name: "verify is reset", On: Verify, Do: (*Call).Reset}
	VerifyFails    = FacilitatorFault{Name: "verify answers 500", On: Verify, Do: func(c *Call) {
		c.Send(Answer{Status: http.StatusInternalServerError})
	}}
	VerifyRefuses = FacilitatorFault{Name: "verify refuses without a reason that is known", On: Verify, Do: func(c *Call) {
		c.Send(c.Invalid("the_stars_are_not_right"))
	}}
	// VerifyRefusesAndSends refuses each payload, and makes its transfer all the same.
	VerifyRefusesAndSends = FacilitatorFault{Name: "verify refuses, and makes the transfer", On: Verify, Always: true, Do: func(c *Call) {
		c.Take()
		c.Send(c.Invalid("insufficient_funds"))
	}}
	VerifySaysUsed = FacilitatorFault{Name: "verify says that the authorization is used, which it is not", On: Verify, Do: func(c *Call) {
		c.Send(c.Invalid("invalid_exact_evm_nonce_already_used"))
	}}

	TimeoutBefore = FacilitatorFault{Name: "times out before the transfer", On: Settle, Do: (*Call).Hang}
	TimeoutAfter  = FacilitatorFault{Name: "times out after the transfer", On: Settle, Do: func(c *Call) { c.Serve(); c.Hang() }}
	ResetBefore   = FacilitatorFault{Name: "is reset before the transfer", On: Settle, Do: (*Call).Reset}
	ResetAfter    = FacilitatorFault{Name: "is reset after the transfer", On: Settle, Do: func(c *Call) { c.Serve(); c.Reset() }}
	FailsBefore   = FacilitatorFault{Name: "answers 503 before the transfer", On: Settle, Do: func(c *Call) {
		c.Send(Answer{Status: http.StatusServiceUnavailable})
	}}
	FailsAfter = FacilitatorFault{Name: "answers 500 after the transfer", On: Settle, Do: func(c *Call) {
		c.Serve()
		c.Send(jsonAnswer(http.StatusInternalServerError, map[string]string{"error": "internal"}))
	}}

	InventsSuccess = FacilitatorFault{Name: "claims success with an invented transaction", On: Settle, Do: func(c *Call) {
		c.Send(c.Success(inventTransaction()))
	}}
	ClaimsAnothers = FacilitatorFault{Name: "claims success with somebody else's transaction", On: Settle, Do: func(c *Call) {
		c.Send(c.Success(c.facilitator.foreign))
	}}
	NamesNothing = FacilitatorFault{Name: "claims success without a transaction, after the transfer", On: Settle, Do: func(c *Call) {
		c.Serve()
		c.Send(c.Success(""))
	}}
	DeniesAfter = FacilitatorFault{Name: "denies the transfer that it made", On: Settle, Do: func(c *Call) {
		c.Serve()
		c.Send(c.Failure("unexpected_settle_error", ""))
	}}
	DeniesByName = FacilitatorFault{Name: "denies the transfer and names its transaction", On: Settle, Do: func(c *Call) {
		tx := transactionOf(c.Serve())
		c.Send(c.Failure("invalid_exact_evm_transaction_failed", tx))
	}}
	PendingAfter = FacilitatorFault{Name: "says pending after the transfer", On: Settle, Do: func(c *Call) {
		c.Send(c.Failure("settlement_pending", transactionOf(c.Serve())))
	}}
	PendingBefore = FacilitatorFault{Name: "says pending and never settles", On: Settle, Do: func(c *Call) {
		c.Send(c.Failure("settlement_pending", inventTransaction()))
	}}
	UnknownReason = FacilitatorFault{Name: "fails for a reason nobody knows", On: Settle, Do: func(c *Call) {
		c.Send(c.Failure("computer_says_no", ""))
	}}
	// RefusesAfter gives a reason that can only precede the transfer, which it has made. A payer
	// without an RPC must believe its own facilitator, and its customer's repeat buys again.
	RefusesAfter = FacilitatorFault{Name: "says insufficient funds after the transfer", On: Settle, Do: func(c *Call) {
		c.Serve()
		c.Send(c.Failure("insufficient_funds", ""))
	}}
	Refuses = FacilitatorFault{Name: "refuses before the transfer", On: Settle, Do: func(c *Call) {
		c.Send(c.Failure("invalid_exact_evm_insufficient_balance", ""))
	}}
	Contradicts = FacilitatorFault{Name: "claims success and names a reason", On: Settle, Do: func(c *Call) {
		c.Send(jsonAnswer(http.StatusOK, settleAnswer{
			Success: true, Transaction: inventTransaction(), Network: network().CAIP2(), ErrorReason: "unexpected_settle_error",
		}))
	}}
	Malformed = FacilitatorFault{Name: "answers nonsense after the transfer", On: Settle, Do: func(c *Call) {
		c.Serve()
		c.Send(Answer{Status: http.StatusOK, Body: []byte(`{"success":"yes","transaction":[}`)})
	}}
	TwoVerdicts = FacilitatorFault{Name: "answers with two verdicts", On: Settle, Do: func(c *Call) {
		c.Send(Answer{Status: http.StatusOK, Body: []byte(`{"success":true,"success":false,"transaction":"` + inventTransaction() + `"}`)})
	}}
	Endless = FacilitatorFault{Name: "answers without end after the transfer", On: Settle, Do: func(c *Call) {
		c.Serve()
		endless(c.w, c.r, `{"success":true,"transaction":"`)
	}}
	Slow = FacilitatorFault{Name: "answers slowly", On: Settle, Do: func(c *Call) {
		a := c.Serve()
		c.Pause(500 * time.Millisecond)
		c.Send(a)
	}}
	Duplicate = FacilitatorFault{Name: "settles twice and answers with the second try", On: Settle, Do: func(c *Call) {
		c.Serve()
		c.Send(c.Serve())
	}}
	SaysDuplicate = FacilitatorFault{Name: "calls its own settlement a duplicate", On: Settle, Do: func(c *Call) {
		c.Serve()
		c.Send(c.Failure("duplicate_settlement", ""))
	}}
	SaysDuplicateBefore = FacilitatorFault{Name: "calls a settlement a duplicate that never was", On: Settle, Do: func(c *Call) {
		c.Send(c.Failure("duplicate_settlement", ""))
	}}
	SettlesLate = FacilitatorFault{Name: "fails, and settles when everybody is gone", On: Settle, Do: func(c *Call) {
		c.Later()
		c.Send(c.Failure("unexpected_settle_error", ""))
	}}
	RefusesAndSettlesLate = FacilitatorFault{Name: "refuses, and settles when everybody is gone", On: Settle, Do: func(c *Call) {
		c.Later()
		c.Send(c.Failure("insufficient_funds", ""))
	}}
	Swaps = FacilitatorFault{Name: "mixes up the answers of two calls", On: Settle, Always: true, Do: func(c *Call) {
		c.Send(c.Swap(c.Serve()))
	}}
	// SwapsRefused and SwapsSettled swap the answers of two calls: one was settled, one was not.
	SwapsRefused = FacilitatorFault{Name: "mixes up a settlement with a failure", On: Settle, Do: func(c *Call) {
		c.Send(c.Swap(c.Failure("unexpected_settle_error", "")))
	}}
	SwapsSettled = FacilitatorFault{Name: "mixes up a failure with a settlement", On: Settle, Do: func(c *Call) {
		c.Send(c.Swap(c.Serve()))
	}}
)
