package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// bordered is a store behind a border. Calls that decide about money wait there twice: on their way, and with their
// answer. Other calls fail only when their purser is dead.
type bordered struct {
	pay.Store
	*world
	node *node
}

// do has a call cross to the store and back. Its error is one that stores answer.
func (b *bordered) do(ctx context.Context, what string, run func() error) error {
	luck, err := b.conductor.cross(ctx, b.node, "store "+what)
	if err != nil {
		return b.gone(err)
	}
	if !b.calm() && luck.IntN(100) < b.mix.storeFails {
		b.conductor.say("%s store: %s is unavailable", b.node, what)
		return fmt.Errorf("%w: simulated", pay.ErrUnavailable)
	}
	result := run()
	if _, err := b.conductor.cross(context.WithoutCancel(ctx), b.node, "store answers "+what); err != nil {
		return b.gone(err)
	}
	return result
}

// priceOf returns the price of a payment, which tells the order that it is for.
func (b *bordered) priceOf(id string) string {
	p, err := b.Store.Payment(context.Background(), id)
	if err != nil {
		return "?"
	}
	return p.Terms.Amount.String()
}

// gone says what a store answers when a border was not crossed.
func (b *bordered) gone(err error) error {
	if b.node.isDead() {
		return fmt.Errorf("%w: %w", pay.ErrUnavailable, err)
	}
	return err
}

func (b *bordered) Begin(ctx context.Context, begin *pay.Begin) (begun pay.Begun, err error) {
	err = b.do(ctx, "begin "+begin.Terms.Amount.String(), func() (err error) {
		if begun, err = b.Store.Begin(ctx, begin); err == nil {
			b.begun(begun, b.Store)
		} else if errors.Is(err, pay.ErrChallengeTaken) {
			b.conductor.say("%s: the challenge of %s is taken", b.node, begin.Terms.Amount)
		}
		return err
	})
	return begun, err
}

func (b *bordered) Acquire(ctx context.Context, id, owner string, now, until time.Time) (p *pay.Payment, err error) {
	err = b.do(ctx, "acquire "+b.priceOf(id), func() (err error) {
		p, err = b.Store.Acquire(ctx, id, owner, now, until)
		return err
	})
	return p, err
}

func (b *bordered) Renew(ctx context.Context, id string, fence uint64, until time.Time) error {
	return b.do(ctx, "renew "+b.priceOf(id), func() error { return b.Store.Renew(ctx, id, fence, until) })
}

func (b *bordered) Record(ctx context.Context, o pay.Outcome) (p *pay.Payment, e pay.Effects, err error) {
	err = b.do(ctx, "record "+b.priceOf(o.PaymentID)+" "+string(o.Verdict), func() (err error) {
		p, e, err = b.Store.Record(ctx, o)
		return err
	})
	return p, e, err
}

func (b *bordered) Lapse(ctx context.Context, now time.Time, held func(string) bool) (n int, err error) {
	err = b.do(ctx, "lapse", func() (err error) {
		n, err = b.Store.Lapse(ctx, now, held)
		return err
	})
	return n, err
}

func (b *bordered) Payment(ctx context.Context, id string) (*pay.Payment, error) {
	if b.node.isDead() {
		return nil, b.gone(errDied)
	}
	return b.Store.Payment(ctx, id)
}

// signing is a wallet provider behind a border. The world remembers each signature.
type signing struct {
	pay.Wallets
	*world
	node *node
}

func (s *signing) Sign(ctx context.Context, w pay.Wallet, m pay.Message) (x402.Signature, error) {
	luck, err := s.conductor.cross(ctx, s.node, "sign")
	if err != nil {
		return x402.Signature{}, err
	}
	if !s.calm() && luck.IntN(100) < s.mix.signerFails {
		s.conductor.say("%s signer fails", s.node)
		return x402.Signature{}, &pay.SignerError{Provider: s.Name(), Fault: pay.SignerSlow, Detail: "does not answer"}
	}
	sig, err := s.Wallets.Sign(ctx, w, m)
	if err == nil {
		s.signed(m)
	}
	return sig, err
}
