package pay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/purserpay/purser/x402"
)

// SandboxWorld marks stores that belong to the sandbox, whose chain is a new one each time.
const SandboxWorld = "sandbox"

// ErrUnwatched: there is no RPC for a network, so its chain says nothing of payments.
var ErrUnwatched = errors.New("no RPC for this network")

// chainIdentity remembers for a while what checking the RPC for an asset gave. That is good
// enough for balances and for health. Evidence brings its own identity, see [Payer.trace].
type chainIdentity struct {
	mu sync.Mutex
	// asking holds a channel of one for each network: its RPC is asked once at a time, and a caller that
	// leaves stops waiting.
	asking  map[string]chan struct{}
	checked map[x402.Address]identityCheck // by the asset's address, which is pinned to one network
	// networks, by chain id: whether the RPC serves them; those not asked about are missing.
	networks map[uint64]bool
	worlds   map[string]string // the store's, by network, once they are recorded
}

func newChainIdentity() chainIdentity {
	return chainIdentity{
		asking: make(map[string]chan struct{}), checked: make(map[x402.Address]identityCheck),
		networks: make(map[uint64]bool), worlds: make(map[string]string),
	}
}

type identityCheck struct {
	until time.Time
	err   error
}

const (
	identityKept   = time.Minute
	identityFailed = 5 * time.Second
)

// watches reports whether evidence can be had for a network's payments: there is an RPC,
// and it has not been found to serve only others.
func (p *Payer) watches(network string) bool {
	n, ok := p.known(network)
	if p.opts.Chain == nil || !ok {
		return p.opts.Chain != nil
	}
	p.identity.mu.Lock()
	defer p.identity.mu.Unlock()
	serves, asked := p.identity.networks[n.ChainID]
	return serves || !asked
}

// asksAgain reports whether the next payment on another rail asks the network's RPC anew whether it serves that: an RPC
// that was found to serve others only may serve it by now.
func (p *Payer) asksAgain(network string) bool {
	n, known := p.known(network)
	return known && p.opts.Chain != nil && !slices.ContainsFunc(n.Assets, func(a x402.Asset) bool {
		_, is := p.identity.remembered(a, p.now())
		return is
	})
}

// remembered returns the result of an earlier check while it is valid.
func (c *chainIdentity) remembered(a x402.Asset, now time.Time) (identityCheck, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	check, ok := c.checked[a.Address]
	return check, ok && now.Before(check.until)
}

// forget drops good checks of a network's RPC, which has failed since: health asks anew. A failed check stays for its time.
func (c *chainIdentity) forget(n x402.Network) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range n.Assets {
		if c.checked[a.Address].err == nil {
			delete(c.checked, a.Address)
		}
	}
}

// turn returns the channel of one for asking a network's RPC.
func (c *chainIdentity) turn(n x402.Network) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking[n.Name] == nil {
		c.asking[n.Name] = make(chan struct{}, 1)
	}
	return c.asking[n.Name]
}

// CheckChain makes sure that the word of the RPC counts: pinned chain id and token, and the store's
// genesis hash (docs/design/payments.md). ErrUnwatched when the RPC is for another network.
func (p *Payer) CheckChain(ctx context.Context, n x402.Network, a x402.Asset) error {
	if c, ok := p.identity.remembered(a, p.now()); ok {
		return c.err
	}
	turn := p.identity.turn(n)
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return fmt.Errorf("waiting for the RPC: %w", ctx.Err())
	}
	if c, ok := p.identity.remembered(a, p.now()); ok {
		return c.err
	}
	err := p.Identify(ctx, n, a)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return err // the caller has left, which says nothing about the RPC
	}
	// The check counts from its answer: one that took long is news all the same.
	c := identityCheck{err: err, until: p.now().Add(identityFailed)}
	if err == nil || errors.Is(err, ErrUnwatched) {
		c.until = p.now().Add(identityKept)
	}
	if is[*foreignError](err) {
		p.log.Error("evidence from the chain is ignored", "error", err)
	}
	p.identity.mu.Lock()
	defer p.identity.mu.Unlock()
	p.identity.checked[a.Address] = c
	return err
}

// Identify makes sure that the RPC serves a network and its pinned token: see [Chain].
func (p *Payer) Identify(ctx context.Context, n x402.Network, a x402.Asset) error {
	id, err := p.opts.Chain.Identify(ctx, n, a)
	if err != nil {
		return p.unserved(n, id, err)
	}
	p.identity.mu.Lock()
	p.identity.networks[n.ChainID] = true
	p.identity.mu.Unlock()
	if err := p.sameWorld(ctx, n, SourceRPC, id); err != nil {
		return err
	}
	p.keepFirst(ctx, n)
	return nil
}

// sameWorld compares an RPC's identity with the pinned one and with the genesis hash that is recorded
// with the store for the network. The first genesis hash is recorded.
func (p *Payer) sameWorld(ctx context.Context, n x402.Network, s TimeSource, id ChainIdentity) error {
	p.identity.mu.Lock()
	world := p.identity.worlds[n.Name]
	p.identity.mu.Unlock()
	if world == "" && id.Genesis != "" {
		var err error
		if world, err = p.store.SetWorld(ctx, n.Name, id.Genesis); err != nil {
			return err
		}
		p.identity.mu.Lock()
		p.identity.worlds[n.Name] = world
		p.identity.mu.Unlock()
	}
	return foreignChain(id, n.ChainID, world, p.opts.Names.of(s, n.Name))
}

// unserved says what an RPC that failed to prove itself is to a network: none if it is for another
// one, but broken if it has served this one before.
func (p *Payer) unserved(n x402.Network, id ChainIdentity, err error) error {
	missing := errors.Is(err, ErrUnwatched)
	if !missing && (id.ChainID == 0 || id.ChainID == n.ChainID) {
		return err
	}
	p.identity.mu.Lock()
	defer p.identity.mu.Unlock()
	serves, asked := p.identity.networks[n.ChainID]
	if serves {
		return err
	}
	p.identity.networks[n.ChainID] = false
	setting := p.opts.Names.of(SourceRPC, n.Name)
	switch {
	case missing:
		if !asked {
			p.log.Warn("payments on this network have no evidence from the chain: no RPC is configured for it ("+setting+")", "network", n.Name)
		}
		return fmt.Errorf("%w (%s)", ErrUnwatched, setting)
	case !asked:
		p.log.Error("payments on this network have no evidence from the chain: the RPC ("+setting+") is for another one",
			"network", n.Name, "chain_id", id.ChainID)
	}
	return fmt.Errorf("%w: %w", ErrUnwatched, err)
}

// trace asks the chain what became of a payment's authorization: ErrUnwatched without an RPC for
// its network. What is remembered of the RPC only says whether to ask it.
func (p *Payer) trace(ctx context.Context, row *Payment) (Trace, error) {
	if p.opts.Chain == nil {
		return Trace{}, ErrUnwatched
	}
	n, a, err := p.assetOf(row)
	if err != nil {
		return Trace{}, err
	}
	if err := p.CheckChain(ctx, n, a); err != nil {
		return Trace{}, fmt.Errorf("checking the chain: %w", err)
	}
	q := TraceQuery{Network: n, Asset: a, Authorization: row.Authorization, Created: row.Created}
	t, err := p.ask(ctx, SourceRPC, p.opts.Chain, q)
	if err != nil {
		return Trace{}, fmt.Errorf("tracing payment %s: %w", row.ID, err)
	}
	return p.both(ctx, row, q, t), nil
}
