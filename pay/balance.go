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

// newBalanceBreaker makes the circuit breaker for an RPC that does not tell balances. While it is
// open, payments do not wait for the RPC, except one now and then.
func newBalanceBreaker() *breaker.Breaker {
	return breaker.New(breaker.Options{Failures: 3, Wait: 5 * time.Second, MaxWait: time.Minute})
}

// balanceLimit reserves the wallet's open amount; with an RPC it may not pass the balance,
// so that no challenge can tie up more than the wallet has. An RPC that does not answer
// does not stop a payment.
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
// for a fresh one, the chain is asked again, unless it was just now. A caller that comes during
// another's question waits for the same answer.
func (p *Payer) balance(ctx context.Context, c choice, age freshness) (have x402.Amount, remembered bool, err error) {
	key := balanceKey{asset: c.asset.Address, owner: *c.wallet.Address}
	reading := p.balances.begin(key, p.now(), age)
	if reading.others != nil {
		select {
		case <-reading.others:
		case <-ctx.Done():
			return x402.Amount{}, false, fmt.Errorf("waiting for a look at a wallet: %w", ctx.Err())
		}
		reading = p.balances.begin(key, p.now(), asRemembered)
	}
	if reading.known {
		return reading.amount, true, nil
	}
	defer p.balances.end(key, reading)
	if err := p.checkChain(ctx, c.network, c.asset); err != nil {
		return x402.Amount{}, false, err
	}
	if have, err = p.opts.Chain.Balance(ctx, c.asset, *c.wallet.Address); err != nil {
		return x402.Amount{}, false, err
	}
	p.balances.keep(key, reading, have)
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
	mu    sync.Mutex
	seen  *lru.Cache[balanceKey, *balanceEntry]
	reads uint64 // readings begun so far
}

type balanceKey struct {
	asset x402.Address
	owner x402.Address
}

type balanceEntry struct {
	amount x402.Amount
	until  time.Time // zero: not known
	number uint64    // of the reading that found it
	// again holds when the next reading afresh may begin. underway is closed when the present one ends.
	again    [freshnesses]time.Time
	underway chan struct{}
}

// balanceReading holds one reading of a balance, or what makes it needless.
type balanceReading struct {
	known  bool
	amount x402.Amount
	others <-chan struct{} // closed when another reading ends; nil: there is none to wait for

	begun  time.Time
	number uint64
	mine   chan struct{} // closed for the calls that wait for this reading; nil: none does
}

// begin says what is known of a wallet, what to wait for, or that the caller is to read. Then the
// caller must call end.
func (b *balanceCache) begin(key balanceKey, now time.Time, age freshness) balanceReading {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, seen := b.seen.Get(key)
	if !seen {
		e = new(balanceEntry)
		b.seen.Add(key, e)
	}
	known, afresh := now.Before(e.until), age != asRemembered
	switch {
	case known && !afresh, known && e.underway == nil && now.Before(e.again[age]):
		return balanceReading{known: true, amount: e.amount}
	case afresh && e.underway != nil:
		return balanceReading{others: e.underway}
	}
	b.reads++
	l := balanceReading{begun: now, number: b.reads}
	if afresh {
		l.mine = make(chan struct{})
		e.underway, e.again[age] = l.mine, now.Add(balanceAgain)
	}
	return l
}

// keep remembers what a reading has found, unless a later one was faster.
func (b *balanceCache) keep(key balanceKey, l balanceReading, have x402.Amount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, seen := b.seen.Peek(key); seen && l.number > e.number {
		e.amount, e.until, e.number = have, l.begun.Add(balanceKept), l.number
	}
}

// end ends a reading, whatever came of it.
func (b *balanceCache) end(key balanceKey, l balanceReading) {
	if l.mine == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, seen := b.seen.Peek(key); seen && e.underway == l.mine {
		e.underway = nil
	}
	close(l.mine)
}

// WalletBalance returns a wallet's balance, in the smallest unit of its network's asset, at most
// some seconds old. It takes a few seconds at most, and fails at once while the RPC keeps failing.
// It fails with ErrNoAddress or ErrNoChain.
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
