package pay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/purserpay/purser/x402"
)

// SandboxWorld marks stores that belong to the sandbox, whose chain is a new one each time.
const SandboxWorld = "sandbox"

// errForeignChain: the RPC answers for another chain than the store's payments are on.
var errForeignChain = errors.New("the RPC (PURSER_RPC_URL) is on another chain than this store's payments")

// chainIdentity remembers for a while what checking the RPC for an asset gave.
type chainIdentity struct {
	mu      sync.Mutex
	checked map[x402.Address]identityCheck // by the asset's address, which is pinned to one network
}

type identityCheck struct {
	until time.Time
	err   error
}

const (
	identityKept   = time.Minute
	identityFailed = 5 * time.Second
)

// checkChain makes sure that what the RPC says counts as evidence: pinned chain id and
// token, and the genesis hash recorded with the store (DESIGN §3).
func (p *Payer) checkChain(ctx context.Context, n x402.Network, a x402.Asset) error {
	p.identity.mu.Lock()
	defer p.identity.mu.Unlock()
	now := p.now()
	if c, ok := p.identity.checked[a.Address]; ok && now.Before(c.until) {
		return c.err
	}
	c := identityCheck{err: p.identify(ctx, n, a), until: now.Add(identityKept)}
	if c.err != nil {
		c.until = now.Add(identityFailed)
		if errors.Is(c.err, errForeignChain) {
			p.log.Error("evidence from the chain is ignored", "error", c.err)
		}
	}
	if p.identity.checked == nil {
		p.identity.checked = make(map[x402.Address]identityCheck)
	}
	p.identity.checked[a.Address] = c
	return c.err
}

func (p *Payer) identify(ctx context.Context, n x402.Network, a x402.Asset) error {
	id, err := p.opts.Chain.Identify(ctx, n, a)
	if err != nil {
		return err
	}
	if id.Genesis == "" {
		return errors.New("the RPC did not name its genesis block")
	}
	world, err := p.store.SetWorld(ctx, id.Genesis)
	if err != nil {
		return err
	}
	if world != id.Genesis && world != SandboxWorld {
		return fmt.Errorf("%w: genesis %s instead of %s", errForeignChain, id.Genesis, world)
	}
	return nil
}

// trace asks the chain what became of a payment's authorization.
func (p *Payer) trace(ctx context.Context, row *Payment) (Trace, error) {
	n, a, err := row.asset()
	if err != nil {
		return Trace{}, err
	}
	if err := p.checkChain(ctx, n, a); err != nil {
		return Trace{}, fmt.Errorf("checking the chain: %w", err)
	}
	t, err := p.opts.Chain.Trace(ctx, TraceQuery{Asset: a, Authorization: row.Authorization, Created: row.Created})
	if err != nil {
		return Trace{}, fmt.Errorf("tracing payment %s: %w", row.ID, err)
	}
	return t, nil
}

// balanceCache keeps wallet balances for balanceKept.
type balanceCache struct {
	mu   sync.Mutex
	seen map[balanceKey]balanceEntry
}

type balanceKey struct {
	asset x402.Address
	owner x402.Address
}

type balanceEntry struct {
	amount x402.Amount
	until  time.Time
}

const (
	balanceKept = 5 * time.Second
	maxBalances = 10_000
)

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
	have, err := p.balance(ctx, c)
	if err != nil {
		p.log.Warn("balance not known", "wallet", c.wallet.ProviderID, "error", err)
		return l
	}
	l.Max = &have
	l.Refusal = &FailedError{
		Stage: StageVerify, Funds: true,
		Detail: fmt.Sprintf("insufficient_funds: wallet %s holds %s, less what is in open payments", c.wallet.Address, have),
	}
	return l
}

func (p *Payer) balance(ctx context.Context, c choice) (x402.Amount, error) {
	key := balanceKey{asset: c.asset.Address, owner: *c.wallet.Address}
	now := p.now()
	p.balances.mu.Lock()
	e, ok := p.balances.seen[key]
	p.balances.mu.Unlock()
	if ok && now.Before(e.until) {
		return e.amount, nil
	}
	if err := p.checkChain(ctx, c.network, c.asset); err != nil {
		return x402.Amount{}, err
	}
	have, err := p.opts.Chain.Balance(ctx, c.asset, *c.wallet.Address)
	if err != nil {
		return x402.Amount{}, err
	}
	p.balances.mu.Lock()
	defer p.balances.mu.Unlock()
	if p.balances.seen == nil || len(p.balances.seen) >= maxBalances {
		p.balances.seen = make(map[balanceKey]balanceEntry)
	}
	p.balances.seen[key] = balanceEntry{amount: have, until: now.Add(balanceKept)}
	return have, nil
}
