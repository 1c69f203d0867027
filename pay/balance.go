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

// balanceBreakers holds a circuit breaker for each network, for an RPC that does not tell balances.
type balanceBreakers map[string]*breaker.Breaker

func newBalanceBreakers(networks []x402.Network) balanceBreakers {
	all := balanceBreakers{}
	for _, n := range networks {
		all[n.Name] = breaker.New(breaker.Options{Failures: 3, Wait: 5 * time.Second, MaxWait: time.Minute})
	}
	return all
}

// errUncounted: the store did not tell what a wallet has moved. That says nothing of the RPC.
var errUncounted = errors.New("what the wallet has moved is not known")

// balanceLimit reserves the wallet's open amount, of all keys that draw from it. With an RPC that
// answers it may not pass the balance, less what any node has settled since the balance was read. So
// no challenge can tie up more than the wallet has, and twenty keys spend exactly what is there.
func (p *Payer) balanceLimit(ctx context.Context, c choice, t Terms) Limit {
	l := Limit{Reservation: p.hold(c, t.Amount)}
	if p.opts.Chain == nil {
		return l
	}
	have, err := p.balanceSoon(ctx, c, p.slowRPC, asRemembered)
	if errors.Is(err, ErrUnwatched) {
		return l
	}
	if err != nil {
		p.log.Warn("balance not known", "wallet", c.wallet.ProviderID, "error", err)
		return l
	}
	l.Max, l.Since = &have.amount, have.moved
	l.Refusal = &FailedError{
		Stage: StageVerify, Funds: true,
		Detail: fmt.Sprintf("insufficient_funds: wallet %s holds %s, less what is in open payments; send USDC to it", c.wallet.Address, Money(have.amount)),
		again:  func(ctx context.Context) bool { return p.moreThan(ctx, c, have) },
	}
	return l
}

// moreThan asks for a wallet's balance again before a payment is declined because of a remembered
// one. A client that has just funded the wallet can then pay at once.
func (p *Payer) moreThan(ctx context.Context, c choice, known knownBalance) bool {
	if !known.remembered {
		moved, err := p.moved(ctx, c)
		if err != nil || moved == known.moved {
			return false // the chain was asked for this very payment
		}
	}
	// Other calls wait for the same reading, so it does not end with the caller that makes it.
	have, err := p.balanceSoon(context.WithoutCancel(ctx), c, p.slowRPC, afreshToPay)
	if err != nil {
		p.log.Warn("balance not looked at again", "wallet", c.wallet.ProviderID, "error", err)
		return false
	}
	return ctx.Err() == nil && have.received().Cmp(known.received()) > 0
}

// moved tells what purser has moved out of a wallet so far, on any node.
func (p *Payer) moved(ctx context.Context, c choice) (x402.Amount, error) {
	moved, err := p.store.Counter(ctx, movedCounter(c.wallet.ID, c.asset.Symbol))
	if err != nil {
		return moved, fmt.Errorf("%w: %w", errUncounted, err)
	}
	return moved, nil
}

// balanceSoon is balance with a bounded time and a circuit breaker. Payments and wallet pages use
// separate breakers, so page views cannot switch off the check for payments.
func (p *Payer) balanceSoon(ctx context.Context, c choice, breakers balanceBreakers, age freshness) (have knownBalance, err error) {
	failing := breakers[c.network.Name]
	trying, err := failing.Allow(p.now())
	if err != nil {
		return have, err
	}
	soon, cancel := context.WithTimeout(ctx, balanceTime)
	defer cancel()
	have, err = p.balance(soon, c, age)
	switch {
	case err == nil && !have.remembered, errors.Is(err, ErrUnwatched):
		failing.Succeeded()
	case err != nil && ctx.Err() == nil && !errors.Is(err, errUncounted): // a caller that has left proves nothing
		failing.Failed(p.now())
	case trying: // the next call finds out how the RPC is
		failing.Unused(p.now())
	}
	return have, err
}

// balance returns a wallet's balance, remembered for some seconds or from the chain. When age asks
// for a fresh one, the chain is asked again, unless it was just now. Calls that come during a reading
// wait for its answer.
func (p *Payer) balance(ctx context.Context, c choice, age freshness) (knownBalance, error) {
	e := p.balances.of(balanceKey{asset: c.asset.Address, owner: *c.wallet.Address})
	if have, known := e.remembered(p.now(), age); known {
		return have, nil
	}
	select {
	case e.reading <- struct{}{}:
		defer func() { <-e.reading }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return knownBalance{}, fmt.Errorf("waiting for a look at a wallet: %w", ctx.Err())
	}
	begun := p.now()
	if have, known := e.remembered(begun, age); known {
		return have, nil
	}
	// What has moved is read first: a payment that settles meanwhile counts twice and never not at all.
	moved, err := p.moved(ctx, c)
	if err != nil {
		return knownBalance{}, err
	}
	have := knownBalance{moved: moved}
	if err = p.checkChain(ctx, c.network, c.asset); err == nil {
		have.amount, err = p.opts.Chain.Balance(ctx, c.network, c.asset, *c.wallet.Address)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.again[age] = begun.Add(balanceAgain)
	if err != nil {
		return knownBalance{}, err
	}
	e.last, e.until = have, begun.Add(balanceKept)
	p.watchLow(c, have.amount)
	return have, nil
}

// knownBalance is the chain's word on a wallet, from a reading that may be some seconds old.
type knownBalance struct {
	amount     x402.Amount
	remembered bool
	// moved holds what purser had moved out of the wallet when the reading began. Some of what it moves
	// later the reading may have seen already: the chain knows of a settlement before the store does.
	moved x402.Amount
}

// received tells what the wallet has got as far as purser knows: of two readings, the one with more
// leaves more.
func (k knownBalance) received() x402.Amount { return k.amount.AddSaturated(k.moved) }

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

	mu    sync.Mutex
	last  knownBalance
	until time.Time              // of last; zero: not known
	again [freshnesses]time.Time // when the next reading afresh may begin
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

// forget makes the next reading ask the chain.
func (b *balanceCache) forget(key balanceKey) {
	e := b.of(key)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until = time.Time{}
}

// remembered returns the balance if it is known and fresh enough.
func (e *balanceEntry) remembered(now time.Time, age freshness) (have knownBalance, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	have = e.last
	have.remembered = true
	return have, now.Before(e.until) && (age == asRemembered || now.Before(e.again[age]))
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
	have, err := p.balanceSoon(ctx, choice{wallet: w, network: n, asset: n.Assets[0]}, p.slowView, age)
	if errors.Is(err, ErrUnwatched) {
		return x402.Amount{}, fmt.Errorf("%w: %w", ErrNoChain, err)
	}
	if err != nil {
		return x402.Amount{}, fmt.Errorf("asking for the balance of wallet %s: %w", w.ID, err)
	}
	return have.amount, nil
}

// WalletOpen sums up the open payments of a wallet, of all keys that draw from it, in the smallest unit.
func (p *Payer) WalletOpen(ctx context.Context, w Wallet) (x402.Amount, error) {
	n, ok := p.network(w.Network)
	if !ok {
		return x402.Amount{}, nil
	}
	return p.store.Counter(ctx, holdCounter(w.ID, n.Assets[0].Symbol))
}
