package pay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
)

// Telling says what a payer tells people of. The zero value is silent and costs payments nothing.
type Telling struct {
	// On: notices of payments are written.
	On bool
	// LowBalance is the balance below which a wallet is low; nil: none is.
	LowBalance *money.Amount
	// Wake is called when there are notices. It must not wait.
	Wake func()
}

const (
	// unansweredRun is the number of unanswered payments in a row that people are told of.
	unansweredRun = 5
	// maxUntold bounds the notices that wait for the store in memory. Further ones are dropped.
	maxUntold = 1000
	// maxTold bounds the declines that were told in their hour, and the wallets that are known to be low
	// or not.
	maxTold = 10_000
)

// telling is a payer's memory of what it tells.
type telling struct {
	mu       sync.Mutex
	waiting  []untold
	forgets  []string // Onces
	writing  bool
	declined *lru.Cache[string, struct{}] // by Once
	low      *lru.Cache[string, bool]     // by mark
}

// untold makes a notice of a key from its name.
type untold struct {
	keyID string
	make  func(name string) Notice
}

// forget forgets what was told. The caller has the lock.
func (t *telling) forget() {
	t.low.Purge()
	t.declined.Purge()
}

func newTelling() telling {
	return telling{declined: perclient.NewCache[string, struct{}](maxTold), low: perclient.NewCache[string, bool](maxTold)}
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
	if p.opts.Telling.Wake != nil && slices.ContainsFunc(list, func(n Notice) bool { return n.Kind != "" }) {
		p.opts.Telling.Wake()
	}
}

// tellSoon hands notices, and Onces to forget, to one writer at a time. It does not wait for the store.
// It drops them if too many wait. They tell of nothing that the store knows: if purser is killed before
// they are written, or the store fails, the next event of their kind tells again.
func (p *Payer) tellSoon(list []untold, forget []string) {
	t := &p.telling
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting)+len(t.forgets) >= maxUntold {
		p.log.Warn("notice dropped, because too many wait for the store")
		t.forget() // the next event tells again
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
		var notices []Notice
		for _, u := range list {
			name := ""
			if u.keyID != "" {
				name = p.keyName(ctx, u.keyID)
			}
			notices = append(notices, u.make(name))
		}
		if len(notices) > 0 {
			err = errors.Join(err, p.store.AddNotices(ctx, notices))
		}
		cancel()
		if err != nil {
			p.log.Warn("notices not written", "notices", len(list), "error", err)
			t.mu.Lock()
			t.forget() // so that the next reading, and the next decline, tell again
			t.mu.Unlock()
			continue
		}
		p.told(notices)
	}
}

// outcomeToTell names the key of an outcome that people may be told of. An answer is told to the store alone.
func (p *Payer) outcomeToTell(ctx context.Context, row *Payment, o *Outcome) {
	answers := o.Receipted || o.Release && o.Answered
	settles := o.Verdict == VerdictSettled && row.State != Settled
	switch {
	case !p.opts.Telling.On:
	case row.Undelivered && settles, o.Undelivered != nil && !row.Undelivered && (settles || row.State == Settled):
		o.KeyName, o.Earlier = p.keyName(ctx, row.KeyID), p.deliveries(ctx, row)
	case o.Verdict == VerdictDisputed, o.Verdict == VerdictUnresolved, o.Release && !answers && !row.Unanswered:
		o.KeyName = p.keyName(ctx, row.KeyID)
	case answers && !row.Answered:
		o.KeyName = Key{ID: row.KeyID}.Name()
	}
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
			KeyID: r.Key.ID, OrganizationID: r.Key.OrganizationID, Host: policy.SiteOf(r.URL).String(), Created: p.now().UTC(), Task: r.Task,
		}
		name := r.Key.Name()
		if of := refused.over.parent; of != nil {
			name, row.KeyID = of.Name, of.KeyID
		}
		n := budgetNotice(name, row, *refused.over, NoticeBudget100, 100)
		n.Payee = ""
		// A client that asks on in vain must not have the store written to for each request.
		p.tellOnce(n.Once, untold{make: func(string) Notice { return n }})
	}
}

// quietDeclines lists the reasons of declines that people are not told of as such: they, or the caller,
// have decided so themselves, or a notice of another kind tells of it.
var quietDeclines = []string{"paused", "approval-needed", "approval-denied", "caller-gone"}

// tellDecline tells that a rule declines payments of a key, once in an hour. Declines to a caller without
// a key are not told: anyone could cause them.
func (p *Payer) tellDecline(d Decline, at time.Time) {
	if !p.opts.Telling.On || d.KeyID == "" || slices.Contains(quietDeclines, d.Reason) {
		return
	}
	p.tellOnce(DeclinedNotice("", d, at).Once, untold{keyID: d.KeyID, make: func(name string) Notice { return DeclinedNotice(name, d, at) }})
}

// tellOnce tells soon what was not told under this Once.
func (p *Payer) tellOnce(once string, u untold) {
	t := &p.telling
	t.mu.Lock()
	known, _ := t.declined.ContainsOrAdd(once, struct{}{})
	t.mu.Unlock()
	if !known {
		p.tellSoon([]untold{u}, nil)
	}
}

// watchLow tells when a wallet has less than its mark, once until it has enough again. have is what it has of an asset.
func (p *Payer) watchLow(c choice, have money.Amount) {
	mark := p.opts.Telling.LowBalance
	switch {
	case !p.opts.Telling.On || mark == nil || c.wallet.ID == "" || c.wallet.Address == nil:
	case len(c.network.Assets) > 1 && have.Cmp(*mark) < 0:
		p.watchOthers(c, have)
	default:
		p.low(c, have, *mark)
	}
}

// watchOthers adds what a wallet has of the other assets of its network. No payment waits for that.
func (p *Payer) watchOthers(c choice, have money.Amount) {
	if p.enter() != nil {
		return
	}
	go func() {
		defer p.background.Done()
		ctx, cancel := context.WithTimeout(context.Background(), balanceTime)
		defer cancel()
		for _, a := range c.network.Assets {
			if a.Address == c.asset.Address {
				continue
			}
			other, err := p.balanceSoon(ctx, choice{wallet: c.wallet, network: c.network, asset: a}, p.slowView, afreshToWatch)
			if err != nil {
				return // a later reading tells
			}
			have = have.AddSaturated(other.amount)
		}
		p.low(c, have, *p.opts.Telling.LowBalance)
	}()
}

// low tells when what a wallet can spend falls below its mark.
func (p *Payer) low(c choice, have, mark money.Amount) {
	once, low := lowMark(c.wallet, c.asset.Currency()), have.Cmp(mark) < 0
	t := &p.telling
	t.mu.Lock()
	was, known := t.low.Get(once)
	t.low.Add(once, low)
	t.mu.Unlock()
	switch {
	case known && was == low:
	case low:
		at := p.now()
		p.tellSoon([]untold{{keyID: c.wallet.KeyID, make: func(name string) Notice {
			return lowBalanceNotice(name, c.wallet, c.network, once, have, mark, at)
		}}}, nil)
	default:
		p.tellSoon(nil, []string{once})
	}
}

// tell adds what people are told of the new row besides its budgets.
func (b *Begin) tell(v BeginView, list *[]Notice) error {
	if b.KeyName == "" {
		return nil
	}
	if b.New.Price != "" {
		last, err := v.Counter(b.New.Price)
		if err != nil {
			return err
		}
		if !last.IsZero() && b.New.Terms.Amount.Cmp(last.TimesSaturated(priceJump)) > 0 {
			*list = append(*list, priceNotice(b.KeyName, b.New, last))
		}
	}
	if b.New.Host == "" {
		return nil
	}
	if err := b.tellBeside(v, list); err != nil {
		return err
	}
	return b.tellPayee(v, list)
}

// tellBeside adds a notice of each further payee that the key has never paid, at a host whose payees are known.
func (b *Begin) tellBeside(v BeginView, list *[]Notice) error {
	for _, one := range b.Beside {
		row := b.New.Clone()
		row.Terms.PayTo, row.Terms.Amount = one.To, one.Amount
		payee := payeeMark(row)
		stays, err := noticed(v, payee, row.Created.Add(NoticeOnceKept/2))
		if err != nil {
			return err
		}
		if stays {
			continue
		}
		told, err := noticed(v, payee, row.Created)
		if err != nil {
			return err
		}
		host, err := noticed(v, payeesMark(row), row.Created)
		if err != nil {
			return err
		}
		n := Notice{At: row.Created}
		if host && !told {
			n = newPayeeNotice(b.KeyName, row)
		}
		n.Marks = []string{payee}
		*list = append(*list, n)
	}
	return nil
}

// tellPayee adds a notice of a host or payee that the key has never paid. Of a host from before there
// were notices, the payees are learned without a word.
func (b *Begin) tellPayee(v BeginView, list *[]Notice) error {
	row := b.New
	payee, payees := payeeMark(row), payeesMark(row)
	known, err := noticed(v, payees, row.Created)
	if err != nil {
		return err
	}
	paid := known
	if !known {
		if paid, err = v.Paid(row.KeyID, row.Host, row.Door.Dials()); err != nil {
			return err
		}
	}
	told := false
	if known {
		if told, err = noticed(v, payee, row.Created); err != nil {
			return err
		}
	}
	if told { // what is paid all the time stays known
		later := row.Created.Add(NoticeOnceKept / 2)
		host, err := noticed(v, payees, later)
		if err != nil {
			return err
		}
		if of, err := noticed(v, payee, later); err != nil || host && of {
			return err
		}
	}
	var n Notice
	switch {
	case told:
		n = Notice{At: row.Created}
	case known:
		n = newPayeeNotice(b.KeyName, row)
	case paid:
		n = Notice{At: row.Created}
	default:
		n = newHostNotice(b.KeyName, row)
	}
	n.Marks = []string{payee, payees}
	*list = append(*list, n)
	return nil
}
