package pay

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// propose builds the journal operation for a call: its identity, the judgement and the proposed
// row. What the choice holds of the facilitator is to be given back after an error too.
func (p *Payer) propose(ctx context.Context, r Request) (*Begin, choice, error) {
	b := &Begin{Owner: p.owner, Redirects: r.Redirects}
	if r.Again != "" {
		b.CallIdentity = p.callIdentity(r, Terms{}, nil)
		return b, choice{}, nil
	}
	if r.withdrawal != nil {
		return p.proposeWithdrawal(ctx, r)
	}
	pol := p.PolicyOf(r.Key, r.Door)
	c, declined := choice{}, ErrNothingToRepeat
	if !r.OnlyRepeat {
		c, declined = p.choose(ctx, r, pol)
	}
	terms, chosen := c.terms(r.Settlement), c.chosen()
	if !chosen {
		// A repeat is served all the same: at the proxy whatever the fresh challenge says, on
		// REST if it says what it said then, even if the wallet was deleted since.
		var known bool
		if terms, known = p.terms(r); r.HTTP == nil && !known {
			return nil, c, declined
		}
	}
	b.CallIdentity = p.callIdentity(r, terms, c.first)

	if declined == nil {
		c.giveBack, declined = p.unable(r, c)
	}
	var balance Limit
	if declined == nil {
		balance, declined = p.balanceLimit(ctx, c, terms)
	}
	now := p.now().UTC()
	var err error
	if b.Judgement, err = p.judgement(ctx, r.Key, pol, declined, now); err != nil {
		return nil, c, err
	}
	if b.Parent, err = p.judgedParent(ctx, r.Key, r.Door); err != nil {
		return nil, c, err
	}
	if pause, paused := r.Key.PausedHosts[policy.SiteOf(r.URL).String()]; paused {
		b.HostPaused = &pause
	}
	if !chosen { // the quota bounds a revival only: a new payment is declined whatever is left
		b.Place, b.Revival = Limit{}, b.Place
	}
	if declined == nil {
		b.Proposal = p.proposal(r, b.CallIdentity, c, pol, balance, now)
		if declined = p.authorize(ctx, b.New, c.requirement, b.Order); declined == nil {
			b.holdAll()
			declined = r.bears(b.New)
		}
	}
	if declined != nil { // a repeat is served all the same
		b.Declined, b.Proposal = declined, Proposal{}
		return b, c, nil
	}
	if b.Suspicion, err = p.suspicion(ctx, r, pol, b.New); err != nil {
		return nil, c, err
	}
	if b.Suspicion.Rule != "" && b.Approval == nil {
		b.Approval = p.approvalFor(r, c, b.New)
	}
	return b, c, nil
}

// callIdentity makes the identity by which repeats of a call are recognized. first is that of the choice; nil: the terms
// are.
func (p *Payer) callIdentity(r Request, t Terms, first *Terms) CallIdentity {
	if first == nil {
		first = &t
	}
	id := CallIdentity{
		KeyID: r.Key.ID, IdempotencyKey: r.IdempotencyKey, Terms: t, First: *first, Anew: r.Anew, Again: r.Again,
		Order: p.orderMark(r.Key.ID, r.IdempotencyKey), Resend: r.HTTP != nil, Gripped: p.gripped,
		Attended: func(paymentID string) bool { return !r.Retried && p.attended(paymentID, r.Arrival, r.Anew) },
		Retried:  r.Retried && r.IdempotencyKey == "" && r.Again == "",
	}
	if id.Retried {
		id.Anew = false
	}
	if r.HTTP != nil {
		id.Fingerprint = r.HTTP.fingerprint(r.HTTP.Body)
		if plain := r.HTTP.Plain; plain != (Hash{}) && plain != r.HTTP.Body {
			id.Earlier.Fingerprint = r.HTTP.fingerprint(plain)
			id.Earlier.Identity = identityOf(r.Task, id.Earlier.Fingerprint)
		}
	} else {
		id.Fingerprint = HashOf("rest", r.URL, first.bought().String())
		if first.bought() != t.bought() {
			id.Earlier.Fingerprint = HashOf("rest", r.URL, t.bought().String())
			id.Earlier.Identity = identityOf(r.Task, id.Earlier.Fingerprint)
		}
	}
	id.Identity = identityOf(r.Task, id.Fingerprint)
	if r.IdempotencyKey == "" && r.Again == "" {
		id.Arrival = r.Arrival
		identity, anew := id.Identity, id.Anew
		id.Answered = func() string { return p.repeatedBy(r, identity, anew) }
	}
	return id
}

func (r HTTPRequest) fingerprint(body Hash) Hash {
	return HashOf("http", r.Method, r.URL, hex.EncodeToString(body[:]))
}

func identityOf(task string, fingerprint Hash) Hash {
	return HashOf(task, hex.EncodeToString(fingerprint[:]))
}

// judgement gathers the limits that a new payment of a key must keep.
func (p *Payer) judgement(ctx context.Context, k Key, pol policy.Policy, declined error, now time.Time) (Judgement, error) {
	j := Judgement{
		Declined: declined, Policy: &pol, PolicyRevision: k.PolicyRevision, Paused: k.Paused,
		MaxUnanswered: MaxUnansweredPerHost, Failures: p.opts.Failures, Hours: p.countsHours(k),
	}
	if pol.PerMinute == nil {
		j.PerMinute = overload(p.ruling().DefaultPolicy)
	}
	return j, p.setPlace(ctx, &j, k, now)
}

// proposal makes the row of a new payment, and the reservations beside the place and what it spends.
func (p *Payer) proposal(r Request, id CallIdentity, c choice, pol policy.Policy, balance Limit, now time.Time) Proposal {
	row := p.row(r, id, c, now)
	if pol.Guards() || p.opts.Telling.On {
		row.Price = priceCounter(r.Key.ID, c.asset.Currency(), r.method(), r.URL)
	}
	n, sum := PendingCounters(r.Key.ID)
	limits := append(rate(pol, row),
		Limit{Reservation: Reservation{Counter: n, Amount: money.New(1), Release: ReleasePending}},
		Limit{Reservation: Reservation{Counter: sum, Amount: id.Terms.Amount, Release: ReleasePending}},
		balance,
	)
	limits = append(limits, p.allowanceLimit(c, id.Terms)...)
	proposed := Proposal{New: row, Beside: p.beside(c.requirement), Limits: limits, WalletOwner: c.wallet.KeyID, KeyName: p.nameToTell(r.Key)}
	if proposed.Approved = r.Approved; pol.AsksSome() || r.Approved != nil {
		proposed.Approval = p.approvalFor(r, c, row)
	}
	return proposed
}

// approvalFor makes the row that asks a person about a new payment. It is the same for a seller that asks in another
// protocol for the same money, and not for one that shares the money out in another way.
func (p *Payer) approvalFor(r Request, c choice, row *Payment) *Approval {
	// The identity has the client's URL. The one that is booked leads to the seller, and people see it.
	of := []string{"approval", row.KeyID, string(row.Door), hex.EncodeToString(row.Identity[:]), row.RequestURL, row.IdempotencyKey, row.Terms.bought().String()}
	for _, one := range p.beside(c.requirement) {
		of = append(of, one.To.String(), one.Amount.String())
	}
	return &Approval{
		ID: uuid.Must(uuid.NewV7()).String(), KeyID: row.KeyID, OrganizationID: row.OrganizationID, Door: row.Door, Task: row.Task,
		Method: r.method(), Host: row.Host, URL: row.RequestURL, Terms: row.Terms, Currency: row.Currency,
		Purchase: HashOf(of...), Created: row.Created, Expires: row.Created.Add(p.opts.ApprovalExpiry),
	}
}

// row makes the payment as it will be journaled, before its reservations and lease.
func (p *Payer) row(r Request, of CallIdentity, c choice, now time.Time) *Payment {
	t := of.Terms
	row := &Payment{
		ID: c.id, KeyID: r.Key.ID, OrganizationID: r.Key.OrganizationID, Door: r.Door, Task: r.Task,
		RequestURL: r.URL, Host: policy.SiteOf(r.URL).String(), Terms: t, Currency: c.asset.Currency(), WalletID: c.wallet.ID,
		Created: now, Fingerprint: of.Fingerprint, Identity: of.Identity, IdempotencyKey: r.IdempotencyKey,
		Offer: c.offer, State: Open, Waited: waited(r.Arrival, now),
		Authorization: x402.Authorization{
			From: *c.wallet.Address, To: t.PayTo, Value: t.Amount,
			ValidAfter: 0, ValidBefore: uint64(now.Add(c.validity).Unix()), Nonce: p.newNonce(r.Key.ID),
			Rail: c.requirement.Rail(),
		},
	}
	if row.Authorization.Rail == x402.RailUpto {
		row.Authorization.Facilitator = c.requirement.Facilitator
	}
	if nonce := p.boundNonce(row.Host, c.requirement); nonce != nil {
		row.Authorization.Nonce, row.Bound = *nonce, true
		row.Authorization.ValidAfter = of.Order
	}
	row.Check = p.nextCheck(row, now)
	return row
}

// validity returns the time for which the authorization of a new payment is valid by our clock.
func (p *Payment) validity() time.Duration { return p.ValidBefore().Sub(p.Created) }

// shortWait is not kept in rows.
const shortWait = 100 * time.Millisecond

// waited returns how long a call was on its way to its payment, to the millisecond.
func waited(a *Arrival, now time.Time) time.Duration {
	if a == nil || now.Sub(a.at) < shortWait {
		return 0
	}
	return now.Sub(a.at).Truncate(time.Millisecond)
}

// terms returns the terms of the chosen requirement.
func (c choice) terms(s Settlement) Terms { return termsOf(s, c.network, c.asset, c.requirement) }

func termsOf(s Settlement, n x402.Network, a x402.Asset, req x402.Requirement) Terms {
	return Terms{Settlement: s, Network: n.Name, Scheme: req.Scheme, Asset: a.Address, PayTo: req.PayTo, Amount: req.Amount}
}

// terms returns the terms of the first requirement that could be paid if there were a wallet.
func (p *Payer) terms(r Request) (Terms, bool) {
	for _, i := range p.inOrder(r.Challenge.Accepts) {
		req := r.Challenge.Accepts[i]
		if asset, err := p.supports(req); err == nil {
			if n, ok := p.network(req.Network); ok && p.takes(req, n.Name) == nil {
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
	case c.wallet.Address == nil:
		return nil, failedFor(nil, ErrNoAddress)
	case r.Settlement != SettlePayer:
		return nil, nil
	case c.requirement.Version >= x402.OtherProtocols:
		return nil, &x402.UnsupportedError{Kind: "scheme", Value: c.requirement.Scheme, Detail: "a facilitator settles payments of x402 only; let the seller settle"}
	case p.opts.Facilitator == nil:
		return nil, failedFor(nil, ErrNoFacilitator)
	}
	if giveBack, err = p.ready(r.Key.ID); err != nil {
		return nil, silence(StageVerify, nil, err)
	}
	return giveBack, nil
}
