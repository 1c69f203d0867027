package pay

import (
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Begin asks a store to journal one call's payment: the earlier payment that the call repeats, or,
// if the judgement allows it, the proposed row. A store decides and writes in one transaction.
type Begin struct {
	Now   time.Time
	Owner string // the process that would hold the lease

	CallIdentity
	Judgement
	Proposal

	// Redirects places the call among the redirects of paid answers; nil: it cannot be on their way.
	Redirects *Redirects

	// Dry: nothing is journaled. What would be is Quoted.
	Dry bool

	attempt uint64 // the next one under the idempotency key; found by Decide
}

// CallIdentity recognizes the repeats of a call, and says what a repeat gets.
type CallIdentity struct {
	KeyID          string
	IdempotencyKey string
	// Order holds the mark of the idempotency key, which payments have that cannot have its nonce; 0: there is no key.
	Order       uint64
	Fingerprint Hash
	Identity    Hash
	// Earlier holds both as earlier versions have made and stored them, where that differs; zero: it does not.
	Earlier struct{ Fingerprint, Identity Hash }
	// Terms holds the terms of the challenge; zero: it offers nothing that can be paid.
	Terms Terms
	// First holds those of the first offer that could be paid, had the wallets enough.
	First Terms
	// Anew: the call repeats no settled payment, unless it has an idempotency key.
	Anew bool
	// Retried: the call repeats an earlier one by its own word, so Anew does not count.
	Retried bool
	// Again: the call gets this payment and no new one.
	Again string
	// Arrival holds when the call began; nil: that tells it from no other.
	Arrival *Arrival
	// Answered returns the payment whose answer the call may have come to repeat, "" if there is none. The call gets
	// it, if that lives. It is asked after VisitAwaited, since an answer counts here before its lease is given back.
	// nil: none.
	Answered func() string
	// Resend: a repeat of a settled payment sends the payload once more (proxy, transport). Without
	// it a repeat gets the stored answer (REST).
	Resend bool
	// Attended reports whether a payment belongs to another caller on this node (docs/design/calls.md,
	// repeats without a key).
	Attended func(paymentID string) bool
	// Gripped reports whether this node has a grip on a payment's lease, whatever the clock
	// says of the lease. A clock that jumped must not let a second send begin.
	Gripped func(paymentID string) bool
}

// Judgement holds the limits that a new payment must keep, and a repeat need not.
type Judgement struct {
	// Declined refuses the call's new payment, if it is set. Place, if it has a bound, is checked
	// before it.
	Declined error
	// Policy is in force for the call, in the key's PolicyRevision; nil: no limits. The call is
	// judged anew if the key has got another revision meanwhile.
	Policy         *policy.Policy
	PolicyRevision uint64
	// Parent is the parent of the call's key, whose budgets must have room, too; nil: it has none.
	Parent *Parent
	// Paused holds the key's pause in its PolicyRevision, nil for none.
	Paused *Pause
	// HostPaused holds the pause of the call's host for the key in its PolicyRevision, nil for none.
	HostPaused *Pause
	// Unpaused: no pause holds back the call's payment.
	Unpaused bool
	// OrganizationID owns the places that the call counts for; "": its key is unclaimed. If its
	// plan is not Plan any more, the call is judged anew.
	OrganizationID string
	Plan           PlanName
	// Place holds the monthly place. It has no Counter for a key that has none.
	Place Limit
	// Revival bounds the place that a doubted payment takes again, if Place has no bound. Unclaimed
	// does for a place from before the key was linked.
	Revival   Limit
	Unclaimed money.Amount
	// MaxUnanswered bounds the host's open, unanswered payments; zero: no bound.
	MaxUnanswered int
	// Failures bound the key's attempts that ended refused or void; zero: no bound.
	Failures FailureBounds
	// Hours: the key's spending is counted by the hour, too, as at least one door's policy wants it.
	Hours bool
	// PerMinute bounds the payments that the key begins in a minute; 0: no bound, or Limits have one.
	PerMinute int
}

// Proposal holds the row of a new payment.
type Proposal struct {
	// New is nil if the challenge cannot be paid at all.
	New *Payment
	// Beside lists the payees of New that its terms do not name.
	Beside []Payee
	// Limits lists the reservations of New beside Place and its spending. They are checked in order.
	Limits []Limit
	// WalletOwner is the key that owns New.WalletID. If the call's key may not use that wallet any
	// more, the call is judged anew. "": it is not looked at.
	WalletOwner string
	// KeyName names the key in notices of what the payment brings about. "": there are none.
	KeyName string
	// Approval is the row that asks a person about New, if its policy needs one for it; nil: it never does.
	Approval *Approval
	// Suspicion says why a person should see New, unless the key has paid its host.
	Suspicion Suspicion
	// Approved is the approval that the call has waited for, nil for none: New has exactly its terms, or
	// needs another one.
	Approved *Approval
}

// How says what a call got.
type How int

// The ways a call can go on.
const (
	Created    How = iota // a new payment, leased to the caller
	Driven                // an open one: the same payload is sent again, leased to the caller
	Resent                // a settled one to be sent once more, or an unanswered one to be answered again; leased
	Stored                // a settled one: the stored answer, without a lease
	Busy                  // another attempt is sending the payment: wait and ask again
	Expired               // open, and too late to send its payload again
	Spent                 // a settled one to be sent once more, whose payload was lost: see [Payment.Reconciled]
	Quoted                // nothing, because the call was dry: the payment that it would have made or repeated
	Unapproved            // nothing, because a person must approve the payment first: see [Begun.Approval]
)

// Begun holds what Begin decided. Payment is the row as written.
type Begun struct {
	How     How
	Payment *Payment
	// Revived names what a driven payment was before, if it was doubted: VerdictRefused or
	// VerdictVoid.
	Revived Verdict
	// Notices are written with a new payment, or with the approval that an unapproved one asks for, by [WriteNotices].
	Notices []Notice
	// Approval is the one that allowed a created payment, or that an unapproved one waits for; else nil. Payment
	// is nil for an unapproved one. Asked: its approval is new.
	Approval *Approval
	Asked    bool
}

// Made returns the new payment that the call made, or would have made if it was not dry; nil: it made none.
func (b *Begin) Made(begun Begun) *Payment {
	if p := begun.Payment; p != nil && b.New != nil && p.ID == b.New.ID && (begun.How == Created || begun.How == Quoted) {
		return p
	}
	return nil
}

// Ask returns the approval as the store must write it in the transaction of the decision; nil: nothing.
func (b Begun) Ask() *Approval {
	if b.How == Created || b.How == Unapproved && b.Asked {
		return b.Approval
	}
	return nil
}

// Leased reports whether the caller now holds the payment's lease.
func (b Begun) Leased() bool { return b.How == Created || b.How == Driven || b.How == Resent }

// BeginView is read by the decision. All of it comes from the transaction that writes.
type BeginView interface {
	// ByIdempotencyKey finds the payment that [Payment.LivesUnder] the two, of several the last one, or nil. The
	// number of the others must not matter to its cost.
	ByIdempotencyKey(keyID, idempotencyKey string) (*Payment, error)
	// VisitAwaited calls visit for the ids of payments that are [Payment.Awaited] with this
	// identity and whose AwaitedUntil is after now, until visit returns false.
	VisitAwaited(keyID string, identity Hash, now time.Time, visit func(id string) (bool, error)) error
	// Payment loads a payment.
	Payment(id string) (*Payment, error)
	// CountUnanswered counts payments that [Payment.HoldsHost] and whose ValidBefore is
	// after now; counting may stop at max.
	CountUnanswered(keyID, host string, now time.Time, max int) (int, error)
	// Pause returns the pause of everything, nil for none.
	Pause() (*Pause, error)
	// PolicyRevision returns a key's: see [Key.PolicyRevision]. It is 0 for an unknown key.
	PolicyRevision(keyID string) (uint64, error)
	// MayUse reports whether a wallet is live and the key's own, or lent to the key by its owner.
	MayUse(keyID, owner, walletID string) (bool, error)
	// Plan returns an organization's plan, PlanFree for an unknown organization.
	Plan(organizationID string) (PlanName, error)
	// Counter reads a counter.
	Counter(c Counter) (money.Amount, error)
	// VisitCounters calls visit for all counters above zero whose names begin with a prefix, until
	// visit returns false. Its cost must not grow with the number of the others.
	VisitCounters(prefix Counter, visit func(c Counter, amount money.Amount) (more bool)) error
	// Paid reports whether the key has paid a host: there is a spend event. With dialed, it is that of a
	// payment that is [Payment.Dialed], among the PaidLooked newest ones.
	Paid(keyID, host string, dialed bool) (bool, error)
	// Mark finds a mark by its [MarkName]; zero: it is not known. One whose time has passed may be
	// returned.
	Mark(name string) (NoticeMark, error)

	// Attempts returns the highest [Payment.Attempt] that payments under an idempotency key have,
	// retired and removed ones as well; 0: none.
	Attempts(keyID, idempotencyKey string) (uint64, error)
	// Nonce returns the nonce of an attempt. It is derived with a secret of the store, so outsiders
	// cannot foresee it. It is the same each time, also in a store restored from a backup.
	Nonce(keyID, idempotencyKey string, attempt uint64) x402.Nonce
	// Restored returns what must be reconciled, or nil: see [Reconciler].
	Restored() (*Restore, error)
	// Reconciled finds the payment that is [Payment.Reconciled] and has the Nonce of an
	// attempt under an idempotency key, of several the last attempt; nil and 0: none. The
	// number of attempts is not bounded, and must not matter to its cost.
	Reconciled(keyID, idempotencyKey string) (p *Payment, attempt uint64, err error)

	// Approval returns the newest unused approval of a purchase; nil: none.
	Approval(keyID string, purchase Hash) (*Approval, error)
	// CountPendingApprovals counts a key's approvals without an answer that expire after now; counting
	// may stop at max.
	CountPendingApprovals(keyID string, now time.Time, max int) (int, error)
}

// Decide finds what the call gets. When Begun.Leased, the store writes the payment and
// the changes. It writes the approval that Begun.Ask returns. Otherwise it writes nothing.
//
// Repeats are served whatever the policy says by now: what they get is journaled already.
func (b *Begin) Decide(v BeginView) (Begun, []CounterChange, error) {
	begun, changes, err := b.decide(v)
	if err == nil && b.Dry && begun.How == Unapproved {
		need := &ApprovalError{Approval: *begun.Approval}
		if begun.Asked {
			need.Approval = need.Approval.unasked()
		}
		return Begun{}, nil, need
	}
	if err == nil && b.Dry {
		return Begun{How: Quoted, Payment: begun.Payment}, nil, nil
	}
	return begun, changes, err
}

func (b *Begin) decide(v BeginView) (Begun, []CounterChange, error) {
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
	judged, err := b.judge(v)
	if err != nil {
		return Begun{}, nil, err
	}
	if judged.unapproved != nil {
		return b.unapproved(judged.unapproved), nil, nil
	}
	begun, changes := b.write(v, judged)
	return begun, changes, nil
}

// write completes the proposed row with what it reserves, its nonce and its lease.
func (b *Begin) write(v BeginView, j judged) (Begun, []CounterChange) {
	p := b.New.Clone()
	if b.attempt > 0 {
		p.Attempt = b.attempt
		if !p.Bound {
			p.Authorization.Nonce = v.Nonce(b.KeyID, b.IdempotencyKey, b.attempt)
		}
	}
	changes := j.starts
	reserve := func(r Reservation) {
		if r.Counter == "" {
			return
		}
		p.Reservations = append(p.Reservations, r)
		changes = append(changes, CounterChange{Counter: r.Counter, Amount: r.Amount, Add: true})
	}
	reserve(b.Place.Reservation)
	for _, l := range b.Limits {
		reserve(l.Reservation)
	}
	for _, r := range j.spends {
		reserve(r)
	}
	p.Grant(b.Owner, b.Now.Add(LeaseTime))
	begun := Begun{How: Created, Payment: p, Notices: j.tells}
	if j.approved != nil {
		begun.Approval = j.approved.use(p)
	}
	return begun, changes
}
