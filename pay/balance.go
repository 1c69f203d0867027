package pay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/breaker"
	"github.com/purserpay/purser/x402"
)

const (
	// balanceTime bounds the time that a payment waits for its wallet's balance. Without an answer
	// the payment goes on: the balance only saves one that would fail.
	balanceTime = 3 * time.Second
	// balanceKept is the time for which a balance is remembered.
	balanceKept = 5 * time.Second
	// balanceAgain bounds how often a wallet is read anew while its remembered balance is too
	// little. A client that hammers an empty wallet must not become a flood at the RPC.
	balanceAgain = time.Second
	maxBalances  = 10_000
)

// newBalanceBreaker makes the circuit breaker for an RPC that does not tell balances.
func newBalanceBreaker() *breaker.Breaker {
	return breaker.New(breaker.Options{Failures: 3, Wait: 5 * time.Second, MaxWait: time.Minute})
}

// balanceLimit reserves the wallet's open amount. With an RPC that answers it may not pass the
// balance, so that no challenge can tie up more than the wallet has.
func (p *Payer) balanceLimit(ctx context.Context, c choice, t Terms) Limit {
	l := Limit{Reservation: Reservation{
		Counter: holdCounter(c.wallet.ID, c.asset.Symbol), Amount: t.Amount, Release: ReleaseHold,
	}}
	if p.opts.Chain == nil {
		return l
	}
	have, remembered, err := p.balanceSoon(ctx, c, p.slowRPC, asRemembered)
	if errors.Is(err, errUnwatched) {
		return l
	}
	if err != nil {
		p.log.Warn("balance not known", "wallet", c.wallet.ProviderID, "error", err)
		return l
	}
	short := &FailedError{
		Stage: StageVerify, Funds: true,
		Detail: fmt.Sprintf("insufficient_funds: wallet %s holds %s, less what is in open payments", c.wallet.Address, have),
	}
	if remembered {
		short.again = func(ctx context.Context) bool { return p.moreThan(ctx, c, have) }
	}
	l.Max, l.Refusal = &have, short
	return l
}

// moreThan asks for a wallet's balance again before a payment is declined because of a remembered
// one. A client that has just funded the wallet can then pay at once.
func (p *Payer) moreThan(ctx context.Context, c choice, remembered x402.Amount) bool {
	// Other calls wait for the same reading, so it does not end with the caller that makes it.
	have, _, err := p.balanceSoon(context.WithoutCancel(ctx), c, p.slowRPC, afreshToPay)
	if err != nil {
		p.log.Warn("balance not looked at again", "wallet", c.wallet.ProviderID, "error", err)
		return false
	}
	return ctx.Err() == nil && have.Cmp(remembered) > 0
}

// balanceSoon is balance with a bounded time and a circuit breaker. Payments and wallet pages use
// separate breakers, so page views cannot switch off the check for payments.
func (p *Payer) balanceSoon(ctx context.Context, c choice, failing *breaker.Breaker, age freshness) (have x402.Amount, remembered bool, err error) {
	trying, err := failing.Allow(p.now())
	if err != nil {
		return x402.Amount{}, false, err
	}
	soon, cancel := context.WithTimeout(ctx, balanceTime)
	defer cancel()
	have, remembered, err = p.balance(soon, c, age)
	switch {
	case err == nil && !remembered, errors.Is(err, errUnwatched):
		failing.Succeeded()
	case err != nil && ctx.Err() == nil: // a caller that has left proves nothing
		failing.Failed(p.now())
	case trying: // the next call finds out how the RPC is
		failing.Unused(p.now())
	}
	return have, remembered, err
}

// balance returns a wallet's balance, remembered for some seconds or from the chain. When age asks
// for a fresh one, the chain is asked again, unless it was just now. Calls that come during a reading
// wait for its answer.
func (p *Payer) balance(ctx context.Context, c choice, age freshness) (have x402.Amount, remembered bool, err error) {
	e := p.balances.of(balanceKey{asset: c.asset.Address, owner: *c.wallet.Address})
	if have, known := e.remembered(p.now(), age); known {
		return have, true, nil
	}
	select {
	case e.reading <- struct{}{}:
		defer func() { <-e.reading }()
	case <-ctx.Done():
		return x402.Amount{}, false, fmt.Errorf("waiting for a look at a wallet: %w", ctx.Err())
	}
	begun := p.now()
	if have, known := e.remembered(begun, age); known {
		return have, true, nil
	}
	if err = p.checkChain(ctx, c.network, c.asset); err == nil {
		have, err = p.opts.Chain.Balance(ctx, c.asset, *c.wallet.Address)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.again[age] = begun.Add(balanceAgain)
	if err != nil {
		return x402.Amount{}, false, err
	}
	e.amount, e.until = have, begun.Add(balanceKept)
	return have, false, nil
}

// freshness says how old a balance may be. Payments and wallet pages have separate paces, so a page
// view never keeps a later payment from asking the chain.
type freshness uint8

const (
	asRemembered freshness = iota
	afreshToPay
	afreshToShow
	freshnesses
)

// balanceCache keeps wallet balances for balanceKept.
type balanceCache struct {
	mu   sync.Mutex
	seen *lru.Cache[balanceKey, *balanceEntry]
}

type balanceKey struct{ asset, owner x402.Address }

type balanceEntry struct {
	reading chan struct{} // of one: a wallet is read once at a time

	mu     sync.Mutex
	amount x402.Amount
	until  time.Time              // zero: not known
	again  [freshnesses]time.Time // when the next reading afresh may begin
}

func (b *balanceCache) of(key balanceKey) *balanceEntry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, seen := b.seen.Get(key)
	if !seen {
		e = &balanceEntry{reading: make(chan struct{}, 1)}
		b.seen.Add(key, e)
	}
	return e
}

// remembered returns the balance if it is known and fresh enough.
func (e *balanceEntry) remembered(now time.Time, age freshness) (have x402.Amount, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.amount, now.Before(e.until) && (age == asRemembered || now.Before(e.again[age]))
}

// WalletBalance returns a wallet's balance, in the smallest unit, at most some seconds old. It
// fails at once while the RPC keeps failing. ErrNoAddress, ErrNoChain.
func (p *Payer) WalletBalance(ctx context.Context, w Wallet) (x402.Amount, error) {
	return p.walletBalance(ctx, w, asRemembered)
}

// WalletBalanceNow is WalletBalance as the chain tells now, for operators: they ask because something
// has just changed. The RPC is asked about a wallet once in a second at most.
func (p *Payer) WalletBalanceNow(ctx context.Context, w Wallet) (x402.Amount, error) {
	return p.walletBalance(ctx, w, afreshToShow)
}

func (p *Payer) walletBalance(ctx context.Context, w Wallet, age freshness) (x402.Amount, error) {
	n, ok := p.network(w.Network)
	switch {
	case w.Address == nil:
		return x402.Amount{}, ErrNoAddress
	case p.opts.Chain == nil, !ok:
		return x402.Amount{}, ErrNoChain
	}
	have, _, err := p.balanceSoon(ctx, choice{wallet: w, network: n, asset: n.Assets[0]}, p.slowView, age)
	if errors.Is(err, errUnwatched) {
		return x402.Amount{}, fmt.Errorf("%w: %w", ErrNoChain, err)
	}
	if err != nil {
		return x402.Amount{}, fmt.Errorf("asking for the balance of wallet %s: %w", w.ID, err)
	}
	return have, nil
}
