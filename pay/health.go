package pay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/purserpay/purser/x402"
)

// Health is the state that GET /health shows (docs/design.md §5). Its texts contain no secrets and
// no URLs.
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
	// Paused is set while everything is paused, which is no fault: OK does not depend on it.
	Paused *Pause
}

// Probe holds the state of a service that purser depends on.
type Probe struct {
	Configured bool
	OK         bool
	Err        error
}

const (
	// healthKept is the age of a result from which a call starts a new probe.
	healthKept = 10 * time.Second
	// healthStale is the age of a result from which a call waits for a new one.
	healthStale = time.Minute
	// healthWait bounds how long a call without such a result waits for the probe. It is
	// shorter than the time limits of readiness probes.
	healthWait = 2 * time.Second
	// probeTime bounds one probe.
	probeTime = 5 * time.Second
)

// errNoAnswerYet: a dependency has not answered the first probe.
var errNoAnswerYet = errors.New("no answer yet")

// probes hold what one probe of all dependencies gave.
type probes struct{ facilitator, rpc, second Probe }

// healthCache keeps the last probe of what payments depend on. At most one probe runs.
type healthCache struct {
	mu      sync.Mutex
	last    probes
	at      time.Time     // when the last probe ended; zero: none has
	running chan struct{} // closed when the probe under way ends; nil: none is
	stop    context.CancelFunc
}

// Health asks the store, and tells what the last probe of facilitator and RPC gave. A result older
// than 10 s starts a new probe. Without one of the last minute, a call waits for it, 2 s at most.
func (p *Payer) Health(ctx context.Context) Health {
	network := p.opts.Networks[0]
	h := Health{StoreKind: p.store.Kind(), Network: network, Wallets: p.opts.Wallets.Name()}
	err := p.store.Health(ctx)
	if err == nil {
		h.Reconciling, err = p.Reconciling(ctx)
	}
	if err == nil {
		h.Paused, err = p.store.Pause(ctx)
	}
	h.Store = Probe{Configured: true, OK: err == nil, Err: err}
	h.OK = err == nil && h.Reconciling == nil
	last := p.probed(ctx)
	h.Facilitator, h.RPC, h.SecondRPC = last.facilitator, last.rpc, last.second
	h.Clock = p.time.State()
	return h
}

// probed returns the last result and has a new probe started if one is due.
func (p *Payer) probed(ctx context.Context) probes {
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
		return probes{
			facilitator: unheard(p.opts.Facilitator != nil), rpc: unheard(p.opts.Chain != nil), second: unheard(p.opts.Second != nil),
		}
	}
	return c.last
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
		last := p.probe(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last, c.at = last, p.now()
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

// probe asks all dependencies at once: one that hangs leaves the others their time.
func (p *Payer) probe(ctx context.Context) (all probes) {
	var wg sync.WaitGroup
	ask := func(into *Probe, question func(context.Context) error) {
		wg.Go(func() {
			err := question(ctx)
			*into = Probe{Configured: true, OK: err == nil, Err: err}
		})
	}
	if f := p.opts.Facilitator; f != nil {
		ask(&all.facilitator, f.Probe)
	}
	if p.opts.Chain != nil {
		ask(&all.rpc, p.checkNetworks)
	}
	if p.opts.Second != nil {
		ask(&all.second, p.checkSecond)
	}
	wg.Wait()
	return all
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

// checkSecond asks the second RPC about each network that the first one serves.
func (p *Payer) checkSecond(ctx context.Context) error {
	errs := []error{p.words.problem(SourceSecondRPC, p.now())}
	for _, n := range p.opts.Networks {
		if !p.watches(n.Name) {
			continue
		}
		id, err := p.opts.Second.Identify(ctx, n, n.Assets[0])
		if err == nil {
			err = p.sameWorld(ctx, n, id)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("nothing can be void on %s: %w", n.Name, err))
		}
	}
	return errors.Join(errs...)
}
