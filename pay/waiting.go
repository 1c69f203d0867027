package pay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Bounds on calls that wait for a person's answer: of one key, of all keys of one party, of all that are
// not the operator's, and of all. Any client may make unclaimed keys and organizations, so their calls share
// bounds and leave room for those of others. Further calls do not wait: they are told at once that a person
// must approve.
const (
	maxWaitsOfKey   = MaxPendingApprovals
	maxWaitsOfParty = 500
	maxWaitsOfPlain = 1500
	maxWaits        = 2000
)

// party names the owner of the calls of a key that share a bound: an organization, or all unclaimed keys
// together. plain: it is not the operator.
func (k Key) party() (name string, plain bool) {
	if k.Operator {
		return "operator", false
	}
	return "org/" + k.OrganizationID, true
}

// pollApproval is the interval at which a waiting call looks at its approval and the clock. An answer on
// this node wakes it at once.
const pollApproval = time.Second

// waits holds the calls that wait for answers on this node.
type waits struct {
	mu      sync.Mutex
	on      map[string]*answerWait // by approval id
	ofKey   map[string]int
	ofParty map[string]int
	plain   int
	all     int
	over    chan struct{} // closed when no call waits any more
}

// answerWait is shared by the calls that wait for one approval.
type answerWait struct {
	calls    int
	answered chan struct{} // closed by the answer
}

func newWaits() waits {
	return waits{on: map[string]*answerWait{}, ofKey: map[string]int{}, ofParty: map[string]int{}, over: make(chan struct{})}
}

// join counts a call in. why says why it must not wait. Without one, the call must call leave.
func (w *waits) join(a Approval, k Key) (answered <-chan struct{}, leave func(), why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	party, plain := k.party()
	switch {
	case w.ended():
		return nil, nil, waitsOver
	case w.ofKey[a.KeyID] >= maxWaitsOfKey || w.all >= maxWaits || plain && (w.ofParty[party] >= maxWaitsOfParty || w.plain >= maxWaitsOfPlain):
		return nil, nil, "too many calls wait for approvals already, so this one did not"
	}
	on := w.on[a.ID]
	if on == nil {
		on = &answerWait{answered: make(chan struct{})}
		w.on[a.ID] = on
	}
	on.calls++
	w.count(1, a.KeyID, party, plain)
	return on.answered, func() { w.leave(a, on, party, plain) }, ""
}

// count counts a call in (1) or out (-1).
func (w *waits) count(change int, keyID, party string, plain bool) {
	w.all += change
	if plain {
		w.plain += change
	}
	for counts, name := range map[*map[string]int]string{&w.ofKey: keyID, &w.ofParty: party} {
		if (*counts)[name] += change; (*counts)[name] == 0 {
			delete(*counts, name)
		}
	}
}

func (w *waits) leave(a Approval, on *answerWait, party string, plain bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(-1, a.KeyID, party, plain)
	if on.calls--; on.calls == 0 && w.on[a.ID] == on {
		delete(w.on, a.ID)
	}
}

// wake wakes the calls that wait for an approval.
func (w *waits) wake(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on := w.on[id]; on != nil {
		close(on.answered)
		delete(w.on, id)
	}
}

// end ends all waits, those to come, too.
func (w *waits) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended() {
		close(w.over)
	}
}

func (w *waits) ended() bool {
	select {
	case <-w.over:
		return true
	default:
		return false
	}
}

// AnswerApproval writes a person's answer to an approval: see [ApprovalAnswering]. Calls that wait for
// the answer go on. The context names the person. Without a time, the answer has that of the payer's
// clock. Errors: ErrApprovalNotFound, ErrApprovalClosed, *InputError, ErrUnavailable.
func (p *Payer) AnswerApproval(ctx context.Context, q ApprovalAnswering) (Approval, error) {
	if q.At.IsZero() {
		q.At = p.now().UTC()
	}
	a, err := p.store.AnswerApproval(ctx, q)
	if err != nil {
		return Approval{}, err
	}
	p.opts.Observer.Answered(a.Answer)
	p.log.InfoContext(ctx, "approval answered", "approval", a.ID, "key", a.KeyID, "answer", string(a.Answer))
	p.waits.wake(a.ID)
	return a, nil
}

// StopWaiting ends the waits for answers, those to come, too. The calls get their *ApprovalError at once.
func (p *Payer) StopWaiting() { p.waits.end() }

// Reasons for which a call waits no longer.
const (
	waitsOver   = "purser ends or has another configuration, so this call did not wait"
	waitExpired = "no person has answered in time"
)

// AwaitApproval waits for a person's answer if err, of Open or Pay, is the *ApprovalError of a payment
// that is held. It returns the approval once it was answered by yes. The caller then gets the seller's
// terms anew, where it can, and calls Open or Pay again with Request.Approved. All rules are asked again.
//
// Otherwise AwaitApproval returns the error for the call's answer, which is mostly err. It waits for
// Options.ApprovalWait at most, and not longer than the caller and the approval last. The caller must
// hold no place that other calls need.
func (p *Payer) AwaitApproval(ctx context.Context, r Request, err error) (*Approval, error) {
	held, is := errors.AsType[*ApprovalError](err)
	if !is || !held.pending() {
		return nil, err
	}
	approved, err := p.awaitAnswer(caller{ctx, r.Gone}, r, held)
	if err != nil {
		p.reportRefusal(ctx, r, err)
	}
	return approved, err
}

// pending reports whether the error's approval may still be answered.
func (e *ApprovalError) pending() bool {
	return e.Approval.ID != "" && e.Approval.Answer == "" && !e.expired
}

func (p *Payer) awaitAnswer(by caller, r Request, held *ApprovalError) (*Approval, error) {
	if r.Approved != nil || p.opts.ApprovalWait <= 0 {
		return nil, held
	}
	if p.enter() != nil {
		return nil, held.because(waitsOver)
	}
	defer p.background.Done()
	answered, leave, why := p.waits.join(held.Approval, r.Key)
	if why != "" {
		return nil, held.because(why)
	}
	defer leave()
	p.opts.Observer.Waiting(1)
	defer p.opts.Observer.Waiting(-1)
	a := held.Approval
	p.log.InfoContext(by, "payment waits for an approval", "approval", a.ID, "key", a.KeyID, "door", string(a.Door),
		"host", a.Host, "amount", a.Terms.Amount.String(), "rule", a.Rule)
	patience := time.NewTimer(p.opts.ApprovalWait)
	defer patience.Stop()
	look := time.NewTicker(pollApproval)
	defer look.Stop()
	elsewhere, forget := p.await(held.Approval.ID)
	defer forget()
	for {
		// The call was counted in before it looks, so that no answer comes in between.
		a, err := p.store.Approval(by, held.Approval.ID)
		switch {
		case by.left():
			return nil, ErrCallerGone
		case err != nil:
			return nil, fmt.Errorf("%w: reading an approval: %w", ErrUnavailable, err)
		}
		switch now := p.now(); a.State(now) {
		case ApprovalApproved, ApprovalUsed: // an identical call may have used it: the store will ask anew
			return &a, p.sameSecret(by, r.Key)
		case ApprovalPending:
		case ApprovalDenied:
			return nil, &ApprovalError{Approval: a}
		case ApprovalExpired:
			return nil, &ApprovalError{Approval: a, Reason: waitExpired, expired: true}
		}
		select {
		case <-answered:
			answered = nil // it is in the store
		case <-elsewhere:
			elsewhere = nil // it is there, too, or no node tells any more
		case <-look.C:
		case <-patience.C:
			return nil, held
		case <-p.waits.over:
			return nil, held.because(waitsOver)
		case <-by.Done():
			return nil, ErrCallerGone
		}
	}
}

// sameSecret refuses the call of a key whose secret was replaced since the call began: ErrSecretReplaced. A
// person who answers after a reissue agrees to no payment for the client that has the earlier one, unless that works still.
func (p *Payer) sameSecret(by caller, k Key) error {
	now, err := p.store.Key(by, k.ID)
	switch {
	case by.left():
		return ErrCallerGone
	case err != nil:
		return fmt.Errorf("%w: reading the key of an approval: %w", ErrUnavailable, err)
	case now.Revoked():
		return ErrKeyNotFound
	case !now.accepts(k, p.now()):
		return ErrSecretReplaced
	}
	return nil
}

// because returns the error with the reason why its call waits no longer.
func (e *ApprovalError) because(reason string) *ApprovalError {
	return &ApprovalError{Approval: e.Approval, Reason: reason}
}
