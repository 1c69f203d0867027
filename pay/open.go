package pay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Request is one call to pay a challenge.
type Request struct {
	Key        Key
	Door       policy.Door
	Task       string
	Settlement Settlement
	Challenge  x402.Challenge
	// URL names what the caller asked for, or says that it did; it goes into the books without
	// its userinfo.
	URL string
	// HTTP recognizes a repeat at the doors that send the request themselves. It is nil on REST, where
	// URL and terms do.
	HTTP *HTTPRequest
	// IdempotencyKey is the caller's, 1 to 255 characters, or empty.
	IdempotencyKey string
	// Anew: the call repeats no settled payment, unless it has an idempotency key.
	Anew bool
	// Retried: the caller's library says that the call repeats an earlier one. It is no purchase beside that, nor
	// shortly after it, whatever Anew says. With an idempotency key, that says more.
	Retried bool
	// Again names the payment that this very call has made already. It is driven on, and never
	// replaced by a new one.
	Again string
	// MaxAmount bounds what a new payment may cost, in the smallest unit; nil: the key's policy does.
	MaxAmount *money.Amount
	// OnlyRepeat: the call makes no new payment: ErrNothingToRepeat.
	OnlyRepeat bool
	// Unpaid: the request is one that is never paid for, such as a prefetch. The payer tells operators nothing of it, and the
	// request that comes next is no repeat of it.
	Unpaid bool

	// Redirects places the request among the redirects of paid answers; nil on REST.
	Redirects *Redirects

	// LedFrom is the URL whose answer has led the client to URL, without a payment; "": none that is known.
	LedFrom string

	// Approved is the approval that the call has waited for: see [Payer.AwaitApproval]. A new payment has
	// exactly its terms; any other one needs an approval of its own.
	Approved *Approval

	// Arrival is when the call began; nil: it begins now. The door ends it.
	Arrival *Arrival
	// Gone reports whether the caller has left before its context ends; nil: the context tells.
	Gone func() bool

	withdrawal *Order // nil: the call answers a seller's challenge
	quoting    bool   // the call asks for a price
	repeated   string // the payment that the call has waited for, and repeats
}

// HTTPRequest identifies a request at the proxy and the transport.
type HTTPRequest struct {
	Method string
	URL    string
	Body   Hash // of what the body says, however it is parted
	// Plain is the hash of the body as it came, by which earlier versions have recognized repeats. Zero: Body.
	Plain Hash
}

// check refuses a malformed request: *InputError.
func (r Request) check() error {
	if r.Task != "" && !policy.ValidTask(r.Task) {
		return &InputError{Field: "task", Reason: "1 to 64 characters of A-Z a-z 0-9 . _ -"}
	}
	if !utf8.ValidString(r.IdempotencyKey) {
		return &InputError{Field: "idempotencyKey", Reason: "not UTF-8"}
	}
	return nil
}

// maxPolicyChanges bounds how often a call is judged anew because its key's policy, owner or plan
// has changed meanwhile. More changes mean that the store contradicts itself.
const maxPolicyChanges = 16

// method returns the request's method. It is unknown on REST.
func (r Request) method() string {
	if r.HTTP == nil {
		return ""
	}
	return r.HTTP.Method
}

// Open decides, journals and signs a payment that the seller settles. It returns an attempt that is
// ready to be sent: its payload is new, or that of an earlier payment which this call repeats. The
// caller must end the attempt with Finish or Abandon. When Open returns an error, nothing may be
// sent, and there is no attempt to end. The caller hands an *ApprovalError to AwaitApproval.
//
// Errors: *InputError, *HeaderError, *NoWalletError, *x402.UnsupportedError, ErrQuota,
// *FailuresError, *PolicyError, *ApprovalError, *FailedError, *OpenError, *SpentError, ErrIdempotencyReused,
// ErrNothingToRepeat, ErrCallerGone, ErrUnavailable, ErrKeyNotFound if the key was revoked meanwhile.
func (p *Payer) Open(ctx context.Context, r Request) (*Attempt, error) {
	a, err := p.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	return a.ready(a.prepare)
}

// begin is Open up to the signature.
func (p *Payer) begin(ctx context.Context, r Request) (*Attempt, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.background.Done()
	if err := r.check(); err != nil {
		return nil, err
	}
	r = r.withoutUserinfo()
	if r.Arrival == nil && r.withdrawal == nil {
		r.Arrival = p.Arrive(r.Key.ID)
		defer r.Arrival.Decided()
	}
	started := time.Now()
	a, err := p.attempt(ctx, r)
	if err != nil {
		p.forget(r)
		if held, is := errors.AsType[*ApprovalError](err); !is || !held.pending() { // see AwaitApproval
			p.reportRefusal(ctx, r, err)
		}
		return nil, err
	}
	a.opened = started
	if a.how == Created {
		p.quoted.followed(r)
	}
	r.Arrival.Decided()
	return a, nil
}

// reportRefusal tells of a payment that its key may not make.
func (p *Payer) reportRefusal(ctx context.Context, r Request, err error) {
	if r.Unpaid {
		return
	}
	rule, detail := string(Code(err)), err.Error()
	switch Code(err) {
	case CodePolicy:
		refused, _ := errors.AsType[*PolicyError](err)
		rule, detail = refused.Rule, refused.Detail
	case CodeApproval:
		held, _ := errors.AsType[*ApprovalError](err)
		rule, detail = held.Rule(), held.Detail()
	case CodeQuota, CodeFailures, CodeQuestions:
	default:
		return
	}
	p.opts.Observer.Refused(r.Door, rule)
	p.tellRefusal(r, err)
	p.log.InfoContext(ctx, "payment not allowed", "key", r.Key.ID, "door", string(r.Door), "host", policy.SiteOf(r.URL).String(), "task", r.Task, "rule", rule, "detail", detail)
}

// attempt tries while the payment that the call repeats is busy, or its key's policy changes.
func (p *Payer) attempt(ctx context.Context, r Request) (*Attempt, error) {
	deadline := time.NewTimer(p.opts.RepeatWait)
	defer deadline.Stop()
	for changes, looked := 0, false; ; {
		a, busy, err := p.try(caller{ctx, r.Gone}, &r)
		var short *FailedError
		switch {
		case a != nil:
			return a, nil
		case errors.As(err, &short) && short.again != nil && !looked:
			if looked = true; short.again(ctx) {
				continue
			}
			return nil, err
		case unanswered(err) && !looked:
			if looked = true; p.proveHost(ctx, r.Key.ID, policy.SiteOf(r.URL).String()) {
				continue
			}
			return nil, err
		case errors.Is(err, ErrPolicyChanged):
			if changes++; changes > maxPolicyChanges {
				return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
			if r.Key, err = p.keyAgain(ctx, r.Key.ID); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		}
		if err := p.awaitEnd(ctx, busy, deadline.C); err != nil {
			return nil, err
		}
	}
}

// awaitEnd waits until a busy payment may be free: its lease has ended, or it is time to ask again.
func (p *Payer) awaitEnd(ctx context.Context, busy *Payment, deadline <-chan time.Time) error {
	released, poll := p.released(busy.ID), p.opts.RepeatPoll
	var come <-chan struct{}
	if released == nil {
		var forget func()
		come, forget = p.await(busy.ID)
		defer forget()
	}
	if come != nil {
		poll *= 10
	}
	again := time.NewTimer(poll)
	defer again.Stop()
	select {
	case <-released:
	case <-come:
	case <-again.C:
	case <-deadline:
		return &OpenError{Payment: busy}
	case <-ctx.Done():
		return ErrCallerGone
	}
	return nil
}

// await has other nodes tell of an end or an answer: see [Waking].
func (p *Payer) await(id string) (come <-chan struct{}, forget func()) {
	if w, ok := p.store.(Waking); ok {
		return w.Await(id)
	}
	return nil, func() {}
}

// keyAgain reads a key whose policy has changed. The call of a key that was revoked meanwhile is answered
// like one that comes after.
func (p *Payer) keyAgain(ctx context.Context, id string) (Key, error) {
	k, err := p.store.Key(ctx, id)
	if err != nil {
		return k, fmt.Errorf("reading a key's new policy: %w", err)
	}
	if k.Revoked() {
		return k, ErrKeyNotFound
	}
	return k, nil
}

// try makes one pass through the journal. It returns the payment while that is busy.
func (p *Payer) try(by caller, r *Request) (_ *Attempt, busy *Payment, _ error) {
	deciding, decided := p.stage(by, "decide", "")
	b, c, err := p.propose(deciding, *r)
	decided(err)
	defer func() { c.unused() }()
	if err != nil {
		return nil, nil, err
	}
	begun, h, err := p.journal(by, b)
	if err != nil {
		return nil, nil, err
	}
	a := &Attempt{payer: p, how: begun.How, revived: begun.Revived, row: begun.Payment, grip: h, caller: by}
	defer a.finishOnPanic()
	switch begun.How {
	case Unapproved:
		return nil, nil, &ApprovalError{Approval: *begun.Approval}
	case Busy:
		if p.repeats(b, begun.Payment) {
			r.repeated = begun.Payment.ID
		}
		return nil, begun.Payment, nil
	case Expired:
		return nil, nil, &OpenError{Payment: begun.Payment}
	case Spent:
		return nil, nil, &SpentError{Payment: begun.Payment}
	case Stored:
		if !a.row.Reconciled { // else its payload is lost, and another one would buy nothing
			err = a.sign(by, c.wallet) // a crash may have come before its signature was kept
		}
	case Created:
		c.giveBack = nil // the payment is the one that was let through
		p.began(by, begun.Payment)
		err = a.keepAndSign(c.wallet)
	default:
		p.log.InfoContext(by, "payment repeated", "payment", a.row.ID, "key", a.row.KeyID, "state", string(a.row.State))
		err = a.keepAndSign(c.wallet)
	}
	if err != nil {
		return nil, nil, err
	}
	return a, nil, nil
}

// journal has the store decide. The grip is that of a payment whose lease the call now has, else nil.
func (p *Payer) journal(by caller, b *Begin) (Begun, *grip, error) {
	if b.New != nil {
		b.Declined = p.clockRefusal(by, b.New.validity())
	}
	var h *grip
	id := b.Again
	if b.New != nil {
		id = b.New.ID
		h = p.take(by, id, b)
	}
	letGo := func() {
		if h != nil {
			p.letGo(h)
		}
	}
	if !p.awaitNews(by, b, h) {
		letGo()
		return Begun{}, nil, ErrCallerGone
	}
	b.Now = p.now().UTC() // RPC and facilitator were asked meanwhile; the lease starts now
	failpoint.Here(failpoint.Decided)
	journaling, journaled := p.stage(by, "journal", id)
	begun, err := p.store.Begin(journaling, b)
	journaled(err)
	if err != nil {
		letGo()
		return Begun{}, nil, fmt.Errorf("journaling a payment: %w", err)
	}
	p.told(begun.Notices)
	if begun.How != Created {
		letGo()
		h = nil
	}
	if begun.Leased() {
		if h == nil {
			h = p.take(by, begun.Payment.ID, b)
		}
		h.fence = begun.Payment.Lease.Fence
		p.background.Add(1) // until the lease is released
	}
	return begun, h, nil
}

// keepAndSign renews the lease of a journaled payment and signs it. On error it ends the attempt.
func (a *Attempt) keepAndSign(w Wallet) error {
	failpoint.Here(failpoint.Journaled)
	if err := a.payer.keep(a.caller, a.grip, a.row.Lease.Until); err != nil {
		a.Abandon("lease not renewed")
		return fmt.Errorf("renewing a lease: %w", err)
	}
	if err := a.sign(a.caller, w); err != nil {
		a.finish(false, true)
		return err
	}
	failpoint.Here(failpoint.Signed)
	return nil
}

// began tells of a new payment. At level INFO the line of its outcome has the same: a second one took
// 3 % of a payment's CPU.
func (p *Payer) began(ctx context.Context, row *Payment) {
	p.opts.Observer.Began(row)
	if p.log.Enabled(ctx, slog.LevelDebug) {
		p.log.DebugContext(ctx, "payment begun", append(aboutPayment(row), "valid_before", row.ValidBefore())...)
	}
}

// aboutPayment lists what log lines tell of a payment. It leaves out the URL, because the query may
// contain a client's key.
func aboutPayment(row *Payment) []any {
	means := row.Means()
	return []any{
		"payment", row.ID, "key", row.KeyID, "door", string(row.Door), "task", row.Task, "host", row.Host,
		"amount", row.Terms.Amount.String(), "currency", row.Currency, "network", row.Terms.Network,
		"settlement", string(row.Terms.Settlement), "protocol", means.Protocol, "rail", means.Rail,
	}
}

// withoutUserinfo returns the request with URLs that have no user:password@, because
// credentials have no place in the books, in identities or in lists.
func (r Request) withoutUserinfo() Request {
	r.URL = withoutUserinfo(r.URL)
	if r.HTTP != nil {
		request := *r.HTTP
		request.URL = withoutUserinfo(request.URL)
		r.HTTP = &request
	}
	return r
}

func withoutUserinfo(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.User == nil {
		return raw
	}
	u.User = nil
	return u.String()
}
