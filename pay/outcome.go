package pay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Outcome is one atomic change to a journaled payment. Stores apply it with [Payment.Apply].
type Outcome struct {
	PaymentID string
	// Fence names the lease under which it was learned. Without one (0) it may only settle or note.
	Fence   uint64
	At      time.Time
	Verdict Verdict
	// Doubted: a void that the chain may contradict. See [Payment.Doubted]. A refusal always is.
	Doubted bool
	// Stage names the call that our facilitator refused; only with VerdictRefused.
	Stage Stage

	Transaction string // 0x + 64 hex, or ""
	// ClaimedTransaction: a receipt claims it. If another payment has it: ErrTransactionKnown.
	ClaimedTransaction bool
	// Moved holds what has moved, by the chain's word; zero: the amount of the terms.
	Moved money.Amount
	// Evident: the chain shows the transfer, or that none can come any more. Or there is no RPC that could
	// tell. What is held of the wallet is given back.
	Evident bool
	// EventID names the spend event, for VerdictSettled and VerdictDisputed.
	EventID string

	Reason string          // kept as the payment's reason unless empty
	Detail json.RawMessage // kept as the payment's detail unless nil
	Note   string
	// SellerSaid is kept as the seller's last words unless empty.
	SellerSaid string

	Signature *x402.Signature // stored when the payment has none yet
	Receipted bool            // the seller's receipt was posted
	// SignedReceipt is kept with a settled payment that has none yet.
	SignedReceipt json.RawMessage
	// Resolution: the verdict is an operator's. It needs the lease, and [Payment.Resolvable].
	Resolution *Resolution
	// Canceling replaces the payment's. It needs no lease, and [Payment.Cancelable].
	Canceling *Canceling
	// Hearsay: it was only said that the authorization is used. Of one that is being canceled that says
	// nothing.
	Hearsay bool
	// Check moves recovery's next check; zero leaves it or, with Checked, ends the checks.
	Check   time.Time
	Checked bool
	Retire  bool // drop payload and idempotency key

	// Release ends the lease named by Fence; Answered says how the caller fared.
	Release  bool
	Answered bool
	// Undelivered: the paid request brought nothing; nil: it did, or nothing is known.
	Undelivered *Undelivered
	// Heard is the answer that the release is about; nil: there was none, or purser has not seen it.
	Heard *Heard

	// KeyName names the key in notices of the outcome. "": there are none. Earlier holds what such a notice tells of the
	// payments before.
	KeyName string
	Earlier Deliveries
}

// Effects holds the writes beside the changed row, which a store makes in the same transaction.
type Effects struct {
	Counters []CounterChange
	Event    *SpendEvent
	// Was holds the state before, so that observers see transitions once.
	Was State
	// Contradicted: the payment was refused or void, and its money has moved all the same.
	Contradicted bool
	// ForNothing: since this outcome, the payment is paid and not delivered.
	ForNothing bool
	// Notices are written with the row by [WriteNotices].
	Notices []Notice
}

// Claims reports whether the outcome settles by a transaction that is only claimed.
func (o Outcome) Claims() bool {
	return o.Verdict == VerdictSettled && o.ClaimedTransaction && o.Transaction != ""
}

// Apply changes the payment as the outcome says and returns what else must change. A store may run
// it again on a fresh copy of the row. A settled outcome always wins. Every other one needs the
// current fence: ErrLeaseLost.
func (p *Payment) Apply(o Outcome) (Effects, error) {
	fx := Effects{Was: p.State}
	if o.Hearsay && p.Canceling != nil {
		o.Verdict = Unclear
	}
	was := *p
	held := o.Fence != 0 && p.Lease.Fence == o.Fence && p.Lease.Owner != ""
	observing := o.Verdict == Unclear && !o.Release && !o.Retire && o.Signature == nil
	if o.Verdict != VerdictSettled && !held && !observing {
		return Effects{}, fmt.Errorf("payment %s, outcome %q under fence %d: %w", p.ID, o.Verdict, o.Fence, ErrLeaseLost)
	}
	if o.Resolution != nil {
		if err := p.resolve(o, held); err != nil {
			return Effects{}, err
		}
	}
	if o.Canceling != nil {
		if err := p.Cancelable(o.At); err != nil {
			return Effects{}, err
		}
		c := *o.Canceling
		p.Canceling = &c
	}
	if err := p.applyVerdict(o, held, &fx); err != nil {
		return Effects{}, err
	}
	if o.Evident {
		fx.Counters = append(fx.Counters, p.evident()...)
	}
	if o.Signature != nil && p.Signature == nil && !p.Retired {
		sig := *o.Signature
		p.Signature = &sig
	}
	if o.Detail != nil && (held || o.Verdict == VerdictSettled) {
		p.Detail = o.Detail
	}
	if o.SignedReceipt != nil && p.SignedReceipt == nil && p.State == Settled {
		p.SignedReceipt = o.SignedReceipt
	}
	p.note(o.At, o.Note)
	p.SellerSaid = cmp.Or(words.OfSeller(o.SellerSaid), p.SellerSaid)
	if o.Receipted {
		p.Receipted = true
		p.Unanswered, p.Answered = false, true
	}
	if !o.Check.IsZero() || o.Checked {
		p.Check = o.Check
	}
	if o.Checked {
		p.Checks++
	}
	if o.Retire {
		fx.Counters = append(fx.Counters, p.retire()...)
	}
	if o.Release && held {
		p.Lease.Owner, p.Lease.Until = "", time.Time{}
		p.answer(o.Answered)
		p.deliver(was, o)
	}
	p.tellAnswer(was, o, &fx)
	if fx.ForNothing = p.PaidForNothing() && !was.PaidForNothing(); fx.ForNothing && o.KeyName != "" {
		fx.Notices = append(fx.Notices, undeliveredNotice(o.KeyName, p, o.Earlier, o.At))
	}
	return fx, nil
}

func (p *Payment) applyVerdict(o Outcome, held bool, fx *Effects) error {
	switch o.Verdict {
	case Unclear:
		if p.State == Open && o.Reason != "" && held {
			p.Reason = o.Reason
		}
	case VerdictSettled:
		p.settle(o, fx)
	case VerdictVoid:
		p.void(o, fx)
	case VerdictRefused:
		if p.State == Open && !p.Refused {
			p.Refused, p.Doubted, p.Reason = true, true, o.Reason
			if o.Stage != "" && p.RefusedAt != StageSettle {
				p.RefusedAt = o.Stage
			}
			fx.Counters = append(p.release(AtRefused), p.fail()...)
		}
	case VerdictRefusedExpired:
		if p.Doubted {
			p.Doubted = false
			fx.Counters = p.release(AtRefusedExpired)
		}
	case VerdictUnresolved:
		if p.State == Open && !p.Refused && !p.Unresolved {
			p.Unresolved = true
			fx.Counters = append(p.release(AtUnresolved), p.fail()...)
			if o.KeyName != "" {
				fx.Notices = append(fx.Notices, unresolvedNotice(o.KeyName, p, o.At))
			}
		}
	case VerdictConfirmed:
		// A dispute is final: past the validity, at a safe block, nothing can move any more.
		if p.State == Settled && !p.Disputed {
			if p.misbooked(o) {
				p.remark(o.At, "the chain has moved "+o.Moved.String()+", and "+p.Moved().String()+" was booked")
			}
			if !o.Moved.IsZero() {
				fx.Counters = p.recharge(o.Moved)
			}
			p.Confirmed = true
			if o.Transaction != "" && o.Transaction != p.Transaction {
				if p.Transaction != "" {
					p.remark(o.At, "the chain has another transaction than was claimed: "+p.Transaction)
				}
				p.Transaction = o.Transaction
			}
		}
	case VerdictDisputed:
		if p.State == Settled && !p.Disputed && !p.Confirmed {
			p.Disputed, p.Reason = true, o.Reason
			fx.Counters = p.fail()
			e := p.event(o)
			e.Corrects = p.EventID
			fx.Event = &e
			if o.KeyName != "" {
				fx.Notices = append(fx.Notices, disputedNotice(o.KeyName, p, o.At))
			}
		}
	default:
		return fmt.Errorf("payment %s: unknown verdict %q", p.ID, o.Verdict)
	}
	return nil
}

// resolve applies an operator's verdict. Unlike evidence, it never wins over other writers: it
// counts only under the lease, and only where evidence is missing.
func (p *Payment) resolve(o Outcome, held bool) error {
	if !held {
		return fmt.Errorf("payment %s, resolved under fence %d: %w", p.ID, o.Fence, ErrLeaseLost)
	}
	if o.Verdict != Verdict(o.Resolution.As) || o.Verdict != VerdictSettled && o.Verdict != VerdictVoid {
		return fmt.Errorf("payment %s: resolved as %q by verdict %q", p.ID, o.Resolution.As, o.Verdict)
	}
	if err := p.Resolvable(o.At); err != nil {
		return err
	}
	r := *o.Resolution
	p.Resolution = &r
	return nil
}

// void closes the payment without money moved. A doubted void gives back what a refusal does.
func (p *Payment) void(o Outcome, fx *Effects) {
	switch {
	case p.State == Open:
		p.close(Void, o)
		p.Unresolved = false
		if p.Doubted = o.Doubted; p.Doubted {
			fx.Counters = p.release(AtRefused)
		} else {
			fx.Counters = p.release(AtVoid)
		}
		fx.Counters = append(fx.Counters, p.fail()...)
	case p.State == Void && p.Doubted && !o.Doubted:
		p.Doubted = false
		fx.Counters = p.release(AtVoid)
	case p.State == Void && p.Resolution != nil:
		p.Resolution.Proven = true
	}
}

func (p *Payment) settle(o Outcome, fx *Effects) {
	if p.State == Settled {
		if p.Transaction == "" {
			p.Transaction = o.Transaction
		} else if o.Transaction != "" && o.Transaction != p.Transaction {
			p.note(o.At, "another transaction was named for this payment: "+o.Transaction)
		}
		return
	}
	switch {
	case p.State == Void:
		p.remark(o.At, "settled after it was void")
		fx.Contradicted = !o.Receipted || o.Evident // a receipt that the key has posted raises no alarm
	case p.Refused:
		p.remark(o.At, "settled after it was refused")
		fx.Contradicted = !o.Receipted || o.Evident
	}
	p.close(Settled, o)
	p.Refused, p.Doubted, p.Unresolved = false, false, false
	p.Transaction = o.Transaction
	at := AtSettled
	if o.Evident {
		at |= AtEvidence
	}
	fx.Counters = append(p.release(at), p.retake(at)...)
	fx.Counters = append(fx.Counters, p.move(at)...)
	if o.Moved != p.Terms.Amount { // budgets keep the rest: the chain may take this block back
		p.Charged = o.Moved
	}
	// A free answer is no price: it would let the next one ask anything.
	if p.Price != "" && !p.Terms.Amount.IsZero() {
		fx.Counters = append(fx.Counters, CounterChange{Counter: p.Price, Amount: p.Paid(), Set: true})
	}
	p.EventID = o.EventID
	e := p.event(o)
	fx.Event = &e
}

// misbooked reports whether a safe block tells of another amount than the payment was settled with: that
// was the word of a facilitator, or of a block that the chain took back.
func (p *Payment) misbooked(o Outcome) bool {
	return o.Verdict == VerdictConfirmed && !p.Confirmed && !o.Moved.IsZero() && o.Moved != p.Moved()
}

// revive opens a doubted payment again for a repeat, and takes back what was given away.
func (p *Payment) revive() []CounterChange {
	p.State, p.Closed, p.Reason = Open, time.Time{}, ""
	p.Refused, p.Doubted = false, false
	return p.retake(0)
}

func (p *Payment) close(to State, o Outcome) {
	p.State, p.Closed, p.Reason = to, o.At.UTC(), o.Reason
}

func (p *Payment) event(o Outcome) SpendEvent {
	return SpendEvent{
		ID: o.EventID, KeyID: p.KeyID, PaymentID: p.ID, Amount: p.Moved(), Currency: p.Currency,
		RequestURL: p.RequestURL, Task: p.Task, Host: p.Host, Created: o.At.UTC(),
	}
}

// waitsForReceipt reports whether only a receipt counts as an answer: the client still has to buy.
func (p *Payment) waitsForReceipt() bool {
	return p.Door == policy.DoorAPI && p.Terms.Settlement == SettleSeller && !p.Receipted && p.Lives()
}

// answer notes how the caller fared when the lease ended.
func (p *Payment) answer(ok bool) {
	if ok && !p.waitsForReceipt() {
		p.Answered, p.Unanswered = true, false
	} else if !p.Answered {
		p.Unanswered = true
	}
}

// tellAnswer counts the payments in a row of a key to a host that ended without an answer. Of one that
// waits for the client's word nothing is known yet.
func (p *Payment) tellAnswer(was Payment, o Outcome, fx *Effects) {
	switch {
	case o.KeyName == "" || p.Host == "":
	case p.Answered && !was.Answered:
		fx.Notices = append(fx.Notices, Notice{At: o.At, Run: unansweredMark(p)})
	case p.Unanswered && !was.Unanswered && !p.waitsForReceipt():
		fx.Notices = append(fx.Notices, unansweredNotice(o.KeyName, p, o.At))
	}
}

// Lapse ends a lease that was not renewed, or whose process is gone. No answer is known of.
func (p *Payment) Lapse() {
	p.Lease.Owner, p.Lease.Until = "", time.Time{}
	if !p.Answered {
		p.Unanswered = true
	}
}

// Grant gives the lease, which the caller has found free, to an owner under a new fence.
func (p *Payment) Grant(owner string, until time.Time) {
	p.Lease = Lease{Owner: owner, Fence: p.Lease.Fence + 1, Until: until}
}

// retire drops what only repeats need. Nothing more is looked for, so that what the payment holds beside
// its budgets is given back.
func (p *Payment) retire() []CounterChange {
	if p.State != Settled && p.Lives() && !p.Unresolved {
		return nil
	}
	p.Retired, p.Signature, p.Doubted = true, nil, false
	p.Offer = x402.Offer{}
	p.Identity, p.Fingerprint = Hash{}, Hash{}
	p.Detail = nil
	p.Check = time.Time{}
	if p.State == Open {
		return append(p.evident(), p.release(AtSettled)...)
	}
	return p.evident()
}
