package pay

import (
	"context"
	"fmt"
	"time"

	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// UndisclosableError reports that what a payment has signed is not shown to others.
type UndisclosableError struct {
	Payment string // its id
	Reason  string
}

func (e *UndisclosableError) Error() string {
	return fmt.Sprintf("payment %s cannot be proved to others: %s", e.Payment, e.Reason)
}

// Disclosable returns nil when the payment's signature moves nothing any more, so that others may have it; else
// *UndisclosableError. A seller that gets it earlier could still take the money.
func (p *Payment) Disclosable(now time.Time) error {
	no := func(format string, args ...any) error {
		return &UndisclosableError{Payment: p.ID, Reason: fmt.Sprintf(format, args...)}
	}
	until := p.ValidBefore().Add(RepeatGrace)
	switch {
	case p.Door == policy.DoorOperator:
		return no("it is a withdrawal, which has bought nothing")
	case p.Retired:
		return no("it was closed long ago, and what was signed is dropped")
	case p.Reconciled:
		return no("only the chain tells of it")
	case p.State == Void:
		return no("it is void: no money moved")
	case p.Signature == nil:
		return no("it was not signed, as far as the books know")
	case p.Authorization.Rail != x402.RailEIP3009 && !p.Authorization.Rail.Permit2():
		return no("it was paid neither by EIP-3009 nor through Permit2, and nothing else can be checked so far")
	case !p.Confirmed && now.Before(until):
		return no("its signature may still move the money; ask again after %s", until.Format(time.RFC3339))
	}
	return nil
}

// Bought reports whether the payment was made for this request: by its method, the URL that the client asked for, and
// the SHA-256 of its body. A multipart body counts with another boundary: see docs/design/calls.md.
func (p *Payment) Bought(method, url string, body Hash) bool {
	r := HTTPRequest{Method: method, URL: url, Body: body}
	return !p.Retired && p.Fingerprint == r.fingerprint(body)
}

// Trace asks the chain what became of a payment's authorization. [ErrUnwatched]: there is no RPC for its network.
func (p *Payer) Trace(ctx context.Context, row *Payment) (Trace, error) { return p.trace(ctx, row) }
