package memory

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// Options say how to make a store.
type Options struct {
	// Clock tells the time of the audit. Default: time.Now.
	Clock pay.Clock
	// World is the recorded world: pay.SandboxWorld, or "" for a store that belongs to none yet.
	World string
}

// Store is a pay.Store in memory. It is safe for concurrent use.
type Store struct {
	storekit.Book

	mu     sync.Mutex
	rows   rows
	closed bool
}

var _ pay.Store = (*Store)(nil)

// rows are everything that a store keeps.
type rows struct {
	clock  pay.Clock
	world  string
	secret string // the nonces are derived with it

	settings table[[]byte] // by storekit.Name

	keys      table[pay.Key]
	secrets   table[string] // key id -> plaintext
	orgs      table[pay.Organization]
	accounts  table[pay.Account]
	sessions  table[pay.Session]
	wallets   table[pay.Wallet]
	material  table[[]byte] // wallet id -> key material
	payments  table[*pay.Payment]
	events    table[pay.SpendEvent]
	counters  table[money.Amount]
	attempts  map[string]uint64    // the last one of removed payments, by key and idempotency key
	gone      []pay.SpendEvent     // of removed payments, for the sums of days
	removed   time.Time            // the latest pay.Removal.Before
	left      table[pay.WalletDay] // by wallet id and day
	audit     []pay.AuditEntry
	declined  []pay.Declined
	approvals table[pay.Approval]

	notices    []pay.Notice // oldest first
	marks      map[string]pay.NoticeMark
	deliveries map[string]pay.Delivery
	claims     map[string]time.Time // destination -> the end of its claim

	exec     string            // id of the exec key
	replaced map[string]string // secrets that were replaced -> key id
	lent     []loan            // in the order in which they were made
}

// New makes an empty store.
func New(o Options) *Store {
	s := &Store{}
	if s.rows.clock = o.Clock; o.Clock == nil {
		s.rows.clock = time.Now
	}
	s.rows.world, s.rows.secret = o.World, rand.Text()
	s.rows.marks, s.rows.deliveries, s.rows.claims = map[string]pay.NoticeMark{}, map[string]pay.Delivery{}, map[string]time.Time{}
	s.rows.attempts, s.rows.replaced = map[string]uint64{}, map[string]string{}
	s.embed()
	return s
}

// embed makes the operations of the book write this store.
func (s *Store) embed() {
	s.Book = storekit.NewBook(func(ctx context.Context, _ []string, run func(storekit.BookTx) error) error {
		return s.do(ctx, func(r *rows) error { return run(r) })
	})
}

// do runs an operation under the lock. It fails if the context has ended or the store is closed.
func (s *Store) do(ctx context.Context, run func(r *rows) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed {
		return fmt.Errorf("%w: store is closed", pay.ErrUnavailable)
	}
	return run(&s.rows)
}

// read copies what a function finds under the lock.
func read[T any](ctx context.Context, s *Store, find func(r *rows) (T, error)) (found T, err error) {
	err = s.do(ctx, func(r *rows) error {
		row, err := find(r)
		if err == nil {
			found = copied(row)
		}
		return err
	})
	return found, err
}

// Enter numbers and keeps an audit entry.
func (r *rows) Enter(e *pay.AuditEntry) error {
	e.Number = uint64(len(r.audit)) + 1
	r.audit = append(r.audit, *e)
	return nil
}

// Now tells the time.
func (r *rows) Now() time.Time { return r.clock() }

// Room is nil: a store in memory has room.
func (r *rows) Room() error { return nil }

// Close makes every operation fail with pay.ErrUnavailable from now on.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// Reopen ends all leases, as opening a store after a crash does.
func (s *Store) Reopen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.rows.lapse(nil, nil, new(int)) // memory does not fail
}

// Snapshot copies the store. Writes to one of the two do not change the other.
func (s *Store) Snapshot() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows
	r.keys, r.secrets, r.orgs = r.keys.clone(), r.secrets.clone(), r.orgs.clone()
	r.accounts, r.sessions = r.accounts.clone(), r.sessions.clone()
	r.wallets, r.material = r.wallets.clone(), r.material.clone()
	r.payments, r.events, r.counters = r.payments.clone(), r.events.clone(), r.counters.clone()
	r.left, r.settings = r.left.clone(), r.settings.clone()
	r.approvals = r.approvals.clone()
	r.audit, r.declined = slices.Clone(r.audit), slices.Clone(r.declined)
	r.notices, r.marks, r.deliveries = slices.Clone(r.notices), maps.Clone(r.marks), maps.Clone(r.deliveries)
	r.replaced, r.lent = maps.Clone(r.replaced), slices.Clone(r.lent)
	r.attempts, r.gone = maps.Clone(r.attempts), slices.Clone(r.gone)
	other := &Store{rows: r}
	other.embed()
	return other
}

// World reads the recorded world of a network.
func (s *Store) World(ctx context.Context, network string) (string, error) {
	return read(ctx, s, func(r *rows) (string, error) { return storekit.WorldOf(r, network) })
}

// Health is nil while the store is open.
func (s *Store) Health(ctx context.Context) error {
	return s.do(ctx, func(*rows) error { return nil })
}

// Kind is "memory".
func (s *Store) Kind() string { return "memory" }

// Setting reads a setting.
func (r *rows) Setting(name storekit.Name) ([]byte, error) { return r.settings.row[string(name)], nil }

// PutSetting writes a setting.
func (r *rows) PutSetting(name storekit.Name, text []byte) error {
	if text == nil {
		r.settings.delete(string(name))
	} else {
		r.settings.put(string(name), text)
	}
	return nil
}

// FixedWorld returns the world that the store was made for.
func (r *rows) FixedWorld() (string, error) { return r.world, nil }

// SafeBlock reads the block that is kept for a network.
func (s *Store) SafeBlock(ctx context.Context, network string) (*pay.ChainBlock, error) {
	return read(ctx, s, func(r *rows) (*pay.ChainBlock, error) { return storekit.SafeBlockOf(r, network) })
}

// Check compares the counters and spend events with the payments, and looks for contradictions.
func (s *Store) Check(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.rows
	counters := pay.CounterCheck{Removed: r.removed}
	var faults []error
	for _, p := range r.payments.ascending("") {
		for _, what := range p.Contradictions() {
			faults = append(faults, fmt.Errorf("payment %s %s", p.ID, what))
		}
		if e, ok := r.events.get(p.EventID); p.State == pay.Settled && (!ok || e.PaymentID != p.ID || e.Amount != p.Moved()) {
			faults = append(faults, fmt.Errorf("payment %s is settled, but its spend event is %+v", p.ID, e))
		}
		faults = append(faults, counters.Add(p))
	}
	for _, e := range r.events.ascending("") {
		p, ok := r.payments.get(e.PaymentID)
		if !ok || e.Corrects == "" && p.EventID != e.ID || e.Corrects != "" && (!p.Disputed || p.EventID != e.Corrects) {
			faults = append(faults, fmt.Errorf("spend event %s is not that of its payment", e.ID))
		}
	}
	for c, have := range r.counters.ascending("") {
		faults = append(faults, counters.Compare(pay.Counter(c), have))
	}
	return errors.Join(append(faults, counters.Missing()...)...)
}

// copied copies a row the way a store on disk does, by its JSON.
func copied[T any](row T) (c T) {
	text, err := json.Marshal(row)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		panic(fmt.Sprintf("a row that cannot be stored: %v", err))
	}
	return c
}
