package pay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
)

// Bounds of approvals per key. A key that asks for more than MaxPendingApprovals at once is declined.
// Stores drop the oldest approvals that are over, once a key has KeptApprovals.
const (
	MaxPendingApprovals = 100
	KeptApprovals       = 1000
)

// The rules by which a payment waits for an approval.
const (
	RuleApprovalAbove   = "approval-above"
	RuleApprovalNewHost = "approval-new-host"
	// RuleApprovalLookAlike stops a payment to a host that can be taken for another one: see [Suspicion].
	RuleApprovalLookAlike = "approval-look-alike"
	// RuleApprovalOtherSite stops one whose terms, or whose URL, come from another site.
	RuleApprovalOtherSite = "approval-other-site"
)

// Approval asks a person about a payment that its key may make only once a person has agreed to exactly
// its terms. It allows one payment. It overrides no other rule: the payment keeps all of them when it is
// made.
type Approval struct {
	ID             string      `json:"ID"` // UUIDv7
	KeyID          string      `json:"KeyID"`
	OrganizationID string      `json:"OrganizationID,omitempty"` // of the key when it asked
	Door           policy.Door `json:"Door"`
	Task           string      `json:"Task,omitempty"`
	Method         string      `json:"Method,omitempty"` // "" on REST
	Host           string      `json:"Host,omitempty"`   // like Payment.Host
	URL            string      `json:"URL,omitempty"`    // without userinfo; on REST it is the caller's word
	Terms          Terms       `json:"Terms"`
	Currency       string      `json:"Currency"`
	// Purchase must be that of the repeat: it is made of the key, the request and the terms.
	Purchase Hash `json:"Purchase"`
	// Rule stops the payment, for a reason that Detail tells people.
	Rule    string    `json:"Rule"`
	Detail  string    `json:"Detail"`
	Created time.Time `json:"Created"`
	Expires time.Time `json:"Expires"` // of an answer, too

	Answer   ApprovalAnswer `json:"Answer,omitempty"`
	Answered time.Time      `json:"Answered,omitzero"`
	By       Actor          `json:"By,omitzero"`
	Reason   string         `json:"Reason,omitempty"`

	PaymentID string    `json:"PaymentID,omitempty"` // the one payment that it has allowed
	Used      time.Time `json:"Used,omitzero"`
}

// ApprovalAnswer is a person's answer; "": there is none.
type ApprovalAnswer string

// The answers. They are stored.
const (
	Approved ApprovalAnswer = "approved"
	Denied   ApprovalAnswer = "denied"
)

// ApprovalState says what has become of an approval.
type ApprovalState string

// The states of approvals.
const (
	ApprovalPending  ApprovalState = "pending"
	ApprovalApproved ApprovalState = "approved" // its payment may be made
	ApprovalDenied   ApprovalState = "denied"   // the same purchase is declined until it expires
	ApprovalExpired  ApprovalState = "expired"  // without an answer, or before its payment was made
	ApprovalUsed     ApprovalState = "used"     // its payment has begun
)

// State returns the state at a time. A denied approval stays denied.
func (a Approval) State(now time.Time) ApprovalState {
	switch {
	case !a.Used.IsZero():
		return ApprovalUsed
	case a.Answer == Denied:
		return ApprovalDenied
	case a.timeOver(now):
		return ApprovalExpired
	case a.Answer == Approved:
		return ApprovalApproved
	}
	return ApprovalPending
}

// Over reports whether the approval decides about no payment any more.
func (a Approval) Over(now time.Time) bool { return !a.Used.IsZero() || a.timeOver(now) }

// timeOver reports whether the approval has expired. One that never had any time stays expired, also for
// a clock that was put back.
func (a Approval) timeOver(now time.Time) bool {
	return !a.Expires.After(a.Created) || !now.Before(a.Expires)
}

// Restored returns the approval as a store has it that comes from a backup: it may have been used since,
// so it allows nothing any more.
func (a Approval) Restored() Approval {
	if a.Used.IsZero() {
		a.Expires = a.Created
	}
	return a
}

// use marks the approval as used by a payment.
func (a Approval) use(p *Payment) *Approval {
	a.PaymentID, a.Used = p.ID, p.Created
	return &a
}

// ApprovalQuery selects approvals.
type ApprovalQuery struct {
	// KeyID and OrganizationID select those of a key, or of the keys that belong to an organization now.
	// At most one of them is set; none: all.
	KeyID, OrganizationID string
	State                 ApprovalState // "": any
	Before                string        // id of the last approval of the page before; "" for the first
	Limit                 int           // at most 1,000
	Now                   time.Time     // of State; zero: by the store's clock
}

// Wants reports whether the query selects an approval by its state.
func (q ApprovalQuery) Wants(a Approval) bool { return q.State == "" || a.State(q.Now) == q.State }

// ApprovalAnswering is a person's answer to an approval. The context names the person, see WithActor.
type ApprovalAnswering struct {
	ID     string
	Answer ApprovalAnswer
	Reason string // of at most 200 characters on one line
	At     time.Time
}

var errNoActor = errors.New("pay: an approval is answered by a person, and the context names none")

// Apply answers an approval, or reports that it has the same answer already. Stores call it in the
// transaction that writes the answer: ErrApprovalClosed, *InputError.
func (q ApprovalAnswering) Apply(ctx context.Context, a Approval) (_ Approval, changed bool, err error) {
	by, named := ActorOf(ctx)
	switch {
	case !named:
		return a, false, errNoActor
	case q.Answer != Approved && q.Answer != Denied:
		return a, false, &InputError{Field: "answer", Reason: "approved or denied"}
	case q.Reason != "" && !oneLine(q.Reason, maxReason):
		return a, false, &InputError{Field: "reason", Reason: fmt.Sprintf("at most %d characters on one line", maxReason)}
	case a.Answer == q.Answer && a.By == by:
		return a, false, nil
	case a.State(q.At) != ApprovalPending:
		return a, false, ErrApprovalClosed
	}
	a.Answer, a.Answered, a.By, a.Reason = q.Answer, q.At.UTC(), by, q.Reason
	return a, true, nil
}

// ApprovalReader reads approvals.
type ApprovalReader interface {
	// Approval finds an approval: ErrApprovalNotFound.
	Approval(ctx context.Context, id string) (Approval, error)
	// Approvals lists approvals, newest first, at a cost of those that it lists. Pending ones come by the
	// end of their time, the soonest first. ErrApprovalNotFound for a q.Before that is not there.
	Approvals(ctx context.Context, q ApprovalQuery) ([]Approval, error)
}

// Approvals keeps approvals. Begin writes them: see [Begun.Approval].
type Approvals interface {
	ApprovalReader

	// AnswerApproval writes a person's answer: see [ApprovalAnswering.Apply]. The audit has it.
	// ErrApprovalNotFound.
	AnswerApproval(ctx context.Context, q ApprovalAnswering) (Approval, error)
}

// approve finds the approval that a new payment needs. held is set if the payment must wait. Neither is
// set for a payment that needs none.
func (b *Begin) approve(v BeginView, j *judged) (err error) {
	if b.Approval == nil || b.Policy == nil {
		return nil
	}
	ask := *b.Approval
	if ask.Rule, ask.Detail, err = asks(*b.Policy, v, b.New); err != nil {
		return err
	}
	if ask.Rule, ask.Detail, err = b.suspect(v, ask.Rule, ask.Detail); err != nil {
		return err
	}
	switch waited := b.Approved; {
	case waited != nil && waited.Purchase != ask.Purchase:
		// A person has agreed to other terms, so the rules alone do not let these pass.
		ask.Rule, ask.Detail = waited.Rule, waited.changed(ask.Terms)
	case waited == nil && ask.Rule == "":
		return nil
	}
	ask.Detail += b.New.more(b.Beside)
	a, err := v.Approval(b.KeyID, ask.Purchase)
	if err != nil {
		return err
	}
	if a != nil && a.Over(b.Now) {
		a = nil
	}
	if ask.Rule == "" && (a == nil || a.State(b.Now) != ApprovalApproved) {
		return nil // the rules have changed since the call began to wait
	}
	if a != nil {
		switch a.State(b.Now) {
		case ApprovalApproved:
			j.approved = a
			return nil
		case ApprovalDenied:
			return &ApprovalError{Approval: *a}
		case ApprovalPending:
			j.unapproved = a
			return nil
		case ApprovalUsed, ApprovalExpired: // it is over: see above
		}
	}
	n, err := v.CountPendingApprovals(b.KeyID, b.Now, MaxPendingApprovals)
	if err == nil && n >= MaxPendingApprovals {
		err = &ApprovalError{Approval: ask.unasked(), Reason: fmt.Sprintf(
			"%d payments of this key wait for an approval already, so no person was asked about this one", n)}
	}
	j.unapproved = &ask
	return err
}

// more tells what the terms of a new payment do not: its other payees, and gas.
func (p *Payment) more(beside []Payee) (text string) {
	if len(beside) > 0 {
		parts := make([]string, len(beside))
		for i, one := range beside {
			parts[i] = fmt.Sprintf("%s to %s", money.Text(one.Amount), one.To)
		}
		text = "; of the price go " + strings.Join(parts, ", ")
	}
	if gas := p.gas(); !gas.IsZero() {
		text += fmt.Sprintf("; the wallet pays up to %s for gas beside the price", money.Text(gas))
	}
	return text
}

// changed tells that a seller asks for other terms than those that a person was asked about.
func (a Approval) changed(now Terms) string {
	words := func(t Terms) string { return fmt.Sprintf("%s to %s on %s", money.Text(t.Amount), t.PayTo, t.Network) }
	return fmt.Sprintf("the seller asks for %s now; a person has approved %s", words(now), words(a.Terms))
}

// unapproved says that the new payment waits until a person answers. A new approval comes with a notice.
func (b *Begin) unapproved(a *Approval) Begun {
	begun := Begun{How: Unapproved, Approval: a, Asked: a.ID == b.Approval.ID}
	if begun.Asked && b.KeyName != "" {
		begun.Notices = []Notice{ApprovalNotice(b.KeyName, *a)}
	}
	return begun
}

// unasked returns the approval without an id: it is not in the store.
func (a Approval) unasked() Approval {
	a.ID = ""
	return a
}

// paidHosts tells whether a key has paid a host before.
type paidHosts interface {
	Paid(keyID, host string, dialed bool) (bool, error)
}

// asks returns the rule by which a payment needs an approval; "": none does.
//
// On REST the host is only the caller's word. There, a key without allowed payees needs an approval for
// each payment.
func asks(pol policy.Policy, v paidHosts, row *Payment) (rule, detail string, err error) {
	price := row.Terms.Amount // gas is no price
	if policy.Above(price, pol.RequireApprovalAbove) {
		return RuleApprovalAbove, fmt.Sprintf("%s is above the %s that this key may pay without an approval", money.Text(price), money.Text(*pol.RequireApprovalAbove.Max())), nil
	}
	if !pol.AsksAboutHosts() {
		return "", "", nil
	}
	switch {
	case row.Host == "":
		return RuleApprovalNewHost, "the host is not known, and this key needs an approval for hosts that it has never paid", nil
	case row.Door == policy.DoorAPI && len(pol.AllowPayees) == 0:
		return RuleApprovalNewHost, "on REST the host is only the caller's word, and this key needs an approval for hosts that it has never paid", nil
	}
	paid, err := v.Paid(row.KeyID, row.Host, row.Door.Dials())
	if err != nil || paid {
		return "", "", err
	}
	return RuleApprovalNewHost, fmt.Sprintf("this key has never paid %s, and needs an approval for the first payment to a host", row.Host), nil
}

// ApprovalError: a person must approve the payment first, or has denied it. Nothing was journaled.
type ApprovalError struct {
	Approval Approval // without an ID, no person was asked
	Reason   string   // why the call did not wait for the answer; "": its time to wait was over
	expired  bool     // the approval's time was over while the call waited
}

// Rule returns the stable word of the refusal.
func (e *ApprovalError) Rule() string {
	if e.Approval.Answer == Denied {
		return "approval-denied"
	}
	return "approval-needed"
}

// Detail tells agents what to do.
func (e *ApprovalError) Detail() string {
	a := e.Approval
	if a.Answer == Denied {
		said := ""
		if a.Reason != "" {
			said = ": " + a.Reason
		}
		return fmt.Sprintf("a person has denied this payment (approval %s)%s; the same request is declined until %s", a.ID, said, Moment(a.Expires))
	}
	if a.ID == "" {
		if e.Reason == "" {
			return a.Detail + "; a person must approve this payment"
		}
		return a.Detail + "; " + e.Reason
	}
	why := ""
	if e.Reason != "" {
		why = e.Reason + "; "
	}
	if e.expired {
		return fmt.Sprintf("%sa person must approve this payment (approval %s): %s. Repeat the same request to ask again", why, a.ID, a.Detail)
	}
	return fmt.Sprintf("%sheld, because a person must approve this payment (approval %s): %s. Ask again with the same request, until %s", why, a.ID, a.Detail, Moment(a.Expires))
}

func (e *ApprovalError) Error() string { return e.Rule() + ": " + e.Detail() }

func (*ApprovalError) ErrorCode() ErrorCode { return CodeApproval }
