package pay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/policy"
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
	// Telling says what people are told of.
	Telling Telling

	// Networks that may be paid on. Default: the pinned networks marked as default.
	Networks []x402.Network
	// Rails holds those that package x402 does not know. Their networks may be paid on as well.
	Rails []Rail
	// Ways to pay that may be taken, in the order of choice. Default: [DefaultWays].
	Ways []string
	// Schemes of x402 that may be paid. Default: exact.
	Schemes []string
	// DefaultPolicy holds for what a key's own policy does not set: see [Payer.PolicyOf].
	DefaultPolicy policy.Policy
	// Plans say what organizations may have. What is missing is that of the shipped plans.
	Plans Plans
	// NoPlans removes plans: payments have no monthly quota. Organizations may then have as many
	// keys and wallets as any plan could be set to.
	NoPlans bool
	// Calls is shared by the payers of one process, such as that of the next configuration. Default: its own.
	Calls *Calls
	// Failures bound the attempts of a key that end refused or void, its quotes, and what it pays for nothing.
	Failures FailureBounds
	// SendTimeout bounds one send. Default: 15 min, because models and video jobs take their time.
	SendTimeout time.Duration
	// Retain is the time for which closed payments are kept, at least MinRetain; 0: for ever.
	Retain time.Duration
	// RepeatWait bounds the time that a repeat waits for the send in flight. Default: 30 s.
	RepeatWait time.Duration
	// RepeatPoll is the interval at which a waiting repeat asks about a lease of another process. Where
	// that process tells of the lease's end, it is ten times as long. Default: 250 ms.
	RepeatPoll time.Duration
	// ApprovalWait bounds the time that a held call waits for a person's answer; 0: it does not wait.
	ApprovalWait time.Duration
	// ApprovalExpiry is the time after which an approval allows nothing any more. Default: 1 h.
	ApprovalExpiry time.Duration
}

// Names holds the operator's names of settings and commands, for messages.
type Names struct {
	// RPC names the setting of a network's RPC; default: "rpc". SecondRPC names that of its second one;
	// default: "rpc_2".
	RPC, SecondRPC func(network string) string
	AcceptRisk     string // the command that ends reconciling without the chain; default: "accept the risk"
	Approve        string // the command that gives Permit2 an allowance of a wallet; default: "approve Permit2 for"
}

// of returns the name of the setting of an RPC of a network.
func (n Names) of(s TimeSource, network string) string {
	name := n.RPC
	if s == SourceSecondRPC {
		name = n.SecondRPC
	}
	if name == nil {
		return string(s)
	}
	return name(network)
}

// Validity of an authorization (docs/design/payments.md).
const (
	defaultValidity = 60 * time.Second // when the challenge names none
	minValidity     = 10 * time.Second // less is declined, rule "validity"
	// MaxValidity bounds the time for which any authorization is valid.
	MaxValidity = 300 * time.Second
)

// Payer is the pay core that every door uses. It is safe for concurrent use.
type Payer struct {
	opts  Options
	store Store
	log   *slog.Logger
	now   Clock
	owner string                // this process's name in leases
	newer atomic.Pointer[Payer] // see Follow

	mu     sync.Mutex
	grips  map[string]*grip // by payment id: the sends of this process
	taken  uint64           // grips made so far
	closed bool

	background sync.WaitGroup // sends, releases and recovery in flight

	identity   chainIdentity
	time       *Timekeeper
	words      rpcWords
	balances   balanceCache
	codes      codeCache
	slowRPC    rpcRests // of payments
	slowView   rpcRests // of wallet pages
	slowCode   rpcRests // of looks at wallets' code
	questions  questions
	findings   findings
	proving    proving
	verified   *lru.Cache[verifiedKey, struct{}]
	signedIn   *lru.Cache[Hash, struct{}] // nonces of sign-ins
	health     healthCache
	earlier    earlier
	eventIDs   eventIDs
	paymentIDs eventIDs // of the same form
	delays     delays
	calls      *Calls
	senders    senders // of transactions
	telling    telling
	waits      waits
	quotes     *perclient.Limiter[string] // by key
	quoted     quotes
	// resemblances holds verdicts about names, by key and host.
	resemblances *perclient.Memory[string, resemblance]
	// otherNonces has the sellers that want [x402.Requirement.OtherNonce], by host and realm.
	otherNonces *lru.Cache[Hash, struct{}]

	reconcile reconciling
	retaining retaining
	declines  declineLog
	uses      useLog
}

// New makes a Payer. Close it to wait for what is in flight.
func New(o Options) (*Payer, error) {
	if o.Store == nil || o.Wallets == nil {
		return nil, errors.New("pay: a store and a wallet provider are required")
	}
	if err := o.DefaultPolicy.Validate(); err != nil {
		return nil, fmt.Errorf("pay: the default policy: %w", err)
	}
	if o.DefaultPolicy.HasTotals() {
		return nil, errors.New("pay: the default policy: a total counts from when a key got it, so only keys have one")
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
	for _, r := range o.Rails {
		if n := r.Network(); !slices.ContainsFunc(o.Networks, func(of x402.Network) bool { return of.Name == n.Name }) {
			o.Networks = append(slices.Clip(o.Networks), n)
		}
	}
	if len(o.Ways) == 0 {
		o.Ways = DefaultWays()
	}
	if len(o.Schemes) == 0 {
		o.Schemes = []string{x402.SchemeExact}
	}
	o.Names.Approve = cmp.Or(o.Names.Approve, "approve Permit2 for")
	o.Names.AcceptRisk = cmp.Or(o.Names.AcceptRisk, "accept the risk")
	setDefault(&o.SendTimeout, 15*time.Minute)
	setDefault(&o.RepeatWait, 30*time.Second)
	setDefault(&o.RepeatPoll, 250*time.Millisecond)
	setDefault(&o.ApprovalExpiry, time.Hour)
	o.Time = cmp.Or(o.Time, NewTimekeeper(o.Clock))
	o.Time.log = o.Logger
	if nodes, is := o.Store.(Announcing); is {
		terms, err := o.terms()
		if err != nil {
			return nil, fmt.Errorf("pay: %w", err)
		}
		nodes.Announce(terms)
	}
	for _, n := range o.Networks {
		if err := SignsFor(o.Wallets, n.Name); err != nil {
			o.Logger.Warn("nothing can be paid on a network: "+err.Error(), "network", n.Name)
		}
	}
	return &Payer{
		time: o.Time, declines: newDeclineLog(),
		opts: o, store: o.Store, log: o.Logger, now: o.Clock,
		owner: uuid.NewString(), grips: make(map[string]*grip), identity: newChainIdentity(), slowRPC: newRPCRests(o.Networks), slowView: newRPCRests(o.Networks), slowCode: newRPCRests(o.Networks),
		questions: newQuestions(), findings: findings{seen: perclient.NewCache[string, *finding](maxFindings)},
		codes:    newCodeCache(),
		balances: balanceCache{seen: perclient.NewCache[balanceKey, *balanceEntry](maxBalances)},
		proving:  newProving(),
		verified: perclient.NewCache[verifiedKey, struct{}](maxVerified), signedIn: perclient.NewCache[Hash, struct{}](maxSignIns), words: rpcWords{last: map[rpcOf]rpcWord{}},
		telling:      newTelling(),
		uses:         newUseLog(),
		resemblances: perclient.NewMemory[string, resemblance](maxSuspicions),
		otherNonces:  perclient.NewCache[Hash, struct{}](maxOtherNonces),
		calls:        cmp.Or(o.Calls, NewCalls()),
		waits:        newWaits(),
		quotes:       o.Failures.quotes(),
		quoted:       newQuotes(),
		reconcile:    reconciling{sizes: map[string]uint64{}, goOn: map[string]uint64{}},
	}, nil
}

func setDefault(d *time.Duration, v time.Duration) {
	if *d <= 0 {
		*d = v
	}
}

// Close refuses new payments and ends waits for approvals. It waits for sends, outcomes and releases in
// flight, until ctx ends. What it leaves behind is open in the journal, and recovery's to close.
func (p *Payer) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.StopWaiting()
	p.declines.end.Do(func() { close(p.declines.ended) })
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

// RPCSetting names the setting of a network's RPC, for messages.
func (p *Payer) RPCSetting(network string) string { return p.opts.Names.of(SourceRPC, network) }

// network finds an enabled network by our name or its wire name.
func (p *Payer) network(wire string) (x402.Network, bool) { return p.opts.Network(wire) }

// Network finds an enabled network by our name or its wire name.
func (o Options) Network(wire string) (x402.Network, bool) {
	for _, n := range o.Networks {
		if wire == n.Name || wire == n.CAIP2() {
			return n, true
		}
	}
	return x402.Network{}, false
}

// noObserver ignores all changes.
type noObserver struct{}

func (noObserver) Changed(*Payment, State, Verdict)   {}
func (noObserver) Contradicted(*Payment)              {}
func (noObserver) Undelivered(*Payment)               {}
func (noObserver) Began(*Payment)                     {}
func (noObserver) Refused(policy.Door, string)        {}
func (noObserver) Ignored(TimeSource, string, string) {}
func (noObserver) Took(string, time.Duration)         {}
func (noObserver) Waiting(int)                        {}
func (noObserver) Answered(ApprovalAnswer)            {}
