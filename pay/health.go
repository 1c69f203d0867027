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
	Network     x402.Network
	Wallets     string // provider's name
	// Reconciling is set, and OK is false, until a restored store is reconciled.
	Reconciling *ReconcileStatus
}

// Probe is the state of something purser depends on.
type Probe struct {
	Configured bool
	OK         bool
	Err        error
}

const (
	// healthKept is how old a result may be before a call has the dependencies probed anew.
	healthKept = 10 * time.Second
	// healthStale is how old a result may be and still be told at once.
	healthStale = time.Minute
	// healthWait bounds how long a call without such a result waits for the probe. It is
	// shorter than the time limits of readiness probes.
	healthWait = 2 * time.Second
	// probeTime bounds one probe.
	probeTime = 5 * time.Second
)

// errNoAnswerYet: a dependency has not answered the first probe.
var errNoAnswerYet = errors.New("no answer yet")

// healthCache keeps the last probe of what payments depend on. At most one probe runs.
type healthCache struct {
	mu                    sync.Mutex
	facilitator, rpcProbe Probe
	at                    time.Time     // when the last probe ended; zero: none has
	running               chan struct{} // closed when the probe under way ends; nil: none is
	stop                  context.CancelFunc
}

// Health asks the store and tells what the last probe of facilitator and RPC gave. A result
// older than 10 s starts a new probe, in the background. A call waits for the probe only
// if there is no result of the last minute, and then at most 2 s.
func (p *Payer) Health(ctx context.Context) Health {
	network := p.opts.Networks[0]
	h := Health{StoreKind: p.store.Kind(), Network: network, Wallets: p.opts.Wallets.Name()}
	err := p.store.Health(ctx)
	if err == nil {
		h.Reconciling, err = p.Reconciling(ctx)
	}
	h.Store = Probe{Configured: true, OK: err == nil, Err: err}
	h.OK = err == nil && h.Reconciling == nil
	h.Facilitator, h.RPC = p.probed(ctx)
	return h
}

// probed returns the last result and has a new probe started if one is due.
func (p *Payer) probed(ctx context.Context) (facilitator, rpc Probe) {
	c := &p.health
	c.mu.Lock()
	age := p.now().Sub(c.at)
	if c.running == nil && age.Abs() >= healthKept && p.enter() == nil {
		p.startProbe()
	}
	running := c.running
	c.mu.Unlock()
	if running != nil && age.Abs() >= healthStale {
		patience := time.NewTimer(healthWait)
		defer patience.Stop()
		select {
		case <-running:
		case <-patience.C:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		unheard := func(configured bool) Probe {
			if !configured {
				return Probe{}
			}
			return Probe{Configured: true, Err: errNoAnswerYet}
		}
		return unheard(p.opts.Facilitator != nil), unheard(p.opts.Chain != nil)
	}
	return c.facilitator, c.rpcProbe
}

// startProbe starts a probe, for which the caller has entered and holds the lock of the
// cache. No caller's context ends it: a caller that left proves nothing.
func (p *Payer) startProbe() {
	c := &p.health
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	ended := make(chan struct{})
	c.running, c.stop = ended, cancel
	go func() {
		defer p.background.Done()
		defer cancel()
		facilitator, rpc := p.probe(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.facilitator, c.rpcProbe, c.at = facilitator, rpc, p.now()
		c.running = nil
		close(ended)
	}()
}

// stopProbe ends the probe under way, so that closing does not wait for an answer.
func (c *healthCache) stopProbe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		c.stop()
	}
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
	return errors.Join(errs...)
}
