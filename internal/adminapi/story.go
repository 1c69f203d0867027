package adminapi

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/purserpay/purser/pay"
)

// Step is something in a payment's story that has a time.
type Step struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// stepsOf lists the events of a payment's life, in order. Facts without a time, such as the signature,
// are in evidenceOf.
func stepsOf(p *pay.Payment) []Step {
	begun := "journaled, through the door " + string(p.Door)
	if p.Withdraws() {
		begun = "journaled, as a withdrawal to " + p.Terms.PayTo.String()
	}
	if p.Reconciled {
		begun = "booked from the chain, because the database was restored from an earlier backup"
	}
	steps := []Step{{p.Created, begun}}
	for _, n := range p.Notes {
		steps = append(steps, Step{n.At, n.Text})
	}
	if c := p.Canceling; c != nil {
		what := "an operator cancels its authorization on the chain"
		if c.HandedOut {
			what = "an operator has got the signed cancellation of its authorization"
		}
		steps = append(steps, Step{c.At, what})
	}
	ruled := false
	if r := p.Resolution; r != nil {
		at := r.At
		// The ruling that closed it comes before that, and says why.
		if ruled = p.State == r.As && p.Reason == rulingReason(r); ruled && at.After(p.Closed) {
			at = p.Closed
		}
		steps = append(steps, Step{at, "an operator, " + cmp.Or(r.By, "somebody") + ", said that it is " + string(r.As) + ": " + r.Reason})
	}
	if p.State != pay.Open {
		what := string(p.State)
		if p.State == pay.Settled && p.Transaction != "" {
			what += " by transaction " + p.Transaction
		}
		if p.Reason != "" && !p.Disputed && !ruled { // that of a dispute came later
			what += ": " + p.Reason
		}
		steps = append(steps, Step{p.Closed, what})
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return a.At.Compare(b.At) })
	return steps
}

func rulingReason(r *pay.Resolution) string {
	return "resolved as " + string(r.As) + " by an operator: " + r.Reason
}

// evidenceOf lists the facts about a payment that have no time: whether it left, what its caller got,
// and what the chain says.
func evidenceOf(p *pay.Payment) []string {
	known := []string{}
	add := func(is bool, what string) {
		if is {
			known = append(known, what)
		}
	}
	switch {
	case p.Retired:
		known = append(known, "closed long ago: what was signed is dropped")
	case p.Reconciled:
	case p.Signature != nil && p.State == pay.Settled && !p.Disputed && (p.Confirmed || p.Resolution == nil):
		known = append(known, "signed, and it left")
	case p.Signature != nil:
		known = append(known, "signed, and it may have left")
	default:
		known = append(known, "not signed, as far as the books know")
	}
	unanswered := p.Unanswered && !p.Withdraws()
	add(p.Canceling != nil && p.State != pay.Settled && p.Lives(), "its payload is not sent again, because it is being canceled")
	add(p.Withdraws() && p.Awaited() && !p.Retired, "an equal order gets this payment until "+p.AwaitedUntil().Format(time.RFC3339))
	add(p.Answered && !p.Receipted, "the caller got its answer")
	add(p.Receipted, "the seller's receipt was posted")
	add(unanswered && p.Lives() && !p.Retired, "the caller did not get its answer; a repeat of the request gets this payment")
	add(unanswered && !p.Lives(), "the caller did not get its answer; a repeat of the request is a new payment")
	add(unanswered && p.Lives() && p.Retired, "the caller did not get its answer")
	add(p.PaidForNothing(), "paid and not delivered: "+p.Answer())
	add(p.NotDelivered() && !p.PaidForNothing(), "not delivered, and the money may have moved: "+p.Answer())
	add(p.AnswerBody.Hash != (pay.Hash{}), answerWords(p))
	add(p.Refused && !p.Doubted, "the facilitator refused it")
	add(p.Refused && p.Doubted, "the facilitator refused it, which the chain has not confirmed yet")
	add(p.State == pay.Void && p.Doubted, "purser takes it for unsent, which the chain has not confirmed yet; its money stays reserved")
	add(p.Unresolved, "it expired, and there is no evidence of what became of it")
	add(p.Confirmed, "the chain has it for good")
	add(p.Disputed, "the chain does not have it, and never will: "+p.Reason)
	if r := p.Resolution; r != nil {
		add(r.Proven, "the chain has shown since that the operator was right")
	}
	return known
}

func answerWords(p *pay.Payment) string {
	b := p.AnswerBody
	which := "its body has"
	if b.Cut {
		which = "its body has at least"
	}
	return fmt.Sprintf("the answer had status %d; %s %d bytes, and their SHA-256 is %x", p.AnswerStatus, which, b.Size, b.Hash)
}
