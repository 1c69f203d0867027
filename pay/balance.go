package pay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/breaker"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/money"
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
	// balanceStands is the time for which the last known balance counts while the RPC tells no newer one.
	balanceStands = 10 * time.Minute
	maxBalances   = 20_000 // and allowances
)

// rpcRests keeps calls from an RPC that fails: about a wallet for a second, and about all wallets of
// a network after several failures in a row.
type rpcRests struct {
	networks map[string]*breaker.Breaker
	wallets  *lru.Cache[balanceKey, walletRest]
}

// walletRest holds why a wallet could not be read, and until when it is not read again.
type walletRest struct {
	until time.Time
	err   error
}

func newRPCRests(networks []x402.Network) rpcRests {
	all := rpcRests{networks: map[string]*breaker.Breaker{}, wallets: perclient.NewCache[balanceKey, walletRest](maxBalances)}
	for _, n := range networks {
		all.networks[n.Name] = breaker.New(breaker.Options{Failures: 3, Wait: 5 * time.Second, MaxWait: time.Minute})
	}
	return all
}

// of returns why a wallet is not read now, or nil.
func (r rpcRests) of(key balanceKey, now time.Time) error {
	if rest, resting := r.wallets.Get(key); resting && now.Before(rest.until) {
		return rest.err
	}
	return nil
}

// errUncounted: the store did not tell what a wallet has moved. That says nothing of the RPC.
var errUncounted = errors.New("what the wallet has moved is not known")

// balanceLimit reserves the wallet's open amount, of all keys that draw from it. With an RPC that
// answers it may not pass the balance, less what any node has settled since the balance was read. So
// no challenge can tie up more than the wallet has, and twenty keys spend exactly what is there. While
// the RPC does not answer, the last known balance counts. *QuestionsError: the key has asked too much.
func (p *Payer) balanceLimit(ctx context.Context, c choice, t Terms) (Limit, error) {
	if p.opts.Chain == nil {
		return Limit{Reservation: p.hold(c, t.Amount)}, nil
	}
	have, err := p.balanceSoon(ctx, c, p.slowRPC, asRemembered)
	l := Limit{Reservation: p.hold(c, t.Amount)} // the RPC has been asked whether it serves the network
	if errors.Is(err, ErrUnwatched) {
		return l, nil
	}
	if is[*QuestionsError](err) {
		return l, err
	}
	holds := "holds"
	if err != nil {
		p.log.Warn("balance not known", "wallet", c.wallet.ProviderID, "error", err)
		var known bool
		if have, known = p.balances.of(c.balanceKey()).stands(p.now()); !known {
			return l, nil
		}
		holds = "held, before the RPC stopped answering,"
	}
	l.Max, l.Since = &have.amount, have.moved
	l.Refusal = &FailedError{
		Stage: StageVerify, Funds: true,
		Detail: fmt.Sprintf("insufficient_funds: wallet %s %s %s, less what is in open payments; send %s to it", c.wallet.Address, holds, c.amountText(have.amount), c.asset.Symbol),
		again: func(ctx context.Context) bool {
			return p.freed(ctx, c, c.balanceKey()) || p.moreThan(ctx, c, have) || c.others // whose choice sees what has come first
		},
	}
	return l, nil
}

// amountText writes an amount of the asset, which it names where the network has several.
func (c choice) amountText(a money.Amount) string {
	if len(c.network.Assets) > 1 {
		return money.Figure(a) + " " + c.asset.Symbol
	}
	return money.Text(a)
}

// short says why the wallet of a choice has too little for it, if that is certain and another offer could be paid. The
// question is that of the transaction, which asks it again: other payments may come first.
func (p *Payer) short(ctx context.Context, r Request, c choice) error {
	if !c.others || c.wallet.Address == nil {
		return nil
	}
	c.others = false // again tells of the balance alone
	for looked := false; ; looked = true {
		l, err := p.balanceLimit(ctx, c, c.terms(r.Settlement))
		if err != nil {
			return nil //nolint:nilerr // the payment is declined for it, if it stands
		}
		failed, is := errors.AsType[*FailedError](check(counterFunc(func(of Counter) (money.Amount, error) { return p.store.Counter(ctx, of) }), l))
		if !is {
			return nil
		}
		if looked || !failed.again(ctx) {
			return failed
		}
	}
}

// freed asks the chain about payments that still hold a part of the wallet, before another one is
// declined for want of it. It reports whether there may be more than before. key names what is then read
// anew.
func (p *Payer) freed(ctx context.Context, c choice, key balanceKey) bool {
	if !p.proveWallet(ctx, c.wallet) {
		return false
	}
	// What is remembered may lack what has moved since. One that is read now has it, and so has the
	// count of what has moved.
	p.balances.forget(key)
	return true
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
func (p *Payer) moved(ctx context.Context, c choice) (money.Amount, error) {
	moved, err := p.store.Counter(ctx, movedCounter(c.wallet.ID, c.asset.Symbol))
	if err != nil {
		return moved, fmt.Errorf("%w: %w", errUncounted, err)
	}
	return moved, nil
}

// balanceSoon returns a wallet's balance; see [Payer.look].
func (p *Payer) balanceSoon(ctx context.Context, c choice, rests rpcRests, age freshness) (knownBalance, error) {
	have, fresh, err := p.look(ctx, c, c.balanceKey(), rests, age, func(ctx context.Context) (have knownBalance, err error) {
		// What has moved is read first: a payment that settles meanwhile counts twice and never not at all.
		if have.moved, err = p.moved(ctx, c); err != nil {
			return have, err
		}
		if err = p.CheckChain(ctx, c.network, c.asset); err == nil {
			if have.amount, err = p.opts.Chain.Balance(ctx, c.network, c.asset, *c.wallet.Address); err != nil {
				p.identity.forget(c.network)
			}
		}
		return have, err
	})
	if fresh && age != afreshToWatch {
		p.watchLow(c, have.amount)
	}
	return have, err
}

// look returns what is known of a wallet, remembered for some seconds or by a fresh reading, in a bounded
// time. When age asks for a fresh one, the chain is asked again, unless it was just now. Calls that come
// during a reading wait for its answer, so one failure of the RPC counts once. Payments and wallet pages
// use separate rests, so page views cannot switch off the check for payments.
func (p *Payer) look(
	ctx context.Context, c choice, key balanceKey, rests rpcRests, age freshness, read func(context.Context) (knownBalance, error),
) (have knownBalance, fresh bool, err error) {
	e := p.balances.of(key)
	if have, known := e.remembered(p.now(), age); known {
		return have, false, nil
	}
	if err := rests.of(key, p.now()); err != nil {
		return have, false, err
	}
	failing := rests.networks[c.network.Name]
	trying, err := failing.Allow(p.now())
	if err != nil {
		return have, false, err
	}
	defer func() {
		if trying { // the next call finds out how the RPC is
			failing.Unused(p.now())
		}
	}()
	soon, cancel := context.WithTimeout(ctx, balanceTime)
	defer cancel()
	select {
	case e.reading <- struct{}{}:
		defer func() { <-e.reading }()
	case <-soon.Done():
	}
	begun := p.now()
	if have, known := e.remembered(begun, age); known {
		return have, false, nil
	}
	if err := rests.of(key, begun); err != nil {
		return have, false, err
	}
	if soon.Err() != nil {
		return have, false, fmt.Errorf("waiting for a look at a wallet: %w", soon.Err())
	}
	if err := p.questions.read(c.keyID, begun); err != nil {
		return have, false, err
	}
	have, err = read(soon)
	e.mu.Lock()
	e.again[age] = begun.Add(balanceAgain)
	if err == nil {
		e.last, e.begun, e.until = have, begun, begun.Add(balanceKept)
	}
	e.mu.Unlock()
	switch {
	case err == nil, errors.Is(err, ErrUnwatched):
		failing.Succeeded()
		rests.wallets.Remove(key)
		trying = false
	case ctx.Err() == nil && !errors.Is(err, errUncounted): // a caller that has left proves nothing
		failing.Failed(p.now())
		rests.wallets.Add(key, walletRest{p.now().Add(balanceAgain), err})
		trying = false
	}
	return have, err == nil, err
}

// knownBalance is the chain's word on a wallet, from a reading that may be some seconds old.
type knownBalance struct {
	amount     money.Amount
	remembered bool
	// moved holds what purser had moved out of the wallet when the reading began. Some of what it moves
	// later the reading may have seen already: the chain knows of a settlement before the store does.
	moved money.Amount
}

// received tells what the wallet has got as far as purser knows: of two readings, the one with more
// leaves more.
func (k knownBalance) received() money.Amount { return k.amount.AddSaturated(k.moved) }

// freshness says how old a balance may be. Payments and wallet pages have separate paces, so a page
// view never keeps a later payment from asking the chain.
type freshness uint8

const (
	asRemembered freshness = iota
	afreshToPay
	afreshToShow
	afreshToWatch // for a look that no person asked for
	freshnesses
)

// balanceCache keeps wallet balances for balanceKept.
type balanceCache struct {
	mu   sync.Mutex
	seen *lru.Cache[balanceKey, *balanceEntry]
}

// balanceKey names what is known of a wallet: its balance, or what a spender may move.
type balanceKey struct{ asset, owner, spender x402.Address }

func (c choice) balanceKey() balanceKey {
	return balanceKey{asset: c.asset.Address, owner: *c.wallet.Address}
}

func (c choice) allowanceKey() balanceKey {
	return balanceKey{asset: c.asset.Address, owner: *c.wallet.Address, spender: x402.Permit2}
}

type balanceEntry struct {
	reading chan struct{} // of one: a wallet is read once at a time

	mu    sync.Mutex
	last  knownBalance
	begun time.Time              // when its reading began; zero: there was none
	until time.Time              // last is remembered; zero: it is not
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

// stands returns the last known balance while the RPC tells no newer one.
func (e *balanceEntry) stands(now time.Time) (have knownBalance, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	have = e.last
	have.remembered = true
	return have, !e.begun.IsZero() && now.Before(e.begun.Add(balanceStands))
}

// WalletBalance returns a wallet's balance, in the smallest unit, at most some seconds old. It
// fails at once while the RPC keeps failing. ErrNoAddress, ErrNoChain.
func (p *Payer) WalletBalance(ctx context.Context, w Wallet) (money.Amount, error) {
	return p.walletBalance(ctx, w, asRemembered)
}

// WalletBalanceNow is WalletBalance as the chain tells now, for operators: they ask because something
// has just changed. The RPC is asked about a wallet once in a second at most.
func (p *Payer) WalletBalanceNow(ctx context.Context, w Wallet) (money.Amount, error) {
	return p.walletBalance(ctx, w, afreshToShow)
}

// WalletBalanceQuietly is WalletBalanceNow for watching. People are not told that the wallet is low: it may be of no use.
func (p *Payer) WalletBalanceQuietly(ctx context.Context, w Wallet) (money.Amount, error) {
	return p.walletBalance(ctx, w, afreshToWatch)
}

func (p *Payer) walletBalance(ctx context.Context, w Wallet, age freshness) (money.Amount, error) {
	n, ok := p.network(w.Network)
	switch {
	case w.Address == nil:
		return money.Amount{}, ErrNoAddress
	case p.opts.Chain == nil, !ok:
		return money.Amount{}, ErrNoChain
	}
	var sum money.Amount
	for _, a := range n.Assets { // all of one currency
		have, err := p.balanceSoon(ctx, choice{wallet: w, network: n, asset: a}, p.slowView, age)
		if errors.Is(err, ErrUnwatched) {
			return money.Amount{}, fmt.Errorf("%w: %w", ErrNoChain, err)
		}
		if err != nil {
			return money.Amount{}, fmt.Errorf("asking for the balance of wallet %s: %w", w.ID, err)
		}
		sum = sum.AddSaturated(have.amount)
	}
	return sum, nil
}

// WalletOpen sums up the open payments of a wallet, of all keys that draw from it, in the smallest unit.
func (p *Payer) WalletOpen(ctx context.Context, w Wallet) (money.Amount, error) {
	n, _ := p.network(w.Network)
	var sum money.Amount
	for _, a := range n.Assets {
		open, err := p.store.Counter(ctx, holdCounter(w.ID, a.Symbol))
		if err != nil {
			return money.Amount{}, err
		}
		sum = sum.AddSaturated(open)
	}
	return sum, nil
}
