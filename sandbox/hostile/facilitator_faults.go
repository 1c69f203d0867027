package hostile

import (
	"net/http"
	"time"

	"github.com/purserpay/purser/sandbox/honest"
)

// answering returns a fault in the answer to one call.
func answering(call, name string, answer func(*Call) Answer) FacilitatorFault {
	return FacilitatorFault{Name: name, On: call, Do: func(c *Call) { c.Send(answer(c)) }}
}

// afterTransfer makes the transfer before it answers.
func afterTransfer(answer func(*Call) Answer) func(*Call) Answer {
	return func(c *Call) Answer {
		c.Serve()
		return answer(c)
	}
}

// failing denies a transfer, without a transaction.
func failing(reason string) func(*Call) Answer {
	return func(c *Call) Answer { return c.Failure(reason, "") }
}

// saying answers with a status and a text.
func saying(status int, text string) func(*Call) Answer {
	return func(*Call) Answer { return Answer{Status: status, Body: []byte(text)} }
}

// Faults of a facilitator. Those with "after" in their names move the money before they fail.
var (
	VerifyTimesOut = FacilitatorFault{Name: "verify times out", On: Verify, Do: (*Call).Hang}
	VerifyReset    = FacilitatorFault{Name: "verify is reset", On: Verify, Do: (*Call).Reset}
	VerifyFails    = answering(Verify, "verify answers 500", saying(http.StatusInternalServerError, ""))
	VerifyRefuses  = answering(Verify, "verify refuses without a reason that is known", func(c *Call) Answer {
		return c.Invalid("the_stars_are_not_right")
	})
	// VerifyRefusesAndSends refuses each payload, and makes its transfer all the same.
	VerifyRefusesAndSends = FacilitatorFault{Name: "verify refuses, and makes the transfer", On: Verify, Always: true, Do: func(c *Call) {
		c.Take()
		c.Send(c.Invalid("insufficient_funds"))
	}}
	VerifySaysUsed = answering(Verify, "verify says that the authorization is used, which it is not", func(c *Call) Answer {
		return c.Invalid(honest.NonceUsed)
	})

	TimeoutBefore = FacilitatorFault{Name: "times out before the transfer", On: Settle, Do: (*Call).Hang}
	TimeoutAfter  = FacilitatorFault{Name: "times out after the transfer", On: Settle, Do: func(c *Call) {
		c.Serve()
		c.Hang()
	}}
	ResetBefore = FacilitatorFault{Name: "is reset before the transfer", On: Settle, Do: (*Call).Reset}
	ResetAfter  = FacilitatorFault{Name: "is reset after the transfer", On: Settle, Do: func(c *Call) {
		c.Serve()
		c.Reset()
	}}
	FailsBefore = answering(Settle, "answers 503 before the transfer", saying(http.StatusServiceUnavailable, ""))
	FailsAfter  = answering(Settle, "answers 500 after the transfer",
		afterTransfer(saying(http.StatusInternalServerError, `{"error":"internal"}`)))

	InventsSuccess = answering(Settle, "claims success with an invented transaction", func(c *Call) Answer {
		return c.Success(inventTransaction())
	})
	ClaimsAnothers = answering(Settle, "claims success with somebody else's transaction", func(c *Call) Answer {
		return c.Success(c.facilitator.foreign)
	})
	NamesNothing = answering(Settle, "claims success without a transaction, after the transfer",
		afterTransfer(func(c *Call) Answer { return c.Success("") }))
	DeniesAfter  = answering(Settle, "denies the transfer that it made", afterTransfer(failing(honest.UnexpectedAtSettle)))
	DeniesByName = answering(Settle, "denies the transfer and names its transaction", func(c *Call) Answer {
		return c.Failure(honest.TransactionFailed, transactionOf(c.Serve()))
	})
	PendingAfter = answering(Settle, "says pending after the transfer", func(c *Call) Answer {
		return c.Failure(honest.SettlementPending, transactionOf(c.Serve()))
	})
	PendingBefore = answering(Settle, "says pending and never settles", func(c *Call) Answer {
		return c.Failure(honest.SettlementPending, inventTransaction())
	})
	UnknownReason = answering(Settle, "fails for a reason nobody knows", failing("computer_says_no"))
	// RefusesAfter gives a reason that can only precede the transfer, which it has made. A payer
	// without an RPC must believe its own facilitator, and its customer's repeat buys again.
	RefusesAfter = answering(Settle, "says insufficient funds after the transfer", afterTransfer(failing("insufficient_funds")))
	Refuses      = answering(Settle, "refuses before the transfer", failing(honest.TooPoor))
	Contradicts  = answering(Settle, "claims success and names a reason", func(*Call) Answer {
		return jsonAnswer(http.StatusOK, honest.SettleAnswer{
			Success: true, Transaction: inventTransaction(), Network: honest.WireNetwork(2), ErrorReason: honest.UnexpectedAtSettle,
		})
	})
	Malformed   = answering(Settle, "answers nonsense after the transfer", afterTransfer(saying(http.StatusOK, `{"success":"yes","transaction":[}`)))
	TwoVerdicts = answering(Settle, "answers with two verdicts", func(c *Call) Answer {
		return saying(http.StatusOK, `{"success":true,"success":false,"transaction":"`+inventTransaction()+`"}`)(c)
	})
	Endless = FacilitatorFault{Name: "answers without end after the transfer", On: Settle, Do: func(c *Call) {
		c.Serve()
		endless(c.w, c.r, `{"success":true,"transaction":"`)
	}}
	Slow = answering(Settle, "answers slowly", func(c *Call) Answer {
		a := c.Serve()
		pause(c.r.Context(), 500*time.Millisecond)
		return a
	})
	Duplicate           = answering(Settle, "settles twice and answers with the second try", afterTransfer((*Call).Serve))
	SaysDuplicate       = answering(Settle, "calls its own settlement a duplicate", afterTransfer(failing("duplicate_settlement")))
	SaysDuplicateBefore = answering(Settle, "calls a settlement a duplicate that never was", failing("duplicate_settlement"))
	SettlesLate         = answering(Settle, "fails, and settles when everybody is gone", func(c *Call) Answer {
		c.Later()
		return c.Failure(honest.UnexpectedAtSettle, "")
	})
	RefusesAndSettlesLate = answering(Settle, "refuses, and settles when everybody is gone", func(c *Call) Answer {
		c.Later()
		return c.Failure("insufficient_funds", "")
	})
	Swaps = FacilitatorFault{Name: "mixes up the answers of two calls", On: Settle, Always: true, Do: func(c *Call) {
		c.Send(c.Swap(c.Serve()))
	}}
	// SwapsRefused and SwapsSettled swap the answers of two calls: one was settled, one was not.
	SwapsRefused = answering(Settle, "mixes up a settlement with a failure", func(c *Call) Answer {
		return c.Swap(c.Failure(honest.UnexpectedAtSettle, ""))
	})
	SwapsSettled = answering(Settle, "mixes up a failure with a settlement", func(c *Call) Answer { return c.Swap(c.Serve()) })
)
