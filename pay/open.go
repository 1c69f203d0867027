package pay

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/x402"
)

// Request is one call to pay a challenge.
type Request struct {
	Key        Key
	Door       Door
	Task       string
	Settlement Settlement
	Challenge  x402.Challenge
	// URL names what the caller asked for, or says that it did; it goes into the books without
	// its userinfo.
	URL string
	// HTTP is set at the doors that send the request themselves, and is what a repeat is
	// recognized by there. Nil on REST, where URL and terms are.
	HTTP *HTTPRequest
	// IdempotencyKey is the caller's, 1 to 255 characters, or empty.
	IdempotencyKey string
	// Anew: a settled payment that this call would repeat without an idempotency key is not what
	// its caller wants, who has given up the answer to it.
	Anew bool
	// Again is the payment that this very call has made already: it is driven on, and
	// never replaced by a new one.
	Again string
	// Refuse, when set, is why no new payment is to be made. An earlier one that the call
	// repeats is driven on all the same.
	Refuse error
}

// HTTPRequest identifies a request at the proxy and the transport.
type HTTPRequest struct {
	Method string
	URL    string
	Body   Hash
}

// maxPolicyChanges is how often a call is judged anew because its key's policy, owner or plan
// has changed in between. More often nobody sets one, so that the store contradicts itself.
const maxPolicyChanges = 16

// method is that of the request; on REST nobody knows it.
func (r Request) method() string {
	if r.HTTP == nil {
		return ""
	}
	return r.HTTP.Method
}

// pollRepeat is how often a waiting repeat asks again about a lease that is not ours.
const pollRepeat = 250 * time.Millisecond

// Open decides, journals and signs a payment that the seller settles. It returns an attempt that is
// ready to be sent: its payload is new, or that of an earlier payment which this call repeats. The
// caller must end the attempt with Finish or Abandon. When Open returns an error, nothing may be
// sent, and there is no attempt to end.
//
// Errors: *InputError, *HeaderError, *NoWalletError, *x402.UnsupportedError, ErrQuota,
// *FailuresError, *PolicyError, *FailedError, *OpenError, *SpentError, ErrIdempotencyReused, ErrCallerGone, ErrUnavailable,
// ErrKeyNotFound if the key was revoked meanwhile.
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
	if r.Task != "" && !ValidTask(r.Task) {
		return nil, &InputError{Field: "task", Reason: "1 to 64 characters of A-Z a-z 0-9 . _ -"}
	}
	r = r.withoutUserinfo()
	started := time.Now()
	a, err := p.open(ctx, r)
	if err != nil {
		p.refused(ctx, r, err)
		return nil, err
	}
	a.opened = started
	return a, nil
}

// refused tells of a payment that its key may not make.
func (p *Payer) refused(ctx context.Context, r Request, err error) {
	var rule string
	var refused *PolicyError
	var failures *FailuresError
	switch {
	case errors.As(err, &refused):
		rule = refused.Rule
	case errors.Is(err, ErrQuota):
		rule = "quota"
	case errors.As(err, &failures):
		rule = "failures"
	default:
		return
	}
	p.opts.Observer.Refused(r.Door, rule)
	p.log.InfoContext(ctx, "payment not allowed", "key", r.Key.ID, "door", string(r.Door), "rule", rule)
}

func (p *Payer) open(ctx context.Context, r Request) (*Attempt, error) {
	deadline := time.NewTimer(p.opts.RepeatWait)
	defer deadline.Stop()
	for changes, looked := 0, false; ; {
		a, begun, err := p.try(ctx, r)
		var short *FailedError
		if !looked && errors.As(err, &short) && short.again != nil {
			if looked = true; short.again(ctx) {
				continue
			}
		}
		if errors.Is(err, ErrPolicyChanged) {
			if changes++; changes > maxPolicyChanges {
				return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
			if r.Key, err = p.store.Key(ctx, r.Key.ID); err != nil {
				return nil, fmt.Errorf("reading a key's new policy: %w", err)
			}
			if r.Key.Revoked() {
				return nil, ErrKeyNotFound // the call came before, and is answered like one after
			}
			continue
		}
		if err != nil || a != nil {
			return a, err
		}
		select {
		case <-p.released(begun.Payment.ID):
		case <-time.After(pollRepeat):
		case <-deadline.C:
			return nil, &OpenError{Payment: begun.Payment}
		case <-ctx.Done():
			return nil, ErrCallerGone
		}
	}
}

// try makes one pass through the journal. Without an attempt and an error, the payment
// is busy and the call has to wait.
func (p *Payer) try(ctx context.Context, r Request) (*Attempt, Begun, error) {
	deciding, decided := p.stage(ctx, "decide", "")
	b, c, err := p.propose(deciding, r)
	decided(err)
	defer func() {
		if c.giveBack != nil {
			c.giveBack()
		}
	}()
	if err != nil {
		return nil, Begun{}, err
	}
	if b.New != nil && b.Declined == nil {
		b.Declined = p.clockRefusal(ctx)
	}
	calling := caller{ctx}
	var h *hold
	if b.New != nil {
		h = p.grip(calling, b.New.ID, b)
	}
	if !p.awaitNews(calling, b, h) {
		if h != nil {
			p.letGo(h)
		}
		return nil, Begun{}, ErrCallerGone
	}
	b.Now = p.now().UTC() // others were asked meanwhile; the lease starts now
	failpoint.Here(failpoint.Decided)
	journaling, journaled := p.stage(ctx, "journal", b.id())
	begun, err := p.store.Begin(journaling, b)
	journaled(err)
	if h != nil && (err != nil || begun.How != Created) {
		p.letGo(h)
		h = nil
	}
	if err != nil {
		return nil, Begun{}, fmt.Errorf("journaling a payment: %w", err)
	}
	switch begun.How {
	case Busy:
		return nil, begun, nil
	case Expired:
		return nil, begun, &OpenError{Payment: begun.Payment}
	case Spent:
		return nil, begun, &SpentError{Payment: begun.Payment}
	case Stored:
		a := &Attempt{payer: p, how: Stored, row: begun.Payment, caller: calling}
		if begun.Payment.Reconciled {
			return a, begun, nil // its payload is lost, and another one would buy nothing
		}
		if err := a.sign(ctx, c.wallet); err != nil { // a crash may have come before its signature was kept
			return nil, begun, err
		}
		return a, begun, nil
	case Created:
		c.giveBack = nil // the payment is the one that was let through
		p.began(ctx, begun.Payment)
	default:
		h = p.grip(calling, begun.Payment.ID, b)
		p.log.InfoContext(ctx, "payment repeated", "payment", begun.Payment.ID, "key", begun.Payment.KeyID, "state", string(begun.Payment.State))
	}
	failpoint.Here(failpoint.Journaled)
	h.fence = begun.Payment.Lease.Fence
	p.background.Add(1) // until the lease is released
	a := &Attempt{payer: p, how: begun.How, revived: begun.Revived, row: begun.Payment, hold: h, caller: calling}
	defer a.finishOnPanic()
	if err := p.keep(ctx, h, begun.Payment.Lease.Until); err != nil {
		a.Abandon("lease not renewed")
		return nil, begun, fmt.Errorf("renewing a lease: %w", err)
	}
	if err := a.sign(ctx, c.wallet); err != nil {
		a.finish(false, true)
		return nil, begun, err
	}
	failpoint.Here(failpoint.Signed)
	return a, begun, nil
}

// began tells of a new payment. There is no URL in it, whose query may hold somebody's key.
func (p *Payer) began(ctx context.Context, row *Payment) {
	p.opts.Observer.Began(row)
	p.log.InfoContext(ctx, "payment begun", "payment", row.ID, "key", row.KeyID, "door", string(row.Door), "task", row.Task, "host", row.Host,
		"amount", row.Terms.Amount.String(), "currency", row.Currency, "network", row.Terms.Network,
		"settlement", string(row.Terms.Settlement), "valid_before", row.ValidBefore())
}

// id is that of the payment that would be new, "" if there would be none.
func (b *Begin) id() string {
	if b.New == nil {
		return b.Again
	}
	return b.New.ID
}

// propose builds the journal operation for a call. What the choice gives back is to be given
// back after an error too.
func (p *Payer) propose(ctx context.Context, r Request) (*Begin, choice, error) {
	b := &Begin{
		Owner: p.owner, KeyID: r.Key.ID, IdempotencyKey: r.IdempotencyKey, Anew: r.Anew, Again: r.Again,
		Attended: p.attended, Held: p.held, Resend: r.HTTP != nil, MaxUnanswered: MaxUnansweredPerHost,
		Failures: p.opts.Failures,
	}
	if r.Again != "" {
		b.identify(r, Terms{})
		return b, choice{}, nil
	}
	pol := p.PolicyOf(r.Key, r.Door)
	b.Policy, b.PolicyRevision, b.Paused = &pol, r.Key.PolicyRevision, r.Key.Paused
	c, declined := p.choose(ctx, r, pol)
	b.Declined = declined
	var refused *PolicyError
	if declined != nil && !errors.As(declined, &refused) {
		// A repeat is served all the same: at the proxy whatever the fresh challenge says, on
		// REST if it says what it said then, even if the wallet was deleted since.
		terms, known := p.terms(r)
		if r.HTTP == nil && !known {
			return nil, choice{}, declined
		}
		b.identify(r, terms)
		var err error
		b.Revival, err = p.place(ctx, b, r.Key, p.now().UTC())
		return b, c, err
	}
	terms := termsOf(r.Settlement, c.network, c.asset, c.requirement)
	b.identify(r, terms)
	if b.Declined == nil {
		c.giveBack, b.Declined = p.unable(r, c)
	}
	var balance Limit
	if b.Declined == nil {
		balance = p.balanceLimit(ctx, c, terms)
	}
	now := p.now().UTC()
	var err error
	if b.Place, err = p.place(ctx, b, r.Key, now); err != nil {
		return nil, c, err
	}
	if b.Declined != nil {
		return b, c, nil
	}
	if b.New, err = p.row(r, c, terms, now); err != nil {
		return nil, c, err
	}
	b.New.Fingerprint, b.New.Identity = b.Fingerprint, b.Identity
	n, sum := PendingCounters(r.Key.ID)
	if pol.guards() {
		b.New.Price = priceCounter(r.Key.ID, c.asset.Symbol, r.method(), r.URL)
	}
	b.Limits = append(pol.rate(b.New),
		Limit{Reservation: Reservation{Counter: n, Amount: x402.NewAmount(1), Release: ReleasePending}},
		Limit{Reservation: Reservation{Counter: sum, Amount: terms.Amount, Release: ReleasePending}},
		balance,
	)
	return b, c, nil
}

func termsOf(s Settlement, n x402.Network, a x402.Asset, req x402.Requirement) Terms {
	return Terms{Settlement: s, Network: n.Name, Scheme: req.Scheme, Asset: a.Address, PayTo: req.PayTo, Amount: req.Amount}
}

// terms are those of the first requirement that could be paid if there were a wallet.
func (p *Payer) terms(r Request) (Terms, bool) {
	for _, req := range r.Challenge.Accepts {
		if _, asset, err := req.Supports(); err == nil {
			if n, ok := p.network(req.Network); ok {
				return termsOf(r.Settlement, n, asset, req), true
			}
		}
	}
	return Terms{}, false
}

// unable says why a payment that policy allows cannot be made all the same. If it can,
// giveBack, when not nil, is for a call that makes none after all.
func (p *Payer) unable(r Request, c choice) (giveBack func(), err error) {
	switch {
	case r.Refuse != nil:
		return nil, r.Refuse
	case c.wallet.Address == nil:
		return nil, &FailedError{Stage: StageVerify, Detail: ErrNoAddress.Error(), Cause: ErrNoAddress}
	case r.Settlement != SettlePayer:
		return nil, nil
	case p.opts.Facilitator == nil:
		return nil, &FailedError{Stage: StageVerify, Detail: detailNoFacilitator}
	}
	if giveBack, err = p.ready(r.Key.ID); err != nil {
		return nil, unavailable(err)
	}
	return giveBack, nil
}

// identify sets what repeats are recognized by (DESIGN §3).
func (b *Begin) identify(r Request, t Terms) {
	if r.HTTP != nil {
		body, _ := r.HTTP.Body.MarshalText()
		b.Fingerprint = HashOf("http", r.HTTP.Method, r.HTTP.URL, string(body))
	} else {
		b.Fingerprint = HashOf("rest", r.URL, t.String())
	}
	b.Terms = t
	b.Identity = HashOf(r.Task, hex.EncodeToString(b.Fingerprint[:]))
}

// row is the payment as it will be journaled, before its reservations and lease.
func (p *Payer) row(r Request, c choice, t Terms, now time.Time) (*Payment, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("naming a payment: %w", err)
	}
	var nonce x402.Nonce
	_, _ = rand.Read(nonce[:]) // never fails: crypto/rand ends the process instead
	row := &Payment{
		ID: id.String(), KeyID: r.Key.ID, OrganizationID: r.Key.OrganizationID, Door: r.Door, Task: r.Task,
		RequestURL: r.URL, Host: siteOf(r.URL).String(), Terms: t, Currency: c.asset.Symbol, WalletID: c.wallet.ID,
		Created: now, IdempotencyKey: r.IdempotencyKey, Offer: r.Challenge.Offer(c.index), State: Open,
		Authorization: x402.Authorization{
			From: *c.wallet.Address, To: t.PayTo, Value: t.Amount,
			ValidAfter: 0, ValidBefore: uint64(now.Add(c.validity).Unix()), Nonce: nonce,
		},
	}
	row.Check = p.nextCheck(row, now)
	return row, nil
}
