package pay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/purserpay/purser/money"
)

// Quote says what a call would pay. Nothing is journaled, reserved or signed for it.
type Quote struct {
	// Terms name the new payment. They are zero if the challenge offers nothing that the key
	// could pay, and for a call that repeats an earlier one.
	Terms  Terms
	Wallet Wallet // pays
	Means  Means  // of what Terms name
	// Gas is the most that the wallet pays for gas beside the price. Zero: nothing.
	Gas money.Amount
	// Earlier is the payment that the call repeats, nil for none: nothing new would be paid.
	Earlier *Payment
	// Offers has all of the challenge, in the order of choice; nil for a repeat.
	Offers []Offered
}

// Quote decides on a call as Open and Pay do, and leaves it at that. A refusal comes with the terms that it is about,
// if there are any. Another payment that comes first may take what is left. Errors are those of
// Open but *OpenError and *SpentError. A *FailuresError also says that the key asks too often.
func (p *Payer) Quote(ctx context.Context, r Request) (Quote, error) {
	if err := p.enter(); err != nil {
		return Quote{}, err
	}
	defer p.background.Done()
	if err := r.check(); err != nil {
		return Quote{}, err
	}
	if err := p.quotesRefused(p.quotes.Take(r.Key.ID, 1, p.now())); err != nil {
		return Quote{}, err
	}
	r = r.withoutUserinfo()
	r.quoting = true
	for changes, looked := 0, false; ; {
		q, err := p.quote(ctx, r)
		short, few := errors.AsType[*FailedError](err)
		switch {
		case few && short.again != nil && !looked:
			if looked = true; short.again(ctx) {
				continue
			}
		case errors.Is(err, ErrPolicyChanged):
			if changes++; changes > maxPolicyChanges {
				return q, fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
			if r.Key, err = p.keyAgain(ctx, r.Key.ID); err != nil {
				return Quote{}, err
			}
			continue
		}
		q.refused(err)
		if err == nil && q.Earlier == nil {
			p.quoted.named(r, q.Terms.Amount, p.now())
		}
		return q, err
	}
}

// refused marks the chosen offer with what refuses its payment.
func (q *Quote) refused(err error) {
	for i := range q.Offers {
		if q.Offers[i].Refusal == nil {
			q.Offers[i].Refusal = err
		}
	}
}

// MayQuote refuses a key that asks for quotes too often, as Quote does, before anything of the challenge is
// read: *FailuresError.
func (p *Payer) MayQuote(keyID string) error { return p.quotesRefused(p.quotes.Wait(keyID, p.now())) }

func (p *Payer) quotesRefused(wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	return &FailuresError{Most: p.opts.Failures.Quotes, Window: "minute", RetryAfter: wait, Quotes: true}
}

func (p *Payer) quote(ctx context.Context, r Request) (q Quote, err error) {
	b, c, err := p.propose(ctx, r)
	defer func() { c.unused() }()
	q.Offers = c.offers
	if c.chosen() {
		q.Terms, q.Wallet, q.Means = c.terms(r.Settlement), c.wallet, meansOf(c.requirement)
	}
	if err != nil {
		return q, err
	}
	if b.New != nil {
		q.Gas = b.New.gas()
		b.Declined = p.clockRefusal(ctx, b.New.validity())
	}
	b.Now, b.Dry = p.now().UTC(), true
	begun, err := p.store.Begin(ctx, b)
	if err != nil {
		return q, fmt.Errorf("quoting a payment: %w", err)
	}
	if b.New == nil || begun.Payment.ID != b.New.ID {
		q = Quote{Earlier: begun.Payment}
	}
	return q, nil
}
