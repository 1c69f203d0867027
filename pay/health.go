package pay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/purserpay/purser/x402"
)

// Health is what GET /health tells (DESIGN §5). Texts carry no secrets and no URLs.
type Health struct {
	OK          bool // false when nothing can be paid
	Store       Probe
	StoreKind   string
	Facilitator Probe
	RPC         Probe // of all networks: its error names those without evidence from the chain
	// SecondRPC is not configured unless both RPCs must agree.
	SecondRPC Probe
	// Clock compares our clock with those of the facilitator and the RPC.
	Clock   ClockState
	Network x402.Network
	Wallets string // provider's name
	// Reconciling is set, and OK is false, until a restored store is reconciled.
	Reconciling *ReconcileStatus
}

// Probe is the state of something purser depends on.
type Probe struct {
	Configured bool
	OK         bool
	Err        error
}

const healthKept = 10 * time.Second

type healthCache struct {
	mu                    sync.Mutex
	until                 time.Time
	facilitator, rpcProbe Probe
	secondProbe           Probe
}

// Health asks the store, and, at most every 10 s, the facilitator and the RPC.
func (p *Payer) Health(ctx context.Context) Health {
	network := p.opts.Networks[0]
	h := Health{StoreKind: p.store.Kind(), Network: network, Wallets: p.opts.Wallets.Name()}
	err := p.store.Health(ctx)
	if err == nil {
		h.Reconciling, err = p.Reconciling(ctx)
	}
	h.Store = Probe{Configured: true, OK: err == nil, Err: err}
	h.OK = err == nil && h.Reconciling == nil

	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	if now := p.now(); !now.Before(p.health.until) {
		probe, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		p.health.facilitator, p.health.rpcProbe = p.probe(probe)
		p.health.secondProbe = p.probeSecond(probe)
		if ctx.Err() == nil { // a caller that left proves nothing
			p.health.until = now.Add(healthKept)
		}
	}
	h.Facilitator, h.RPC, h.SecondRPC = p.health.facilitator, p.health.rpcProbe, p.health.secondProbe
	h.Clock = p.time.State()
	return h
}

func (p *Payer) probe(ctx context.Context) (facilitator, rpc Probe) {
	var wg sync.WaitGroup
	if f := p.opts.Facilitator; f != nil {
		wg.Go(func() {
			err := f.Probe(ctx)
			facilitator = Probe{Configured: true, OK: err == nil, Err: err}
		})
	}
	if p.opts.Chain != nil {
		wg.Go(func() {
			err := p.checkNetworks(ctx)
			rpc = Probe{Configured: true, OK: err == nil, Err: err}
		})
	}
	wg.Wait()
	return facilitator, rpc
}

// checkNetworks asks the RPC about each network that is paid on.
func (p *Payer) checkNetworks(ctx context.Context) error {
	var errs []error
	for _, n := range p.opts.Networks {
		if err := p.checkChain(ctx, n, n.Assets[0]); err != nil {
			errs = append(errs, fmt.Errorf("no evidence for %s: %w", n.Name, err))
		}
	}
	return errors.Join(append(errs, p.words.problem(SourceRPC, p.now()))...)
}

// probeSecond asks the second RPC about each network that the first one serves.
func (p *Payer) probeSecond(ctx context.Context) Probe {
	if p.opts.Second == nil {
		return Probe{}
	}
	errs := []error{p.words.problem(SourceSecondRPC, p.now())}
	for _, n := range p.opts.Networks {
		if !p.watches(n.Name) {
			continue
		}
		id, err := p.opts.Second.Identify(ctx, n, n.Assets[0])
		if err == nil {
			err = p.sameWorld(ctx, id)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("nothing can be void on %s: %w", n.Name, err))
		}
	}
	err := errors.Join(errs...)
	return Probe{Configured: true, OK: err == nil, Err: err}
}
