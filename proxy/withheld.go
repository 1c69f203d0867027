package proxy

import (
	"errors"
	"fmt"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// withheld returns the reason word, and words for people, for a 402 to a payload that has left. earlier
// is the payment as the call found it, nil for a new one.
func withheld(p, earlier *pay.Payment) (reason, text string) {
	reason = afterSend(p)
	switch {
	case reason == DeclinedVoid:
		return reason, "The payment for this request was not made; repeat the request"
	case reason == DeclinedOpen:
		return reason, "A payment for this request was sent and its outcome is not known yet; repeat the same request"
	case earlier != nil && earlier.Delivered():
		return DeclinedBefore, fmt.Sprintf("This was paid before, on %s, and its answer was delivered; nothing was paid now, and the seller does not give that answer again. %s",
			pay.Moment(p.Closed), anew(p))
	case earlier != nil && earlier.State == pay.Settled:
		return reason, fmt.Sprintf("This was paid before, on %s, and the answer was lost; the seller answers 402 to the same payment now. %s",
			pay.Moment(p.Closed), anew(p))
	}
	return reason, "The payment was made, but the seller answered 402 again. " + anew(p)
}

// heldWords tells of an error with a payment that has left, or may still settle.
func heldWords(p *pay.Payment, err error) string {
	if _, dry := errors.AsType[*dryRunError](err); dry {
		return fmt.Sprintf("Dry run: this repeats payment %s of %s, begun on %s; nothing new would be paid",
			p.ID, money.Text(p.Moved()), pay.Moment(p.Created))
	}
	if _, spent := errors.AsType[*pay.SpentError](err); spent {
		return fmt.Sprintf("This was paid before, on %s, as the chain tells. purser's books were restored from a backup since, so the payment cannot be sent to the seller again. %s",
			pay.Moment(p.Created), anew(p))
	}
	_, text := withheld(p, nil)
	return text
}

// anew says how the client buys the same thing once more.
func anew(p *pay.Payment) string {
	if p.IdempotencyKey != "" {
		return "To buy it once more, send another Idempotency-Key; without one, send Purser-Again: new"
	}
	return "The next request for this is a new purchase"
}
