package pay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/x402"
)

// SafeBlockReader reads the safe blocks that are kept.
type SafeBlockReader interface {
	// SafeBlock returns the block that is kept for a network; nil: none.
	SafeBlock(ctx context.Context, network string) (*ChainBlock, error)
}

// SafeBlocks is the part of a store that keeps the last safe block of each network.
type SafeBlocks interface {
	SafeBlockReader

	// KeepSafeBlock keeps a later block in the place of the one that was found, nil for none. It
	// does nothing if another one is kept by now, or if the block is not later.
	KeepSafeBlock(ctx context.Context, network string, found *ChainBlock, later ChainBlock) error
	// ForgetSafeBlock keeps none any more.
	ForgetSafeBlock(ctx context.Context, network string) error
}

// advanceEvery is the least time between a kept block and the one that takes its place.
const advanceEvery = time.Minute

var (
	errSilent    = errors.New("the second RPC gave no evidence")
	errDisagrees = errors.New("the RPC and the second one contradict each other")
)

// rpcWords remembers what the word of each RPC was worth, for health and to log changes only.
type rpcWords struct {
	mu   sync.Mutex
	last map[rpcOf]rpcWord
}

// rpcOf names one RPC: the first or second one of a network.
type rpcOf struct {
	source  TimeSource
	network string
}

// rpcWord holds why an RPC's word counted for nothing; the zero value: it counted.
type rpcWord struct {
	reason string
	err    error
	at     time.Time
}

// heard remembers an RPC's last word, and reports whether it is worth a log line.
func (w *rpcWords) heard(s rpcOf, word rpcWord) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.last[s]
	w.last[s] = word
	return word.reason != was.reason
}

// problem tells what is wrong with an RPC, or nil. Another chain or a fork stays until a good word.
func (w *rpcWords) problem(s rpcOf, now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	word := w.last[s]
	if word.reason != ignoredForeign && word.reason != ignoredFork && now.Sub(word.at).Abs() > maxBackoff {
		return nil
	}
	return word.err
}

// ignore tells that an RPC's word counts for nothing, wholly or in part.
func (p *Payer) ignore(ctx context.Context, s TimeSource, n x402.Network, reason string, err error) error {
	err = fmt.Errorf("%s: %w", p.opts.Names.of(s, n.Name), err)
	p.opts.Observer.Ignored(s, n.Name, reason)
	if p.words.heard(rpcOf{s, n.Name}, rpcWord{reason, err, p.now()}) {
		p.log.ErrorContext(ctx, "evidence from the chain is ignored", "reason", reason, "error", err)
	}
	return err
}

// ask traces an authorization with one RPC, and returns as much as counts: see [admitted].
func (p *Payer) ask(ctx context.Context, s TimeSource, c Chain, q TraceQuery) (Trace, error) {
	var err error
	keeps := p.keeps(q.Network)
	if keeps {
		if q.Kept, err = p.store.SafeBlock(ctx, q.Network.Name); err != nil {
			return Trace{}, fmt.Errorf("reading the kept block: %w", err)
		}
	}
	sent := p.now()
	t, err := c.Trace(ctx, q)
	if err != nil {
		return Trace{}, err
	}
	received := p.now()
	if q.Authorization.Rail == x402.RailUpto && t.Used && t.Moved.IsZero() { // as after a cancellation, nothing can move any more
		t.Used, t.Canceled = false, true
	}
	if err = p.sameWorld(ctx, q.Network, s, t.Chain); is[*foreignError](err) {
		return Trace{}, p.ignore(ctx, s, q.Network, ignoredForeign, err)
	}
	if err != nil {
		return Trace{}, err
	}
	p.time.sawBlock(p.sourceOn(s, q.Network), sent, received, t.newest(received))
	t, object := admitted(t, q.Kept, sent, received)
	if object.reason != "" {
		err = p.ignore(ctx, s, q.Network, object.reason, object.err)
		if object.reason != ignoredFork {
			err = nil // it has no word on safe blocks, and the rest counts
		}
		return t, err
	}
	p.words.heard(rpcOf{s, q.Network.Name}, rpcWord{})
	if keeps && s == SourceRPC {
		p.advance(ctx, q, t)
	}
	return t, nil
}

// advance keeps the safe block of an admitted trace if it is later by enough, the first on trust.
func (p *Payer) advance(ctx context.Context, q TraceQuery, t Trace) {
	if t.SafeHash == "" || q.Kept != nil && (t.SafeNumber <= q.Kept.Number || t.SafeTime.Before(q.Kept.Time.Add(advanceEvery))) {
		return
	}
	later := ChainBlock{Number: t.SafeNumber, Hash: t.SafeHash, Time: t.SafeTime}
	if err := p.store.KeepSafeBlock(ctx, q.Network.Name, q.Kept, later); err != nil {
		p.log.WarnContext(ctx, "safe block not kept", "network", q.Network.Name, "block", later.Number, "error", err)
	}
}

// keepFirst keeps the first safe block of a network, on trust, as early as can be.
func (p *Payer) keepFirst(ctx context.Context, n x402.Network) {
	ledger, tells := p.opts.Chain.(ChainScanner)
	if !tells || !p.keeps(n) {
		return
	}
	kept, err := p.store.SafeBlock(ctx, n.Name)
	if err == nil && kept == nil {
		var safe ChainBlock
		safe, err = ledger.Safe(ctx, n)
		if err == nil && !safe.Time.After(p.now().Add(clockStop)) {
			err = p.store.KeepSafeBlock(ctx, n.Name, nil, safe)
		}
	}
	if err != nil {
		p.log.DebugContext(ctx, "no safe block kept yet", "network", n.Name, "error", err)
	}
}

// keeps reports whether safe blocks are kept: the sandbox's chain is a new one each time.
func (p *Payer) keeps(n x402.Network) bool {
	p.identity.mu.Lock()
	defer p.identity.mu.Unlock()
	return p.identity.worlds[n.Name] != SandboxWorld
}

// both asks the second RPC, if there is one, to confirm that a payment's money did not move. Without
// its word the trace says nothing of safe blocks.
func (p *Payer) both(ctx context.Context, row *Payment, q TraceQuery, t Trace) Trace {
	if p.opts.Second == nil || !needsSecond(row, t) {
		return t
	}
	second, err := p.ask(ctx, SourceSecondRPC, p.opts.Second, q)
	if errors.Is(err, ErrUnwatched) { // this network has none
		return t
	}
	if err != nil {
		p.opts.Observer.Ignored(SourceSecondRPC, q.Network.Name, ignoredSilent)
		p.log.WarnContext(ctx, "payment stays open", "payment", row.ID,
			"error", fmt.Errorf("%s: %w: %w", p.opts.Names.of(SourceSecondRPC, q.Network.Name), errSilent, err))
		return t.withoutSafe()
	}
	t, contradicted := agreed(row, t, second)
	if contradicted {
		err = p.ignore(ctx, SourceSecondRPC, q.Network, ignoredDisagrees, fmt.Errorf("%w about payment %s", errDisagrees, row.ID))
		p.log.ErrorContext(ctx, "the two RPCs contradict each other: nothing is decided", "payment", row.ID, "error", err,
			"transaction", second.Transaction)
	}
	return t
}

// ForgetSafeBlock has the next word of the RPC about a network be taken on trust again: an operator
// knows that the block which is kept is not the chain's.
func (p *Payer) ForgetSafeBlock(ctx context.Context, network string) (*ChainBlock, error) {
	n, ok := p.network(network)
	if !ok {
		return nil, &InputError{Field: "network", Reason: fmt.Sprintf("%q is not paid on", words.Truncate(network, 40))}
	}
	was, err := p.store.SafeBlock(ctx, n.Name)
	if err != nil || was == nil {
		return was, err
	}
	if err := p.store.ForgetSafeBlock(ctx, n.Name); err != nil {
		return nil, err
	}
	p.words.heard(rpcOf{SourceRPC, n.Name}, rpcWord{})
	p.words.heard(rpcOf{SourceSecondRPC, n.Name}, rpcWord{})
	p.log.WarnContext(ctx, "an operator has the RPC trusted anew", "network", n.Name, "block", was.Number, "hash", was.Hash)
	return was, nil
}
