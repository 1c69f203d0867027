package pay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// May this payment be made? The two lists of this file are the whole answer, in the order in which it is
// given: ofRequirement chooses among the requirements of a challenge, and ofPayment decides in the
// transaction that journals. docs/design/payments.md has the same numbers and rules.

// ofRequirement lists the checks of one requirement. Those of a policy need no counting. The chain has a word in those
// from byChain on.
var ofRequirement = [...]struct {
	rule string
	rank int // of a requirement that the check turns down
	of   func(*Payer, context.Context, *candidate) error
}{
	{"header", rankHeader, (*Payer).named},             // 1
	{"network", rankNetwork, (*Payer).onOurs},          // 2
	{"wallet", rankWallet, (*Payer).drawn},             // 3
	{"terms", rankTerms, (*Payer).supported},           // 4
	{"amount", rankPolicy, (*Payer).costs},             // 5
	{"own-wallet", rankPolicy, (*Payer).toOthers},      // 6
	{"challenge-too-large", rankPolicy, (*Payer).kept}, // 7
	{"validity", rankPolicy, (*Payer).lasts},           // 8
	{"max-amount", rankPolicy, (*Payer).asked},         // 9
	{"policy", rankPolicy, (*Payer).ruled},             // 10
	{"offer", rankPolicy, (*Payer).asOffered},          // 11
	{"allowance", rankPolicy, (*Payer).mayMove},        // 12
	{"wallet-code", rankPolicy, (*Payer).mayBeTaken},   // 13
}

// ofPayment lists the checks of a new payment. A person is asked last, about payments only that nothing else
// refuses.
var ofPayment = [...]struct {
	rule string
	of   func(*Begin, BeginView, *judged) error
}{
	{"changed", (*Begin).current},       // 14
	{"redirected", (*Begin).redirected}, // 15
	{"paused", (*Begin).running},        // 16
	{"quota", (*Begin).quota},           // 17
	{"declined", (*Begin).declined},     // 18
	{"failures", (*Begin).patience},     // 19
	{"begun", (*Begin).pace},            // 20
	{"policy", (*Begin).permit},         // 21
	{"price-guard", (*Begin).guarded},   // 22
	{"unanswered", (*Begin).room},       // 23
	{"budgets", (*Begin).spend},         // 24
	{"limits", (*Begin).limits},         // 25
	{"approval", (*Begin).approve},      // 26
}

// byChain is the first rule of ofRequirement that asks the chain.
const byChain = "allowance"

// How far a requirement came before it was turned down; rankFault is our own failure.
const (
	rankHeader = iota
	rankNetwork
	rankWallet
	rankTerms
	rankPolicy
	rankShort   // its wallet has too little
	rankPayable // it is the choice
	rankFault
)

// candidate is a requirement that is being considered.
type candidate struct {
	choice
	r     Request
	pol   policy.Policy
	at    policy.Site
	read  *reading
	index int
	rank  int // see ofRequirement; a check may say another one
}

// consider checks one requirement. The rank says how far it came if it is turned down.
func (p *Payer) consider(ctx context.Context, r Request, pol policy.Policy, at policy.Site, read *reading, index int) (choice, int, error) {
	c := candidate{choice: choice{requirement: r.Challenge.Accepts[index], keyID: r.Key.ID}, r: r, pol: pol, at: at, read: read, index: index}
	for _, check := range ofRequirement {
		if c.rank = check.rank; check.rule == byChain && read.first == nil {
			read.first = new(c.terms(r.Settlement))
		}
		if err := check.of(p, ctx, &c); err != nil {
			return c.choice, c.rank, err
		}
	}
	return c.choice, rankPolicy, nil
}

// named refuses an entry without a network.
func (p *Payer) named(_ context.Context, c *candidate) error {
	if c.requirement.Network == "" {
		return &HeaderError{Cause: &x402.FieldError{Field: "network", Reason: "missing"}}
	}
	return nil
}

// onOurs refuses a network that purser does not pay on.
func (p *Payer) onOurs(_ context.Context, c *candidate) (err error) {
	var ok bool
	if c.network, ok = p.network(c.requirement.Network); !ok {
		return p.unpayable(c.requirement.Network)
	}
	return nil
}

// unpayable returns the error of a requirement on a network that purser does not pay on.
func (p *Payer) unpayable(wire string) error {
	name, why := x402.NetworkLabel(wire), "purser cannot pay on it"
	if n, known := p.known(wire); known {
		name, why = n.Name, "purser is not set to pay on it (PURSER_NETWORKS)"
	}
	ours := make([]string, len(p.opts.Networks))
	for i, n := range p.opts.Networks {
		ours[i] = n.Name
	}
	return &NoWalletError{Network: name, Unpayable: why + ", so no wallet can be created there. It pays on " + strings.Join(ours, ", ")}
}

// drawn finds the wallet that pays.
func (p *Payer) drawn(ctx context.Context, c *candidate) (err error) {
	c.wallet, err = p.walletFor(ctx, c.r.Key, c.read, c.network.Name)
	if err != nil && !is[*NoWalletError](err) {
		c.rank = rankFault
	}
	return err
}

// supported refuses terms that purser cannot sign.
func (p *Payer) supported(_ context.Context, c *candidate) (err error) {
	req := c.requirement
	if c.asset, err = p.supports(req); err == nil {
		err = p.takes(req, c.network.Name)
	}
	switch {
	case is[*x402.UnsupportedError](err):
		return err
	case err != nil:
		c.rank = rankHeader
		return &HeaderError{Cause: err}
	case req.Amount.Cmp(maxAmount) > 0:
		return &x402.UnsupportedError{Kind: "asset", Value: req.Asset.String(), Detail: "no token has that much"}
	}
	return c.read.naming.Check(req.Version)
}

// costs refuses a price of 0.
func (p *Payer) costs(_ context.Context, c *candidate) error {
	if c.requirement.Amount.IsZero() {
		// Any client can make such payments: no wallet is too empty for them.
		return refusedBy("amount", "the price is 0, so there is nothing to pay")
	}
	return nil
}

// toOthers refuses a payment from a wallet to itself.
func (p *Payer) toOthers(_ context.Context, c *candidate) error {
	if c.wallet.Address != nil && slices.Contains(p.payees(c.requirement), *c.wallet.Address) {
		return refusedBy("own-wallet", "the payee is the wallet that would pay, so there is nothing to pay")
	}
	return nil
}

// kept refuses a challenge of which the payment would keep too much.
func (p *Payer) kept(_ context.Context, c *candidate) (err error) {
	if c.offer, err = c.read.naming.Within(c.r.Challenge.Offer(c.index), maxOffer); err != nil { // supported has checked the id
		return refusedBy("challenge-too-large", "the challenge is too large: its requirement and the URL of its resource have more than %d bytes; tell the seller", maxOffer)
	}
	return nil
}

// lasts refuses a payment that could not reach its seller in time.
func (p *Payer) lasts(_ context.Context, c *candidate) error {
	c.validity = validity(c.requirement.MaxTimeout)
	if end := c.requirement.Expires; !end.IsZero() {
		c.validity = min(c.validity, max(0, end.Sub(p.now()).Truncate(time.Second)))
	}
	if c.validity < minValidity {
		return &PolicyError{Rule: "validity", Detail: fmt.Sprintf("the seller allows %s for a payment, and purser needs %s; tell the seller", c.validity, minValidity)}
	}
	return nil
}

// asked refuses a price above the bound of the request, or of the quote that came before it.
func (p *Payer) asked(_ context.Context, c *candidate) error {
	price, most := c.requirement.Amount, c.r.MaxAmount
	if most != nil && price.Cmp(*most) > 0 {
		return refusal(policy.TooDear("max-amount", price, policy.CapOf(*most), ", which the request itself sets"), price)
	}
	return p.quoted.bounds(c.r, price, p.now())
}

// ruled refuses by the rules that need no counting.
func (p *Payer) ruled(_ context.Context, c *candidate) error {
	for _, payee := range p.payees(c.requirement) {
		if err := refusal(c.pol.Allows(c.r.Door, c.at, c.r.Task, payee, c.requirement.Amount), c.requirement.Amount); err != nil {
			return err
		}
	}
	return nil
}

// asOffered refuses a requirement that contradicts the seller's signed offers: *PolicyError.
func (p *Payer) asOffered(ctx context.Context, c *candidate) error {
	said, err := c.read.signed.Of(c.index, p.now(), c.pol.OfferSigners...)
	var wrong *x402.SignedOfferError
	if errors.As(err, &wrong) {
		return refusedBy("offer-"+string(wrong.Fault), "%s", wrong.Detail)
	}
	if err == nil && said == x402.OfferUnchecked {
		p.log.DebugContext(ctx, "signed offer cannot be checked here, and counts as none", "key", c.r.Key.ID)
	}
	return err
}

// mayMove refuses a payment for which Permit2 may move too little.
func (p *Payer) mayMove(ctx context.Context, c *candidate) error { return p.allowed(ctx, &c.choice) }

// mayBeTaken refuses a wallet whose signature the token would not take.
func (p *Payer) mayBeTaken(ctx context.Context, c *candidate) error { return p.signs(ctx, c.choice) }

// judged holds what the judgement adds to a new payment.
type judged struct {
	spends []Reservation   // what the payment spends
	starts []CounterChange // the windows of failures that it opens
	tells  []Notice
	// A payment that needs an approval has it, or waits for it.
	approved, unapproved *Approval
}

// judge refuses a new payment, or returns what it takes.
func (b *Begin) judge(v BeginView) (j judged, err error) {
	for _, check := range ofPayment {
		if err := check.of(b, v, &j); err != nil {
			return j, err
		}
	}
	if j.unapproved == nil {
		err = b.tell(v, &j.tells)
	}
	return j, err
}

// current refuses a call that was judged by another policy, owner or plan than its key has
// now, or by a raise that has ended since.
func (b *Begin) current(v BeginView, _ *judged) error {
	if b.Policy == nil {
		return nil
	}
	if b.Policy.Raise != nil && !b.Policy.Raise.Holds(b.Now) {
		return ErrPolicyChanged
	}
	revision, err := v.PolicyRevision(b.KeyID)
	if err == nil && revision != b.PolicyRevision {
		err = ErrPolicyChanged
	}
	if err == nil && b.Parent != nil {
		err = b.Parent.current(b, v)
	}
	if err == nil {
		err = b.drawing(v)
	}
	if err != nil || b.OrganizationID == "" {
		return err
	}
	plan, err := v.Plan(b.OrganizationID)
	if err == nil && plan != b.Plan {
		err = ErrPolicyChanged
	}
	return err
}

// drawing refuses a call whose wallet was deleted, or taken back, since it was chosen.
func (b *Begin) drawing(v BeginView) error {
	if b.New == nil || b.WalletOwner == "" {
		return nil
	}
	may, err := v.MayUse(b.KeyID, b.WalletOwner, b.New.WalletID)
	if err == nil && !may {
		err = ErrPolicyChanged
	}
	return err
}

// running refuses a new payment while everything, or its key, is paused.
func (b *Begin) running(v BeginView, _ *judged) error {
	if b.Unpaused {
		return nil
	}
	all, err := v.Pause()
	if err == nil {
		err = all.refusal("everything")
	}
	if err == nil {
		err = b.Paused.refusal("the key")
	}
	if err == nil && b.Parent != nil {
		err = b.Parent.Paused.refusal("the parent key " + b.Parent.Name)
	}
	if err == nil && b.HostPaused != nil {
		err = refusedBy(RuleHostPaused, "the key pays this host nothing until a person lets it again: %s", b.HostPaused.Reason)
	}
	return err
}

// quota refuses a payment for which the owner's month has no place.
func (b *Begin) quota(v BeginView, _ *judged) error { return check(v, b.Place) }

// declined refuses what was found before: no requirement can be paid, the wallet has no address or too little,
// the facilitator rests, a clock is wrong.
func (b *Begin) declined(BeginView, *judged) error { return b.Declined }

// permit checks the new row by the rules without counting, as it will be signed.
func (b *Begin) permit(BeginView, *judged) error {
	if b.Policy == nil {
		return nil
	}
	return refuses(*b.Policy, b.New)
}

// guarded refuses a price that has jumped.
func (b *Begin) guarded(v BeginView, _ *judged) error {
	if b.Policy == nil {
		return nil
	}
	return guard(*b.Policy, v, b.New)
}

// room refuses a payment to a host that has left too many of the key's payments unanswered.
func (b *Begin) room(v BeginView, _ *judged) error {
	if b.MaxUnanswered <= 0 {
		return nil
	}
	n, err := v.CountUnanswered(b.KeyID, b.New.Host, b.Now, b.MaxUnanswered)
	if err == nil && n >= b.MaxUnanswered {
		err = &PolicyError{Rule: "unanswered", Detail: fmt.Sprintf("%d payments to this host are open and have brought no answer; repeat those requests, or wait until they expire", n)}
	}
	return err
}

// unanswered reports whether an error is that of [Begin.room].
func unanswered(err error) bool {
	refused, is := errors.AsType[*PolicyError](err)
	return is && refused.Rule == "unanswered"
}

// spend checks the new row by the budgets, and counts what it spends.
func (b *Begin) spend(v BeginView, j *judged) (err error) {
	if b.Policy == nil {
		return nil
	}
	tells := func(name string, row *Payment) func(budgetUse) {
		if b.KeyName == "" {
			return nil
		}
		return func(u budgetUse) {
			if n, crossed := budgetCrossed(name, row, u); crossed {
				j.tells = append(j.tells, n)
			}
		}
	}
	if err := budgets(*b.Policy, v, b.New, tells(b.KeyName, b.New)); err != nil {
		return err
	}
	var parents []Reservation
	if b.Parent != nil {
		if parents, err = b.Parent.spend(v, b.New, tells(b.Parent.Name, b.Parent.row(b.New))); err != nil {
			return err
		}
	}
	j.spends, err = spending(v, b.New, b.Hours || b.Policy.CountsHours())
	j.spends = slices.Concat(j.spends, total(*b.Policy, b.New), parents)
	return err
}

// limits refuses a payment whose reservations would pass their limits: of the minute, the balance, the allowance.
func (b *Begin) limits(v BeginView, _ *judged) error {
	for _, l := range b.Limits {
		if err := check(v, l); err != nil {
			return err
		}
	}
	return nil
}

// counterFunc reads a counter.
type counterFunc func(Counter) (money.Amount, error)

// Counter is of [BeginView].
func (f counterFunc) Counter(c Counter) (money.Amount, error) { return f(c) }

// check refuses when the reservation would pass its limit.
func check(v interface {
	Counter(c Counter) (money.Amount, error)
}, l Limit,
) error {
	if l.Max == nil || failpoint.Off(failpoint.Limits) {
		return nil
	}
	have, err := v.Counter(l.Counter)
	if err != nil {
		return err
	}
	most := *l.Max
	if counter := l.Moved(); counter != "" {
		moved, err := v.Counter(counter)
		if err != nil {
			return err
		}
		most = most.SubSaturated(moved.SubSaturated(l.Since))
	}
	if sum, overflow := have.Add(l.Amount); overflow || sum.Cmp(most) > 0 {
		return l.Refusal
	}
	return nil
}
