package pay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

const (
	// reconcileEvery is the pause between two looks at the chain.
	reconcileEvery = 5 * time.Second
	// reconcileTime bounds a pass. The next one follows at once, after the store was asked again.
	reconcileTime = 20 * time.Second
	// reconcileRetry is the pause before a refused question is asked again, once.
	reconcileRetry = 250 * time.Millisecond
	// reconcileMargin bounds how far our clock may have been ahead of the chain's when a backup was
	// taken without its block.
	reconcileMargin = 30 * time.Minute
	// reconcileOverlap is the number of blocks that are read again each time. An RPC of several
	// machines may have asked one that was behind, which did not know the newest blocks.
	reconcileOverlap = 150
	// reconcileChunk is the most blocks that one step takes.
	reconcileChunk = 2000
	// reconcileFound is the number of payments that are booked at once.
	reconcileFound = 200
	// reconcileWiden is the number of answers after which the RPC is asked for more blocks at once.
	reconcileWiden = 16
)

// reconciling holds this process's state of reconciling beside the store's.
type reconciling struct {
	mu       sync.Mutex
	networks map[string]NetworkReconciling
	sizes    map[string]uint64 // how many blocks the RPC answers for, by network
	answers  int               // since it was asked for more of them
	goOn     map[string]uint64 // where a look goes on that did not come to its end, by network
	told     string            // the last problem that was logged
	restored time.Time         // Restore.At of what is reconciled now
	seen     time.Time         // when this process saw that first
	// heads holds the time of the newest block of each network when this process saw it first.
	heads map[string]time.Time
}

// ReconcileStatus is the progress of reconciling.
type ReconcileStatus struct {
	Restore
	// Until is the time that our clock must have passed, whatever the chain says. It is the last
	// moment at which a payment from before the restore could move money or be repeated.
	Until time.Time
	// Target is the time that a safe block must have reached.
	Target time.Time
	// Networks lists the networks of the store's wallets, by name.
	Networks []NetworkReconciling
	// Operator: only an operator's word can end it, because a network has no RPC.
	Operator bool
}

// NetworkReconciling is the progress on one network.
type NetworkReconciling struct {
	Name string
	Scan
	Safe    ChainBlock // the newest block that may be read; zero if the RPC has not answered
	Done    bool       // everything is read
	Unheard bool       // there is no RPC for it
	Err     error      // why it does not go on
}

// reconcileUntil returns the times that the clock and a safe block must have reached. A restore in
// the future was noted by a clock that was set back, before this process began.
func (p *Payer) reconcileUntil(r *Restore) (clock, chain time.Time) {
	p.reconcile.mu.Lock()
	defer p.reconcile.mu.Unlock()
	if p.reconcile.seen.IsZero() || !p.reconcile.restored.Equal(r.At) { // a running node may begin to reconcile again
		p.reconcile.restored, p.reconcile.seen, p.reconcile.heads = r.At, p.now(), map[string]time.Time{}
	}
	at := r.At
	if p.reconcile.seen.Before(at) {
		at = p.reconcile.seen
	}
	chain = at.Add(MaxValidity)
	return chain.Add(RepeatGrace), chain
}

// Reconciling returns the progress of a restored store, or nil when there is nothing to reconcile.
func (p *Payer) Reconciling(ctx context.Context) (*ReconcileStatus, error) {
	r, err := p.store.Restored(ctx)
	if err != nil || r == nil {
		return nil, err
	}
	s := &ReconcileStatus{Restore: *r}
	s.Until, s.Target = p.reconcileUntil(r)
	p.reconcile.mu.Lock()
	defer p.reconcile.mu.Unlock()
	for _, head := range p.reconcile.heads {
		if least := head.Add(MaxValidity); s.Target.Before(least) {
			s.Target = least
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.reconcile.networks)) {
		n := p.reconcile.networks[name]
		s.Networks = append(s.Networks, n)
		s.Operator = s.Operator || n.Unheard && r.Accepted == nil
	}
	return s, nil
}

// AcceptRisk ends reconciling by an operator's word, after what is under way: ErrNotReconciling.
func (p *Payer) AcceptRisk(ctx context.Context, by string) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.background.Done()
	if err := p.store.AcceptRisk(ctx, Acceptance{At: p.now().UTC(), By: words.Truncate(by, maxBy)}); err != nil {
		return err
	}
	p.log.Warn("reconciling: an operator accepts that payments which the backup does not know stay unknown", "by", by)
	return nil
}

// reconcileLoop reads the chain while the store is to be reconciled, until ctx ends. A store that runs may have to be: see
// [Restore.Lost].
func (p *Payer) reconcileLoop(ctx context.Context) {
	for {
		if _, behind, _ := p.ReconcileOnce(ctx); behind && ctx.Err() == nil { // the error is in the status
			continue
		}
		if !pause(ctx, failpoint.Every(reconcileEvery)) {
			return
		}
	}
}

// ReconcileOnce reads on for a bounded time. It reports whether the store is still to be
// reconciled, and whether there is more to read at once.
func (p *Payer) ReconcileOnce(ctx context.Context) (pending, behind bool, err error) {
	if err := p.enter(); err != nil {
		return false, false, nil //nolint:nilerr // closing: nothing to do any more
	}
	defer p.background.Done()
	r, err := p.store.Restored(ctx)
	if err != nil || r == nil {
		return err != nil, false, err
	}
	wallets, err := p.allWallets(ctx)
	if err != nil {
		return true, false, fmt.Errorf("listing wallets: %w", err)
	}
	states, done := map[string]NetworkReconciling{}, true
	for _, name := range slices.Sorted(maps.Keys(wallets)) {
		s := p.reconcileNetwork(ctx, r, name, wallets[name])
		behind = behind || s.Err == nil && s.Safe.Number >= s.Next
		done = done && s.Done
		states[name] = s
	}
	p.reconcileState(states)
	if until, _ := p.reconcileUntil(r); !done && r.Accepted == nil || p.now().Before(until) {
		return true, behind, nil
	}
	if err := p.store.EndReconciling(ctx, p.now().UTC()); err != nil && !errors.Is(err, ErrNotReconciling) {
		return true, false, fmt.Errorf("ending reconciling: %w", err)
	}
	p.log.Warn("the restored store is reconciled: payments resume", "backup", r.Taken, "booked", r.Booked, "accepted", r.Accepted != nil)
	return false, false, nil
}

// reconcileState stores the progress for status requests, and logs a new problem once.
func (p *Payer) reconcileState(states map[string]NetworkReconciling) {
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(states)) {
		if err := states[name].Err; err != nil {
			problems = append(problems, name+": "+err.Error())
		}
	}
	text := strings.Join(problems, "; ")
	p.reconcile.mu.Lock()
	defer p.reconcile.mu.Unlock()
	p.reconcile.networks = states
	if text != p.reconcile.told && text != "" {
		p.log.Error("reconciling does not go on", "error", text)
	}
	p.reconcile.told = text
}

// allWallets lists all wallets that have an address, deleted ones too, by network, oldest first.
func (p *Payer) allWallets(ctx context.Context) (map[string][]Wallet, error) {
	const page = 1000
	all := map[string][]Wallet{}
	for after := ""; ; {
		list, err := p.store.AllWallets(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, w := range list {
			after = w.ID
			if w.Address != nil {
				all[w.Network] = append(all[w.Network], w)
			}
		}
		if len(list) < page {
			return all, nil
		}
	}
}

// anotherChain says that the RPC does not have the chain that the backup was taken on.
func (p *Payer) anotherChain(n x402.Network, format string, args ...any) error {
	return fmt.Errorf("the RPC (%s) is on another chain than the backup was taken on: "+format,
		append([]any{p.opts.Names.of(SourceRPC, n.Name)}, args...)...)
}

// unheard says that no RPC tells of a network.
func (p *Payer) unheard(network string) error {
	return fmt.Errorf("no RPC (%s) tells of this network: payments resume when an operator says so (%s)",
		p.opts.Names.of(SourceRPC, network), p.opts.Names.AcceptRisk)
}

// reconcileNetwork reads a network on.
func (p *Payer) reconcileNetwork(ctx context.Context, r *Restore, name string, wallets []Wallet) NetworkReconciling {
	s := NetworkReconciling{Name: name, Scan: r.Scans[name]}
	n, ok := p.known(name)
	ledger, reads := p.opts.Chain.(ChainScanner)
	switch {
	case !ok:
		s.Err = fmt.Errorf("unknown network %q", name)
		return s
	case !reads:
		s.Unheard, s.Err = true, p.unheard(name)
		return s
	}
	err := p.readOn(ctx, ledger, r, n, wallets, &s)
	if errors.Is(err, ErrUnwatched) {
		s.Unheard, err = true, p.unheard(name)
	}
	s.Err = err
	return s
}

// readOn reads a network's blocks up to the safe one, booking what it finds.
func (p *Payer) readOn(ctx context.Context, ledger ChainScanner, r *Restore, n x402.Network, wallets []Wallet, s *NetworkReconciling) error {
	for _, a := range n.Assets {
		if err := p.CheckChain(ctx, n, a); err != nil {
			return fmt.Errorf("checking the chain: %w", err)
		}
	}
	safe, err := ledger.Safe(ctx, n)
	if err != nil {
		return err
	}
	if safe.Time.After(p.now().Add(clockStop)) {
		return fmt.Errorf("%w: its safe block is of %s", errAhead, safe.Time.UTC().Format(time.RFC3339))
	}
	s.Safe = safe
	if b := r.blockOn(n.Name); b != nil && (safe.Number < b.Number || safe.Number == b.Number && safe.Hash != b.Hash) {
		return p.anotherChain(n, "its safe block is %d, %s, and the backup has block %d, %s", safe.Number, safe.Hash, b.Number, b.Hash)
	}
	if s.First == 0 {
		if s.First, err = firstBlock(ctx, ledger, r, n); err != nil {
			return err
		}
		s.Next = s.First
	}
	target, err := p.reconcileTarget(ctx, r, n)
	if err != nil {
		return err
	}
	from := max(s.First, s.Next-min(s.Next, reconcileOverlap))
	if at := p.goOnAt(n.Name, 0); at > from && at <= s.Next {
		from = at
	}
	defer func() {
		if from+reconcileOverlap > safe.Number { // the newest ones are read again
			from = 0
		}
		p.goOnAt(n.Name, from)
	}()
	started, failed := time.Now(), uint64(0)
	for from <= safe.Number && time.Since(started) < reconcileTime {
		through, err := p.readBlocks(ctx, ledger, r, n, wallets, s, from)
		switch {
		case err == nil:
			from = through + 1
		case failed == from || !pause(ctx, reconcileRetry):
			return err
		default:
			failed = from
		}
	}
	// An RPC that is further back than what is read again proves nothing.
	s.Done = from == safe.Number+1 && !safe.Time.Before(target)
	return nil
}

// reconcileTarget returns the time that a network's safe block must have reached. Soon after the restore, the newest block
// of the first look tells the time, however wrong the clock is that noted it. A process that comes later goes by what was
// noted: its wait does not begin anew.
func (p *Payer) reconcileTarget(ctx context.Context, r *Restore, n x402.Network) (time.Time, error) {
	_, target := p.reconcileUntil(r)
	p.reconcile.mu.Lock()
	first, soon := p.reconcile.heads[n.Name], p.reconcile.seen.Before(r.At.Add(clockStop))
	p.reconcile.mu.Unlock()
	if ledger, tells := p.opts.Chain.(Header); tells && soon && first.IsZero() {
		head, err := ledger.Head(ctx, n)
		if err == nil && head.Time.After(p.now().Add(clockStop)) {
			err = errAhead
		}
		if err != nil {
			return target, fmt.Errorf("newest block: %w", err)
		}
		first = head.Time
		p.reconcile.mu.Lock()
		p.reconcile.heads[n.Name] = first
		p.reconcile.mu.Unlock()
	}
	if least := first.Add(MaxValidity); target.Before(least) {
		target = least
	}
	return target, nil
}

// pause waits, and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// firstBlock returns the first block that the backup does not know.
func firstBlock(ctx context.Context, ledger ChainScanner, r *Restore, n x402.Network) (uint64, error) {
	if b := r.blockOn(n.Name); b != nil {
		return b.Number + 1, nil
	}
	b, err := ledger.Before(ctx, n, r.Taken.Add(-reconcileMargin))
	if err != nil {
		return 0, err
	}
	return max(b.Number, 1), nil
}

// blockOn returns the block of the backup on a network, if it was noted.
func (r *Restore) blockOn(network string) *ChainBlock {
	if r.Block == nil || r.Block.Network != network {
		return nil
	}
	return &ChainBlock{Number: r.Block.Number, Hash: strings.ToLower(r.Block.Hash), Time: r.Block.Time}
}

// readBlocks reads some blocks of every asset and books what is new, in one step.
func (p *Payer) readBlocks(ctx context.Context, ledger ChainScanner, r *Restore, n x402.Network, wallets []Wallet, s *NetworkReconciling, from uint64) (uint64, error) {
	byAddress := map[x402.Address]Wallet{} // an address has one wallet
	for _, w := range wallets {
		byAddress[*w.Address] = w
	}
	addresses := slices.SortedFunc(maps.Keys(byAddress), func(a, b x402.Address) int { return slices.Compare(a.Bytes(), b.Bytes()) })
	through := min(from+reconcileChunk-1, s.Safe.Number)
	if size := p.scanSize(n.Name, 0); size > 0 {
		through = min(through, from+size-1)
	}
	step := ReconcileStep{Network: n.Name}
	for _, a := range n.Assets {
		for next := from; next <= through; {
			answer, err := ledger.Used(ctx, UsedQuery{
				Network: n, Asset: a, Wallets: addresses, From: next, To: through,
				Safe: s.Safe, Known: r.blockOn(n.Name), Size: p.scanSize(n.Name, 0),
			})
			if err != nil {
				return 0, err
			}
			if err := p.sameChain(ctx, r, n, answer.Chain); err != nil {
				return 0, err
			}
			p.scanSize(n.Name, answer.Size)
			for _, u := range answer.Used {
				if !u.Matched {
					step.Strange = append(step.Strange, fmt.Sprintf(
						"authorization %s of %s was used in %s, which has no transfer of it", u.Nonce, u.From, u.Transaction))
					continue
				}
				w := byAddress[u.From]
				found, err := p.found(ctx, w, a, u)
				if err != nil {
					return 0, err
				}
				step.Found = append(step.Found, found)
			}
			for _, u := range answer.Unexplained {
				step.Strange = append(step.Strange, fmt.Sprintf(
					"%s has moved %s from %s to %s, and no authorization of it was found", u.Transaction, money.Text(u.Value), u.From, u.To))
			}
			next = answer.Through + 1
		}
	}
	step.Scan = Scan{First: s.First, Next: max(s.Next, through+1)}
	return through, p.book(ctx, r, step, s)
}

// scanSize remembers how many blocks the RPC answers for at once.
func (p *Payer) scanSize(network string, size uint64) uint64 {
	p.reconcile.mu.Lock()
	defer p.reconcile.mu.Unlock()
	if size > 0 {
		if p.reconcile.answers++; p.reconcile.answers >= reconcileWiden {
			p.reconcile.answers = 0
			size = min(2*size, reconcileChunk)
		}
		p.reconcile.sizes[network] = size
	}
	return p.reconcile.sizes[network]
}

// goOnAt tells where the last look ended, 0 at its end, and remembers where this one did: an RPC
// that refuses now and then is read on.
func (p *Payer) goOnAt(network string, block uint64) (last uint64) {
	p.reconcile.mu.Lock()
	defer p.reconcile.mu.Unlock()
	last = p.reconcile.goOn[network]
	p.reconcile.goOn[network] = block
	return last
}

// sameChain compares the chain that an answer is from with the store's and the backup's.
func (p *Payer) sameChain(ctx context.Context, r *Restore, n x402.Network, id ChainIdentity) error {
	if err := p.sameWorld(ctx, n, SourceRPC, id); err != nil {
		return err
	}
	if b := r.Block; b != nil && b.Network == n.Name && !strings.EqualFold(b.Genesis, id.Genesis) {
		return p.anotherChain(n, "genesis %s instead of %s", id.Genesis, b.Genesis)
	}
	return nil
}

// book writes a step, unless it says nothing new.
func (p *Payer) book(ctx context.Context, r *Restore, step ReconcileStep, s *NetworkReconciling) error {
	if len(step.Found) == 0 && len(step.Strange) == 0 && r.Scans[step.Network] == step.Scan {
		return nil
	}
	for len(step.Found) > reconcileFound { // the last part says that all is read
		part := ReconcileStep{Network: step.Network, Scan: s.Scan, Found: step.Found[:reconcileFound]}
		if err := p.bookPart(ctx, r, part); err != nil {
			return err
		}
		step.Found = step.Found[reconcileFound:]
	}
	if err := p.bookPart(ctx, r, step); err != nil {
		return err
	}
	s.Scan = step.Scan
	return nil
}

func (p *Payer) bookPart(ctx context.Context, r *Restore, step ReconcileStep) error {
	write, cancel := detached(ctx)
	defer cancel()
	booked, err := p.store.Reconcile(write, step)
	if err != nil {
		return fmt.Errorf("booking what the chain tells: %w", err)
	}
	for _, text := range step.Strange {
		if !r.knows(text) {
			p.log.Error("reconciling: not booked", "what", text)
		}
	}
	r.Advance(step, len(booked))
	for _, row := range booked {
		p.log.Warn("payment found on the chain and booked", "payment", row.ID, "key", row.KeyID, "transaction", row.Transaction, "amount", row.Terms.Amount.String())
		p.opts.Observer.Changed(row, Open, VerdictSettled)
	}
	return nil
}
