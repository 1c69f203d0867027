package pay

import (
	"fmt"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/x402"
)

// Begin is one call's wish to pay: the proposed row, what it would reserve, and how a
// repeat of it is recognized. A store decides and writes it in one transaction.
type Begin struct {
	Now   time.Time
	Owner string // who would hold the lease

	KeyID          string
	IdempotencyKey string
	Fingerprint    Hash
	Identity       Hash
	// Anew: no settled payment will do that the call would repeat without an idempotency key.
	Anew bool
	// Again: only this payment will do, and no new one.
	Again string
	// Resend: for a repeat of a settled payment the door sends the payload once more
	// (proxy, transport) instead of giving the stored answer (REST).
	Resend bool
	// Attended reports whether a payment's first caller is still waiting on this node;
	// such a payment is nobody else's (DESIGN §3, repeats without a key).
	Attended func(paymentID string) bool
	// Held reports whether this node has a grip on a payment's lease, whatever the clock
	// says of the lease. A clock that jumped must not let a second send begin.
	Held func(paymentID string) bool

	// Policy is what is in force for the call, in the key's revision of it; nil: nothing. It is
	// held against New, whose spending is counted with it, and is void if the key has got another
	// one meanwhile.
	Policy         *Policy
	PolicyRevision uint64
	// OrganizationID is whose places the call counts for, "" while its key is unclaimed, and Plan
	// is the organization's that Place and Revival are bounded by. With a Policy, the call is void
	// too if the organization has got another plan meanwhile; that a key is linked, its revision
	// tells.
	OrganizationID string
	Plan           PlanName
	// Paused is the key's pause in its PolicyRevision, nil for none: no new payment is made.
	Paused *Pause
	// Unclaimed bounds a monthly place that a doubted payment takes again and had taken before
	// its key was linked.
	Unclaimed x402.Amount

	// Terms are what the challenge asks for; the zero value when it says nothing that could be paid.
	Terms Terms

	// New is the payment to journal; nil when the challenge cannot be paid at all.
	New *Payment
	// Declined is why no new payment may be made, if so. A repeat of an earlier payment is
	// served all the same, and the monthly quota, if Place has one, is answered before it.
	Declined error

	// Place is the monthly place, without a Counter for a key that has none; Limits are the other reservations, checked in order.
	Place  Limit
	Limits []Limit
	// Revival bounds the monthly place that a doubted payment takes again when it is driven
	// on; Place does, if it has a bound.
	Revival Limit
	attempt uint64 // the next one under the idempotency key; found by Decide

	// MaxUnanswered bounds the host's open, unanswered payments; zero: no bound.
	MaxUnanswered int
	// Failures bound the key's attempts that ended refused or void; zero: no bound.
	Failures FailureBounds
}

// How says what a call got.
type How int

// The ways a call can go on.
const (
	Created How = iota // a new payment, leased to the caller
	Driven             // an open one: the same payload is sent again, leased to the caller
	Resent             // a settled one to be sent once more, or an unanswered one to be answered again; leased
	Stored             // a settled one: the stored answer, without a lease
	Busy               // the payment is being sent by somebody else: wait and ask again
	Expired            // open, and too late to send its payload again
	Spent              // a settled one to be sent once more, whose payload was lost: see [Payment.Reconciled]
)

// Begun is what Begin decided. Payment is the row as written.
type Begun struct {
	How     How
	Payment *Payment
	// Revived names what a driven payment was before, if it was doubted: VerdictRefused or
	// VerdictVoid.
	Revived Verdict
}

// Leased reports whether the caller now holds the payment's lease.
func (b Begun) Leased() bool { return b.How == Created || b.How == Driven || b.How == Resent }

// BeginView is what deciding reads. All of it comes from the transaction that writes.
type BeginView interface {
	// ByIdempotencyKey finds the payment that an idempotency key stands for, or nil: of all
	// unretired attempts under the key the one that [Payment.Lives]. The number of those that
	// do not is not bounded, and must not matter to its cost.
	ByIdempotencyKey(keyID, idempotencyKey string) (*Payment, error)
	// VisitAwaited calls visit for the ids of payments that are [Payment.Awaited] with this
	// identity and whose ValidBefore + RepeatGrace is after now, until visit returns false.
	VisitAwaited(keyID string, identity Hash, now time.Time, visit func(id string) (bool, error)) error
	// Payment loads a payment.
	Payment(id string) (*Payment, error)
	// CountUnanswered counts payments that [Payment.HoldsHost] and whose ValidBefore is
	// after now; counting may stop at max.
	CountUnanswered(keyID, host string, now time.Time, max int) (int, error)
	// Pause says that everything is paused; nil: it is not.
	Pause() (*Pause, error)
	// PolicyRevision is that of a key: see [Key.PolicyRevision]. It is 0 for an unknown key.
	PolicyRevision(keyID string) (uint64, error)
	// Plan is that of an organization, PlanFree for an unknown one.
	Plan(organizationID string) (PlanName, error)
	// Counter reads a counter.
	Counter(c Counter) (x402.Amount, error)
	// VisitCounters calls visit for all counters above zero whose names begin with a prefix, until
	// visit returns false. Its cost must not grow with the number of the others.
	VisitCounters(prefix Counter, visit func(c Counter, amount x402.Amount) (more bool)) error

	// Attempts is the highest [Payment.Attempt] that payments under an idempotency key have,
	// retired ones as well; 0: none.
	Attempts(keyID, idempotencyKey string) (uint64, error)
	// Nonce is that of an attempt: derived with a secret of the store, so that nobody else can
	// foresee it, it is the same whenever it is asked for, also in a backup.
	Nonce(keyID, idempotencyKey string, attempt uint64) x402.Nonce
	// Restored is what is to be reconciled, nil for nothing: see [Reconciler].
	Restored() (*Restore, error)
	// Reconciled finds the payment that is [Payment.Reconciled] and has the Nonce of an
	// attempt under an idempotency key, of several the last attempt; nil and 0: none. The
	// number of attempts is not bounded, and must not matter to its cost.
	Reconciled(keyID, idempotencyKey string) (p *Payment, attempt uint64, err error)
}

// Decide finds what the call gets. When Begun.Leased, the store writes the payment and
// the changes; otherwise it writes nothing.
//
// Repeats are served whatever the policy says by now: what they get is journaled already.
func (b *Begin) Decide(v BeginView) (Begun, []CounterChange, error) {
	b.attempt = 0
	begun, ok, err := b.repeat(v)
	if err == nil {
		err = reconciled(v, begun.How)
	}
	switch {
	case err != nil:
		return Begun{}, nil, err
	case ok && begun.How == Driven && begun.Payment.Doubted:
		return b.revive(v, begun)
	case ok:
		return begun, nil, nil
	}
	if err := b.current(v); err != nil {
		return Begun{}, nil, err
	}
	if err := b.running(v); err != nil {
		return Begun{}, nil, err
	}
	if err := check(v, b.Place); err != nil {
		return Begun{}, nil, err
	}
	if b.New == nil || b.Declined != nil {
		return Begun{}, nil, b.Declined
	}
	changes, err := b.patience(v)
	if err != nil {
		return Begun{}, nil, err
	}
	if err := b.permit(v); err != nil {
		return Begun{}, nil, err
	}
	if b.MaxUnanswered > 0 {
		n, err := v.CountUnanswered(b.KeyID, b.New.Host, b.Now, b.MaxUnanswered)
		if err != nil {
			return Begun{}, nil, err
		}
		if n >= b.MaxUnanswered {
			return Begun{}, nil, &PolicyError{Rule: "unanswered", Detail: fmt.Sprintf("%d payments to this host wait for an answer", n)}
		}
	}
	spends, err := b.spend(v)
	if err != nil {
		return Begun{}, nil, err
	}
	for _, l := range b.Limits {
		if err := check(v, l); err != nil {
			return Begun{}, nil, err
		}
	}
	p := b.New.Clone()
	if b.attempt > 0 {
		p.Attempt = b.attempt
		p.Authorization.Nonce = v.Nonce(b.KeyID, b.IdempotencyKey, b.attempt)
	}
	for _, l := range append([]Limit{b.Place}, b.Limits...) {
		if l.Counter == "" {
			continue
		}
		p.Reservations = append(p.Reservations, l.Reservation)
		changes = append(changes, CounterChange{Counter: l.Counter, Amount: l.Amount, Add: true})
	}
	for _, r := range spends {
		p.Reservations = append(p.Reservations, r)
		changes = append(changes, CounterChange{Counter: r.Counter, Amount: r.Amount, Add: true})
	}
	p.Grant(b.Owner, b.Now.Add(LeaseTime))
	return Begun{How: Created, Payment: p}, changes, nil
}

// revive takes again what a doubted payment gave back, before it is driven on: its monthly
// place, if there still is one.
func (b *Begin) revive(v BeginView, begun Begun) (Begun, []CounterChange, error) {
	if err := b.current(v); err != nil {
		return Begun{}, nil, err
	}
	if err := b.running(v); err != nil { // as far as purser knows, nothing of it has left
		return Begun{}, nil, err
	}
	p := begun.Payment // a copy
	for _, r := range p.Reservations {
		if r.Released && r.Release == ReleasePlace {
			place := b.Place
			if place.Max == nil {
				place = b.Revival
			}
			if place.Max != nil && b.OrganizationID != "" && p.OrganizationID == "" {
				place.Max = &b.Unclaimed // its key was linked since, but its place stayed
			}
			place.Reservation = r
			if err := check(v, place); err != nil {
				return Begun{}, nil, err
			}
		}
	}
	begun.Revived = VerdictVoid
	if p.Refused {
		begun.Revived = VerdictRefused
	}
	return begun, p.revive(), nil
}

// current refuses a call that was judged by another policy, owner or plan than its key has
// now.
func (b *Begin) current(v BeginView) error {
	if b.Policy == nil {
		return nil
	}
	revision, err := v.PolicyRevision(b.KeyID)
	if err == nil && revision != b.PolicyRevision {
		err = ErrPolicyChanged
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

// running refuses a new payment while everything, or its key, is paused.
func (b *Begin) running(v BeginView) error {
	all, err := v.Pause()
	if err == nil {
		err = all.refusal("everything")
	}
	if err == nil {
		err = b.Paused.refusal("the key")
	}
	return err
}

// permit holds the rules without counting, and the price guard, against the new row.
func (b *Begin) permit(v BeginView) error {
	if b.Policy == nil {
		return nil
	}
	if err := b.Policy.refuses(b.New); err != nil {
		return err
	}
	return b.Policy.guard(v, b.New)
}

// spend holds the budgets against the new row, and counts what it spends.
func (b *Begin) spend(v BeginView) ([]Reservation, error) {
	if b.Policy == nil {
		return nil, nil
	}
	if err := b.Policy.budgets(v, b.New); err != nil {
		return nil, err
	}
	return spending(v, b.New)
}

// repeat serves a call that an earlier payment answers.
func (b *Begin) repeat(v BeginView) (Begun, bool, error) {
	if failpoint.Off(failpoint.Repeats) {
		return Begun{}, false, nil
	}
	if b.Again != "" {
		p, err := v.Payment(b.Again)
		switch {
		case err != nil:
			return Begun{}, false, err
		case !p.Lives() || p.Retired:
			return Begun{How: Expired, Payment: p}, true, nil
		}
		return b.serve(p), true, nil
	}
	if b.IdempotencyKey != "" {
		p, err := v.ByIdempotencyKey(b.KeyID, b.IdempotencyKey)
		if err != nil {
			return Begun{}, false, err
		}
		if p == nil || !p.Lives() || p.Retired {
			return b.lost(v)
		}
		if p.Fingerprint != b.Fingerprint {
			return Begun{}, false, ErrIdempotencyReused
		}
		return b.serve(p), true, nil
	}
	var found *Begun
	err := v.VisitAwaited(b.KeyID, b.Identity, b.Now, func(id string) (bool, error) {
		if b.Attended != nil && b.Attended(id) {
			return true, nil
		}
		p, err := v.Payment(id)
		if err != nil {
			return false, err
		}
		if !p.Awaited() || b.Anew && p.State == Settled {
			return true, nil
		}
		begun := b.serve(p)
		found = &begun
		return false, nil
	})
	if err != nil || found == nil {
		return Begun{}, false, err
	}
	return *found, true, nil
}

// serve says how a living earlier payment answers this call.
func (b *Begin) serve(p *Payment) Begun {
	switch {
	case p.State == Settled && b.IdempotencyKey != "" && !b.Resend:
		return Begun{How: Stored, Payment: p}
	case p.Lease.Live(b.Now) || p.Lease.Owner != "" && b.Held != nil && b.Held(p.ID):
		return Begun{How: Busy, Payment: p}
	case p.State != Settled && !p.Sendable(b.Now):
		return Begun{How: Expired, Payment: p}
	}
	p = p.Clone()
	if p.Lease.Owner != "" {
		p.Lapse()
	}
	p.Grant(b.Owner, b.Now.Add(LeaseTime))
	if p.State != Settled {
		return Begun{How: Driven, Payment: p}
	}
	return Begun{How: Resent, Payment: p}
}

// check refuses when the reservation would pass its limit.
func check(v BeginView, l Limit) error {
	if l.Max == nil || failpoint.Off(failpoint.Limits) {
		return nil
	}
	have, err := v.Counter(l.Counter)
	if err != nil {
		return err
	}
	if sum, overflow := have.Add(l.Amount); overflow || sum.Cmp(*l.Max) > 0 {
		return l.Refusal
	}
	return nil
}
