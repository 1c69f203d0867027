package pay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/breaker"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/x402"
)

// Options configure a Payer. Store and Wallets are required.
type Options struct {
	Store       Store
	Wallets     Wallets
	Facilitator Facilitator // nil: `payer` payments answer 402 and say so
	Chain       Chain       // nil: no balances, no evidence from the chain
	// Second must agree before evidence of Chain voids or disputes a payment; nil: Chain's word is
	// enough.
	Second Chain
	// Time compares our clock with those of others. Nil: only with the chain's blocks.
	Time *Timekeeper
	// Names stand in errors and logs that operators read.
	Names    Names
	Clock    Clock // default time.Now
	Logger   *slog.Logger
	Observer Observer
	Tracer   Tracer

	// Networks that may be paid on. Default: the pinned networks marked as default.
	Networks []x402.Network
	// DefaultPolicy holds for what a key's own policy does not set: see [Payer.PolicyOf].
	DefaultPolicy Policy
	// Plans say what organizations may have. What is missing is that of the shipped plans.
	Plans Plans
	// NoPlans removes plans: payments have no monthly quota. Organizations may then have as many
	// keys and wallets as any plan could be set to.
	NoPlans bool
	// Failures bound the attempts of a key that end refused or void.
	Failures FailureBounds
	// SendTimeout bounds one send. Default: 300 s.
	SendTimeout time.Duration
	// Retain is the time for which closed payments are kept, at least MinRetain; 0: for ever.
	Retain time.Duration
	// RepeatWait bounds the time that a repeat waits for the send in flight. Default: 30 s.
	RepeatWait time.Duration
}

// Names holds the operator's names of settings and commands, for messages.
type Names struct {
	RPC        string // the setting of the RPC; default: "rpc"
	SecondRPC  string // that of the second one; default: "rpc_2"
	AcceptRisk string // the command that ends reconciling without the chain; default: "accept the risk"
}

// of returns the name of a source's setting.
func (n Names) of(s TimeSource) string {
	if s == SourceSecondRPC {
		return n.SecondRPC
	}
	return n.RPC
}

// Validity of an authorization (docs/design.md §3.1).
const (
	defaultValidity = 60 * time.Second // when the challenge names none
	minValidity     = 10 * time.Second // less is declined, rule "validity"
	maxValidity     = 300 * time.Second
)

// Payer is the pay core that every door uses. It is safe for concurrent use.
type Payer struct {
	opts  Options
	store Store
	log   *slog.Logger
	now   Clock
	owner string // this process's name in leases

	mu     sync.Mutex
	holds  map[string]*hold // by payment id: the sends of this process
	grips  uint64           // holds made so far
	closed bool

	background sync.WaitGroup // sends, releases and recovery in flight

	identity chainIdentity
	time     *Timekeeper
	words    rpcWords
	balances balanceCache
	slowRPC  *breaker.Breaker // for balances, of payments
	slowView *breaker.Breaker // and of wallet pages
	verified *lru.Cache[verifiedKey, struct{}]
	health   healthCache
	earlier  earlier
	eventIDs eventIDs

	reconcile reconciling
	retaining retaining
}

// New makes a Payer. Close it to wait for what is in flight.
func New(o Options) (*Payer, error) {
	if o.Store == nil || o.Wallets == nil {
		return nil, errors.New("pay: a store and a wallet provider are required")
	}
	if err := o.DefaultPolicy.Validate(); err != nil {
		return nil, fmt.Errorf("pay: the default policy: %w", err)
	}
	if o.Retain != 0 && o.Retain < MinRetain {
		return nil, fmt.Errorf("pay: closed payments are kept for %s at least", MinRetain)
	}
	var err error
	if o.Plans, err = o.Plans.InForce(o.NoPlans); err != nil {
		return nil, fmt.Errorf("pay: %w", err)
	}
	o.Failures = o.Failures.complete()
	if o.Clock == nil {
		o.Clock = failpoint.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.Tracer == nil {
		o.Tracer = untraced{}
	}
	if len(o.Networks) == 0 {
		o.Networks = x402.DefaultNetworks()
	}
	o.Names.RPC = cmp.Or(o.Names.RPC, string(SourceRPC))
	o.Names.SecondRPC = cmp.Or(o.Names.SecondRPC, string(SourceSecondRPC))
	o.Names.AcceptRisk = cmp.Or(o.Names.AcceptRisk, "accept the risk")
	setDefault(&o.SendTimeout, 300*time.Second)
	setDefault(&o.RepeatWait, 30*time.Second)
	o.Time = cmp.Or(o.Time, NewTimekeeper(o.Clock))
	o.Time.log = o.Logger
	return &Payer{
		time: o.Time,
		opts: o, store: o.Store, log: o.Logger, now: o.Clock,
		owner: uuid.NewString(), holds: make(map[string]*hold), identity: newChainIdentity(), slowRPC: newBalanceBreaker(), slowView: newBalanceBreaker(),
		balances: balanceCache{seen: perclient.NewCache[balanceKey, *balanceEntry](maxBalances)},
		verified: perclient.NewCache[verifiedKey, struct{}](maxVerified), words: rpcWords{last: map[TimeSource]rpcWord{}},
		reconcile: reconciling{sizes: map[string]uint64{}, goOn: map[string]uint64{}},
	}, nil
}

func setDefault(d *time.Duration, v time.Duration) {
	if *d <= 0 {
		*d = v
	}
}

// Close refuses new payments and waits for sends, outcomes and releases in flight, until
// ctx ends. What it leaves behind is open in the journal, and recovery's to close.
func (p *Payer) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.health.stopProbe()
	done := make(chan struct{})
	go func() {
		p.background.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for payments in flight: %w", ctx.Err())
	}
}

// enter counts work in flight unless the payer is closed.
func (p *Payer) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("shutting down: %w", ErrUnavailable)
	}
	p.background.Add(1)
	return nil
}

// network finds an enabled network by our name or its wire name.
func (p *Payer) network(wire string) (x402.Network, bool) {
	for _, n := range p.opts.Networks {
		if wire == n.Name || wire == n.CAIP2() {
			return n, true
		}
	}
	return x402.Network{}, false
}

// noObserver ignores all changes.
type noObserver struct{}

func (noObserver) Changed(*Payment, State, Verdict) {}
func (noObserver) Contradicted(*Payment)            {}
func (noObserver) Began(*Payment)                   {}
func (noObserver) Refused(Door, string)             {}
func (noObserver) Ignored(TimeSource, string)       {}
func (noObserver) Took(string, time.Duration)       {}
