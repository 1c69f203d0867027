package pay

import (
	"context"
	"fmt"
	"sync"

	"github.com/purserpay/purser/x402"
)

// Package treasury carries out an operator's orders with the methods of this file.

// Options returns the options in force.
func (p *Payer) Options() Options { return p.opts }

// Enter counts work in flight, for which Close waits. It fails once Close was called: ErrUnavailable.
func (p *Payer) Enter() (leave func(), err error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	return p.background.Done, nil
}

// senders lets one call at a time send transactions of an account: two would take one nonce.
type senders struct {
	mu    sync.Mutex
	turns map[x402.Address]chan struct{}
}

// take waits for the turn of an account. The caller must give it back.
func (s *senders) take(ctx context.Context, of x402.Address) (giveBack func(), err error) {
	s.mu.Lock()
	turn := s.turns[of]
	if turn == nil {
		turn = make(chan struct{}, 1)
		if s.turns == nil {
			s.turns = map[x402.Address]chan struct{}{}
		}
		s.turns[of] = turn
	}
	s.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another transaction of the wallet: %w", ctx.Err())
	}
}

// Turn waits until no other call sends transactions of a wallet: ErrNoAddress. The caller must give the turn
// back. The next payment then asks the chain what Permit2 may move.
func (p *Payer) Turn(ctx context.Context, w Wallet) (giveBack func(), err error) {
	if w.Address == nil {
		return nil, ErrNoAddress
	}
	free, err := p.senders.take(ctx, *w.Address)
	if err != nil {
		return nil, err
	}
	return func() {
		if n, ok := p.network(w.Network); ok {
			p.balances.forget(choice{asset: n.Assets[0], wallet: w}.allowanceKey())
		}
		free()
	}, nil
}

// Note adds a line to the story of a payment.
func (p *Payer) Note(ctx context.Context, row *Payment, text string) error {
	_, err := p.record(ctx, row, Outcome{PaymentID: row.ID, At: p.now().UTC(), Note: text})
	return err
}

// Look looks for evidence of a payment now, as recovery does later by itself. A send that has the payment keeps
// its lease: ErrLeaseHeld.
func (p *Payer) Look(ctx context.Context, id string) error {
	if p.gripped(id) {
		return ErrLeaseHeld
	}
	return p.recoverLeased(ctx, id, nil)
}
