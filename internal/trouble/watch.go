package trouble

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

const (
	// kept is the age up to which a look counts as recent.
	kept = 2 * time.Second
	// lookEvery is the interval of looks of a watch that runs. walletsEvery is that of looks at balances, and refillEvery
	// while a wallet has too little, or was not looked at.
	lookEvery, walletsEvery, refillEvery = 30 * time.Second, 5 * time.Minute, 10 * time.Second
	// tellAfter bounds the time for which a trouble lasts before people are told of it.
	tellAfter = time.Minute
	// counted bounds the approvals that are counted.
	counted = 100
	// lookTime bounds a look.
	lookTime = 5 * time.Second
)

// Source says where a watch looks. Payer, Store and Log are required.
type Source struct {
	Payer interface {
		Health(ctx context.Context) pay.Health
	}
	Store interface {
		CountOpen(ctx context.Context, label string) (int, error)
		Approvals(ctx context.Context, q pay.ApprovalQuery) ([]pay.Approval, error)
		AddNotices(ctx context.Context, list []pay.Notice) error
	}
	// Keys lists keys, of which the first ones are looked at. Nil: none are.
	Keys func(ctx context.Context, after string, limit int) ([]pay.Key, error)
	// Facilitator may have a method Failing, which says why it gets no new payments.
	Facilitator any
	// Disk returns the bytes that are free where the database is, and the least that payments need; nil if they are not known.
	Disk func(ctx context.Context) (free, least *uint64)
	// Wallets lists the operator's wallets whose balances are known. Nil: none are looked at.
	Wallets func(ctx context.Context) ([]Wallet, error)
	// Notices lists destinations that do not take notices. Nil: there are none.
	Notices func(ctx context.Context) []string
	// Low is the balance below which a wallet is low; nil: only an empty one is.
	Low *money.Amount
	// Tells: people are told by notices.
	Tells bool
	Clock pay.Clock // default: time.Now
	Log   *slog.Logger
}

// Watch knows since when troubles last. It is safe for concurrent use.
type Watch struct {
	Source

	mu      sync.Mutex
	since   map[string]time.Time // by code
	told    map[string]Trouble   // by code
	wallets []Wallet
	due     time.Time // of the next look at balances
	last    []Trouble
	at      time.Time // of the last look; zero: none
}

// NewWatch makes a watch that has seen nothing yet.
func NewWatch(s Source) *Watch {
	if s.Clock == nil {
		s.Clock = time.Now
	}
	return &Watch{Source: s, since: map[string]time.Time{}, told: map[string]Trouble{}}
}

// Inherit takes over what the watch of the configuration before knew.
func (w *Watch) Inherit(from *Watch) {
	from.mu.Lock()
	since, told, wallets := from.since, from.told, from.wallets
	from.since, from.told = map[string]time.Time{}, map[string]Trouble{}
	from.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.told, w.wallets = since, told, wallets
}

// Recent lists the troubles of the last two seconds, for strangers who ask often.
func (w *Watch) Recent(ctx context.Context) []Trouble {
	w.mu.Lock()
	last, age := w.last, w.Clock().Sub(w.at)
	fresh := !w.at.IsZero() && age >= 0 && age < kept
	w.mu.Unlock()
	if fresh {
		return slices.Clone(last)
	}
	return w.Now(ctx)
}

// Now lists the troubles of this moment, the worst first.
func (w *Watch) Now(ctx context.Context) []Trouble {
	found := Find(w.see(ctx))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.Clock()
	known := w.since
	w.since = map[string]time.Time{}
	for i := range found {
		t := &found[i]
		if t.Since.IsZero() {
			t.Since = w.at
			if before, lasts := known[t.Code]; lasts {
				t.Since = before
			}
		}
		t.Since = t.Since.UTC()
		w.since[t.Code] = t.Since
	}
	w.last = found
	return slices.Clone(found)
}

// see looks at everything. Figures that cannot be had are left out: the store's own trouble says so.
func (w *Watch) see(ctx context.Context) Sight {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	s := Sight{Health: w.Payer.Health(ctx)}
	if f, ok := w.Facilitator.(interface{ Failing() error }); ok {
		s.FacilitatorRests = f.Failing()
	}
	if w.Disk != nil {
		s.DiskFree, s.DiskLeast = w.Disk(ctx)
	}
	s.Disputed, _ = w.Store.CountOpen(ctx, "disputed")
	s.Unresolved, _ = w.Store.CountOpen(ctx, "unresolved")
	held, _ := w.Store.Approvals(ctx, pay.ApprovalQuery{State: pay.ApprovalPending, Limit: counted, Now: w.Clock()})
	s.Held = len(held)
	if w.Keys != nil {
		keys, _ := w.Keys(ctx, "", maxKeys)
		s.PausedHosts = pausedHosts(keys)
	}
	if w.Notices != nil {
		s.Notices = w.Notices(ctx)
	}
	s.Empty, s.Low = w.balances(ctx)
	return s
}

// balances returns the wallets that have too little. It looks again when it is time.
func (w *Watch) balances(ctx context.Context) (empty, low []Wallet) {
	w.mu.Lock()
	now, list := w.Clock(), w.wallets
	look, failed := w.Wallets != nil && !now.Before(w.due), false
	if look {
		w.due = now.Add(walletsEvery) // others do not look at the same time
	}
	w.mu.Unlock()
	if look {
		seen, err := w.Wallets(ctx)
		if failed = err != nil; failed {
			w.Log.Debug("balances not looked at", "error", err)
		} else {
			list = seen
		}
	}
	for _, one := range list {
		switch {
		case one.Balance.IsZero():
			empty = append(empty, one)
		case w.Low != nil && one.Balance.Cmp(*w.Low) < 0:
			low = append(low, one)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wallets = list
	if look && (failed || len(empty)+len(low) > 0) {
		w.due = now.Add(refillEvery)
	}
	return empty, low
}

// Run looks again and again until ctx ends, and tells people of what lasts, and of its end. Where no notices are sent it
// does nothing: an RPC counts its questions, and those who look at a trouble have it looked for.
func (w *Watch) Run(ctx context.Context) {
	if !w.Tells {
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		w.Once(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Once is one round of [Watch.Run].
func (w *Watch) Once(ctx context.Context) {
	if err := w.tell(ctx, w.Now(ctx)); err != nil && ctx.Err() == nil {
		w.Log.Warn("people not told of a trouble", "error", err)
	}
}

// toldElsewhere has the codes of troubles of which people are told by notices of other kinds.
var toldElsewhere = []string{"paused", "hosts-paused", "wallet-low"}

// tell tells people of troubles that last, and of those that are over.
func (w *Watch) tell(ctx context.Context, list []Trouble) error {
	if !w.Tells {
		return nil
	}
	now := w.Clock()
	w.mu.Lock()
	var news []pay.Notice
	told := map[string]Trouble{}
	for _, t := range list {
		_, known := w.told[t.Code]
		switch {
		case known:
			told[t.Code] = w.told[t.Code]
		case t.Effect == Look || slices.Contains(toldElsewhere, t.Code) || now.Sub(t.Since) < tellAfter:
		default:
			told[t.Code] = t
			news = append(news, notice(t, now))
		}
	}
	for code, t := range w.told {
		if _, lasts := told[code]; !lasts {
			news = append(news, overNotice(t, now))
		}
	}
	w.mu.Unlock()
	if len(news) > 0 {
		if err := w.Store.AddNotices(ctx, news); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = told
	return nil
}

// notice tells of a trouble. Several nodes notice it at nearly the same time, and people are told once.
func notice(t Trouble, at time.Time) pay.Notice {
	return pay.Notice{
		At: at, Kind: pay.NoticeTrouble, Once: "trouble/" + t.Code + "/" + t.Since.Truncate(time.Hour).Format(time.RFC3339),
		Title: t.Says, Text: t.Says + ". " + t.Means + " " + t.Do,
		Figures: map[string]string{"trouble": t.Code, "effect": string(t.Effect), "since": t.Since.Format(time.RFC3339), "page": t.Page},
	}
}

// overNotice tells that a trouble is over.
func overNotice(t Trouble, at time.Time) pay.Notice {
	return pay.Notice{
		At: at, Kind: pay.NoticeTrouble, Once: "trouble-over/" + t.Code + "/" + t.Since.Truncate(time.Hour).Format(time.RFC3339),
		Title: "Over: " + t.Says, Text: "This is over: " + t.Says + ". It had lasted since " + t.Since.Format("15:04 UTC on 2 January") + ".",
		Figures: map[string]string{"trouble": t.Code, "over": "true", "since": t.Since.Format(time.RFC3339)},
	}
}
