package pay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/x402"
)

// Health is the state that GET /health shows (docs/design/surfaces.md). Its texts contain no secrets and
// no URLs.
type Health struct {
	OK          bool // false when nothing can be paid
	Store       Probe
	StoreKind   string
	Facilitator Probe
	RPC         Probe // of all networks: its error names those without evidence from the chain
	// SecondRPC is not configured unless both RPCs of a network must agree.
	SecondRPC Probe
	// Clock compares our clock with those of the facilitator and the RPCs.
	Clock ClockState
	// Networks holds what is paid on, the first one of the configuration first.
	Networks []NetworkHealth
	Wallets  string // provider's name
	// Differences lists the limits that other nodes have other values of: see Announcing.
	Differences []string
	// Signer is the provider, unless it works in this process: then it is not configured.
	Signer Probe
	// Reconciling is set, and OK is false, until a restored store is reconciled.
	Reconciling *ReconcileStatus
	// Paused is set while everything is paused, which is no fault: OK does not depend on it.
	Paused *Pause
}

// NetworkHealth tells how the RPCs of a network are. Both are as in Health, for one network.
type NetworkHealth struct {
	x402.Network
	RPC, SecondRPC               Probe
	RPCSetting, SecondRPCSetting string // the names of their settings
	// Unready: nothing new can be paid, because payments are made with the RPC's help and it does not serve the network.
	Unready bool
}

// Probe holds the state of a service that purser depends on.
type Probe struct {
	Configured bool
	OK         bool
	Err        error
}

const (
	// healthKept is the age of a result from which a call asks for a new one.
	healthKept = 10 * time.Second
	// healthWait bounds how long calls wait for that, from its beginning on. Then they tell the last result. It is
	// shorter than the time limits of readiness probes.
	healthWait = 2 * time.Second
	// probeTime bounds one probe.
	probeTime = 5 * time.Second
)

// errNoAnswerYet: a dependency has not answered the first probe.
var errNoAnswerYet = errors.New("no answer yet")

// probes hold what one probe of all dependencies gave.
type probes struct {
	facilitator, rpc, second, signer Probe
	networks                         []NetworkHealth
}

// healthCache keeps the last probe of what payments depend on. At most one probe runs.
type healthCache struct {
	mu      sync.Mutex
	last    probes
	at      time.Time     // when the last probe ended; zero: none has
	running chan struct{} // closed when the probe under way ends; nil: none is
	began   time.Time     // when that began, by the process's clock
	stop    context.CancelFunc
}

// Health asks the store, and tells what the last probe of facilitator, RPC and signer gave. Once that is older than
// 10 s, a call has them probed and waits for it, 2 s at most: all surfaces tell of the same moment.
func (p *Payer) Health(ctx context.Context) Health {
	h := Health{StoreKind: p.store.Kind(), Wallets: p.opts.Wallets.Name()}
	err := p.store.Health(ctx)
	if err == nil {
		h.Reconciling, err = p.Reconciling(ctx)
	}
	if err == nil {
		h.Paused, err = p.store.Pause(ctx)
	}
	h.Store = Probe{Configured: true, OK: err == nil, Err: err}
	h.OK = err == nil && h.Reconciling == nil
	if nodes, is := p.store.(Announcing); is {
		h.Differences = nodes.Differences()
	}
	last := p.probed(ctx)
	h.Facilitator, h.RPC, h.SecondRPC, h.Signer, h.Networks = last.facilitator, last.rpc, last.second, last.signer, last.networks
	h.Clock = p.time.State()
	return h
}

// probed returns the last result, or a new one if one is due.
func (p *Payer) probed(ctx context.Context) probes {
	c := &p.health
	c.mu.Lock()
	age := p.now().Sub(c.at)
	if c.running == nil && age.Abs() >= healthKept && p.enter() == nil {
		p.startProbe()
	}
	running, began := c.running, c.began
	c.mu.Unlock()
	if running != nil && age.Abs() >= healthKept {
		patience := time.NewTimer(healthWait - time.Since(began))
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
		_, outside := p.opts.Wallets.(Probing)
		rpc, second := unheard(p.opts.Chain != nil), unheard(p.opts.Second != nil)
		return probes{unheard(p.opts.Facilitator != nil), rpc, second, unheard(outside), p.networkHealth(rpc, second)}
	}
	return c.last
}

// startProbe starts a probe, for which the caller has entered and holds the lock of the
// cache. No caller's context ends it: a caller that left proves nothing.
func (p *Payer) startProbe() {
	c := &p.health
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	ended := make(chan struct{})
	c.running, c.began, c.stop = ended, time.Now(), cancel
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
	all.networks = p.networkHealth(Probe{}, Probe{})
	for i := range all.networks {
		n := &all.networks[i]
		if p.opts.Chain != nil {
			ask(&n.RPC, func(ctx context.Context) error {
				serves, err := p.checkNetwork(ctx, n.Network)
				n.Unready = n.Rail != 0 && !serves
				return err
			})
		}
		if p.opts.Chain == nil && n.Rail != 0 {
			n.RPC, n.Unready = Probe{Configured: true, Err: fmt.Errorf("no evidence for %s: %w (%s)", n.Name, ErrUnwatched, n.RPCSetting)}, true
		}
		if p.opts.Second != nil {
			wg.Go(func() { n.SecondRPC = p.checkSecond(ctx, n.Network) })
		}
	}
	if signer, outside := p.opts.Wallets.(Probing); outside {
		ask(&all.signer, signer.Probe)
	}
	wg.Wait()
	all.rpc = together(all.networks, func(n NetworkHealth) Probe { return n.RPC })
	all.second = together(all.networks, func(n NetworkHealth) Probe { return n.SecondRPC })
	return all
}

// networkHealth lists the networks that are paid on with one state of all their RPCs.
func (p *Payer) networkHealth(rpc, second Probe) []NetworkHealth {
	list := make([]NetworkHealth, len(p.opts.Networks))
	for i, n := range p.opts.Networks {
		list[i] = NetworkHealth{n, rpc, second, p.opts.Names.of(SourceRPC, n.Name), p.opts.Names.of(SourceSecondRPC, n.Name), false}
	}
	return list
}

// together sums up the RPCs of all networks.
func together(networks []NetworkHealth, of func(NetworkHealth) Probe) (sum Probe) {
	var errs []error
	for _, n := range networks {
		one := of(n)
		sum.Configured = sum.Configured || one.Configured
		errs = append(errs, one.Err)
	}
	sum.Err = inOneLine(errs...)
	sum.OK = sum.Configured && sum.Err == nil
	return sum
}

// inOneLine joins errors; nil: there are none.
func inOneLine(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return joined(errs)
}

// joined holds one error or more.
type joined []error

func (j joined) Error() string {
	texts := make([]string, len(j))
	for i, err := range j {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (j joined) Unwrap() []error { return j }

// checkNetwork asks the RPC about a network: whether it serves that, and what else is wrong.
func (p *Payer) checkNetwork(ctx context.Context, n x402.Network) (serves bool, err error) {
	if err = p.CheckChain(ctx, n, n.Assets[0]); err != nil {
		err = fmt.Errorf("no evidence for %s: %w", n.Name, err)
	}
	return err == nil, inOneLine(err, p.words.problem(rpcOf{SourceRPC, n.Name}, p.now()))
}

// checkSecond asks the second RPC of a network, if there is one, unless the first one does not serve
// the network.
func (p *Payer) checkSecond(ctx context.Context, n x402.Network) Probe {
	if !p.watches(n.Name) {
		return Probe{Configured: true, OK: true}
	}
	id, err := p.opts.Second.Identify(ctx, n, n.Assets[0])
	if errors.Is(err, ErrUnwatched) {
		return Probe{}
	}
	if err == nil {
		err = p.sameWorld(ctx, n, SourceSecondRPC, id)
	}
	if err != nil {
		err = fmt.Errorf("nothing can be void on %s: %w", n.Name, err)
	}
	err = inOneLine(err, p.words.problem(rpcOf{SourceSecondRPC, n.Name}, p.now()))
	return Probe{Configured: true, OK: err == nil, Err: err}
}
