package memory

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
	"github.com/purserpay/purser/x402"
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
	clock pay.Clock
	world string
	// genesis holds the hash of block 0 by network.
	genesis map[string]string
	secret  string // the nonces are derived with it

	keys      table[pay.Key]
	secrets   table[string] // key id -> plaintext
	orgs      table[pay.Organization]
	accounts  table[pay.Account]
	sessions  table[pay.Session]
	wallets   table[pay.Wallet]
	material  table[[]byte] // wallet id -> key material
	payments  table[*pay.Payment]
	events    table[pay.SpendEvent]
	counters  table[x402.Amount]
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

	safeBlocks  map[string]pay.ChainBlock
	pause       *pay.Pause
	deployments []string
	exec        string            // id of the exec key
	replaced    []string          // secrets that were replaced
	drawn       map[string]string // network -> id of the deployment's wallet
	lent        []loan            // in the order in which they were made
	restore     *pay.Restore
}

// New makes an empty store.
func New(o Options) *Store {
	s := &Store{}
	if s.rows.clock = o.Clock; o.Clock == nil {
		s.rows.clock = time.Now
	}
	s.rows.world, s.rows.secret = o.World, rand.Text()
	s.rows.genesis = map[string]string{}
	s.rows.marks, s.rows.deliveries, s.rows.claims = map[string]pay.NoticeMark{}, map[string]pay.Delivery{}, map[string]time.Time{}
	s.rows.safeBlocks, s.rows.attempts, s.rows.drawn = map[string]pay.ChainBlock{}, map[string]uint64{}, map[string]string{}
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

// change runs an operation under the lock and writes its entry to the audit. The operation must
// not fail after its first write. An empty change writes no entry.
func (s *Store) change(ctx context.Context, run func(r *rows) (pay.Change, error)) error {
	return s.do(ctx, func(r *rows) error {
		c, err := run(r)
		if err != nil {
			return err
		}
		return r.enter(ctx, c)
	})
}

// enter writes the entry of a change to the audit.
func (r *rows) enter(ctx context.Context, c pay.Change) error {
	e, err := c.Entry(ctx, r.clock())
	if err != nil || e == nil {
		return err
	}
	return r.Enter(e)
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
	r.left = r.left.clone()
	r.approvals = r.approvals.clone()
	r.audit, r.deployments, r.declined = slices.Clone(r.audit), slices.Clone(r.deployments), slices.Clone(r.declined)
	r.notices, r.marks, r.deliveries = slices.Clone(r.notices), maps.Clone(r.marks), maps.Clone(r.deliveries)
	r.genesis = maps.Clone(r.genesis)
	r.replaced, r.lent, r.drawn = slices.Clone(r.replaced), slices.Clone(r.lent), maps.Clone(r.drawn)
	r.safeBlocks, r.attempts, r.gone = maps.Clone(r.safeBlocks), maps.Clone(r.attempts), slices.Clone(r.gone)
	other := &Store{rows: r}
	other.embed()
	return other
}

// World reads the recorded world of a network.
func (s *Store) World(ctx context.Context, network string) (string, error) {
	return read(ctx, s, func(r *rows) (string, error) { return cmp.Or(r.world, r.genesis[network]), nil })
}

// SetWorld records the genesis hash of a network if no world is recorded.
func (s *Store) SetWorld(ctx context.Context, network, genesis string) (inForce string, err error) {
	if genesis == "" || genesis == pay.SandboxWorld {
		return "", fmt.Errorf("set world: %q is not the genesis hash of a network", genesis)
	}
	err = s.do(ctx, func(r *rows) error {
		if inForce = cmp.Or(r.world, r.genesis[network]); inForce == "" {
			inForce, r.genesis[network] = genesis, genesis
		}
		return nil
	})
	return inForce, err
}

// Health is nil while the store is open.
func (s *Store) Health(ctx context.Context) error {
	return s.do(ctx, func(*rows) error { return nil })
}

// Kind is "memory".
func (s *Store) Kind() string { return "memory" }

// SafeBlock reads the block that is kept for a network.
func (s *Store) SafeBlock(ctx context.Context, network string) (*pay.ChainBlock, error) {
	return read(ctx, s, func(r *rows) (*pay.ChainBlock, error) {
		if kept, ok := r.safeBlocks[network]; ok {
			return &kept, nil
		}
		return nil, nil
	})
}

// KeepSafeBlock keeps a later block in the place of the one that was found.
func (s *Store) KeepSafeBlock(ctx context.Context, network string, found *pay.ChainBlock, later pay.ChainBlock) error {
	return s.do(ctx, func(r *rows) error {
		kept, ok := r.safeBlocks[network]
		if ok == (found != nil) && (!ok || kept.Hash == found.Hash && later.Number > kept.Number) {
			r.safeBlocks[network] = later
		}
		return nil
	})
}

// ForgetSafeBlock removes the block that is kept for a network.
func (s *Store) ForgetSafeBlock(ctx context.Context, network string) error {
	return s.change(ctx, func(r *rows) (c pay.Change, err error) {
		if kept, ok := r.safeBlocks[network]; ok {
			delete(r.safeBlocks, network)
			c = pay.RPCTrusted(network, kept)
		}
		return c, nil
	})
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
