package pay

import (
	"context"
	"errors"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/x402"
)

// Telling says what a payer tells people of. The zero value is silent and costs payments nothing.
type Telling struct {
	// On: notices of payments are written.
	On bool
	// LowBalance is the balance below which a wallet is low; nil: none is.
	LowBalance *x402.Amount
	// Wake is called when there are notices. It must not wait.
	Wake func()
}

const (
	// unansweredRun is the number of unanswered payments in a row that people are told of.
	unansweredRun = 5
	// maxUntold bounds the notices that wait for the store in memory. Further ones are dropped.
	maxUntold = 1000
	// maxRuns bounds the keys and hosts whose unanswered payments are counted, and the wallets that are
	// known to be low or not.
	maxRuns = 10_000
)

// telling is a payer's memory of what it tells.
type telling struct {
	mu      sync.Mutex
	waiting []Notice
	forgets []string // Onces
	writing bool
	runs    *lru.Cache[string, int]  // unanswered in a row, by key and host
	low     *lru.Cache[string, bool] // by mark
}

func newTelling() telling {
	return telling{runs: perclient.NewCache[string, int](maxRuns), low: perclient.NewCache[string, bool](maxRuns)}
}

// nameToTell returns the name of a key in notices; "" if nothing is told.
func (p *Payer) nameToTell(k Key) string {
	if !p.opts.Telling.On {
		return ""
	}
	return k.Name()
}

// told wakes the senders if there are notices.
func (p *Payer) told(list []Notice) {
	if len(list) > 0 && p.opts.Telling.Wake != nil {
		p.opts.Telling.Wake()
	}
}

// Tell writes a notice soon. It does not wait for the store. It drops the notice if nothing is told, or
// if too many wait.
func (p *Payer) Tell(n Notice) {
	if p.opts.Telling.On {
		p.tellSoon([]Notice{n}, nil)
	}
}

// tellSoon hands notices, and Onces to forget, to one writer at a time.
func (p *Payer) tellSoon(list []Notice, forget []string) {
	t := &p.telling
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting)+len(t.forgets) >= maxUntold {
		p.log.Warn("notice dropped, because too many wait for the store")
		return
	}
	t.waiting, t.forgets = append(t.waiting, list...), append(t.forgets, forget...)
	if t.writing || p.enter() != nil {
		return
	}
	t.writing = true
	go func() { // waited for by Close
		defer p.background.Done()
		p.writeTold()
	}()
}

// writeTold writes what waits until there is no more.
func (p *Payer) writeTold() {
	t := &p.telling
	for {
		t.mu.Lock()
		list, forget := t.waiting, t.forgets
		t.waiting, t.forgets = nil, nil
		t.writing = len(list)+len(forget) > 0
		done := !t.writing
		t.mu.Unlock()
		if done {
			return
		}
		ctx, cancel := detached(context.Background())
		var err error
		for _, once := range forget {
			err = errors.Join(err, p.store.ForgetNotice(ctx, once))
		}
		if len(list) > 0 {
			err = errors.Join(err, p.store.AddNotices(ctx, list))
		}
		cancel()
		if err != nil {
			p.log.Warn("notices not written", "notices", len(list), "error", err)
			t.mu.Lock()
			t.low.Purge() // so that the next reading tells again
			t.mu.Unlock()
			continue
		}
		p.told(list)
	}
}

// outcomeToTell returns the name of the key of an outcome that people are told of, and else "".
func (p *Payer) outcomeToTell(ctx context.Context, row *Payment, o Outcome) string {
	if !p.opts.Telling.On || o.Verdict != VerdictDisputed && o.Verdict != VerdictUnresolved {
		return ""
	}
	return p.keyName(ctx, row.KeyID)
}

// keyName returns the name of a key in notices.
func (p *Payer) keyName(ctx context.Context, id string) string {
	k, err := p.store.Key(ctx, id)
	if err != nil {
		k = Key{ID: id}
	}
	return k.Name()
}

// tellRefusal tells that a budget has no room for a payment.
func (p *Payer) tellRefusal(r Request, err error) {
	refused, is := errors.AsType[*PolicyError](err)
	// What asks too much of a budget that is hardly used is a decline as others are.
	if is && refused.over != nil && p.opts.Telling.On && part(refused.over.before, refused.over.most, 80) {
		row := &Payment{
			KeyID: r.Key.ID, OrganizationID: r.Key.OrganizationID, Host: siteOf(r.URL).String(), Created: p.now().UTC(), Task: r.Task,
		}
		n := budgetNotice(r.Key.Name(), row, *refused.over, NoticeBudget100, 100)
		n.Payee = ""
		p.Tell(n)
	}
}

// countUnanswered counts the payments in a row of a key to a host that ended without an answer.
func (p *Payer) countUnanswered(row *Payment, o Outcome) {
	if !p.opts.Telling.On || !o.Release || row.Host == "" || row.Answered || row.Unanswered {
		return
	}
	t, pair := &p.telling, row.KeyID+"/"+row.Host
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.Answered {
		t.runs.Remove(pair)
		return
	}
	n, _ := t.runs.Get(pair)
	n++
	t.runs.Add(pair, n)
	if n == unansweredRun {
		row, at := row.Clone(), o.At
		if p.enter() != nil {
			return
		}
		go func() { // waited for by Close
			defer p.background.Done()
			ctx, cancel := detached(context.Background())
			defer cancel()
			p.Tell(unansweredNotice(p.keyName(ctx, row.KeyID), row, at, n))
		}()
	}
}

// watchLow tells when a wallet has less than its mark, once until it has enough again.
func (p *Payer) watchLow(c choice, have x402.Amount) {
	mark := p.opts.Telling.LowBalance
	if !p.opts.Telling.On || mark == nil || c.wallet.ID == "" || c.wallet.Address == nil {
		return
	}
	once, low := lowMark(c.wallet, c.asset.Symbol), have.Cmp(*mark) < 0
	t := &p.telling
	t.mu.Lock()
	was, known := t.low.Get(once)
	t.low.Add(once, low)
	t.mu.Unlock()
	switch {
	case known && was == low:
	case low:
		p.Tell(lowBalanceNotice(c.wallet, c.asset.Symbol, have, *mark, p.now()))
	default:
		p.tellSoon(nil, []string{once})
	}
}
