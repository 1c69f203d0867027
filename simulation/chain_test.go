package simulation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const (
	blockTime = 2 * time.Second
	// safeBlocks is the distance of the safe block from the newest one.
	safeBlocks = 20
	// chainAge is the number of blocks before the run.
	chainAge = 10_000
	genesis  = "0x0000000000000000000000000000000000000000000000000000000000000001"
)

// chain is the truth about money: what moved, in which block.
type chain struct {
	network x402.Network
	asset   x402.Asset
	began   time.Time

	mu    sync.Mutex
	funds map[x402.Address]money.Amount
	moves []move
	forks []fork
	seen  map[x402.Nonce]x402.Signature // by which transfers were made, also those that were taken back
}

// move is a transfer that the chain has.
type move struct {
	authorization x402.Authorization
	block         uint64
	transaction   string
}

// fork gives the blocks from a number on other hashes.
type fork struct{ from, to uint64 }

func newChain() *chain {
	n := x402.DefaultNetworks()[0]
	return &chain{network: n, asset: n.Assets[0], began: time.Now(), funds: map[x402.Address]money.Amount{}, seen: map[x402.Nonce]x402.Signature{}}
}

// head returns the number of the newest block.
func (c *chain) head() uint64 { return chainAge + uint64(time.Since(c.began)/blockTime) }

func (c *chain) timeOf(block uint64) time.Time {
	return c.began.Add(time.Duration(int64(block)-chainAge) * blockTime)
}

// hashOf must be called with the lock.
func (c *chain) hashOf(block uint64) string {
	forked := 0
	for _, f := range c.forks {
		if block >= f.from && block <= f.to {
			forked++
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "block %d %d", block, forked))
	return "0x" + hex.EncodeToString(sum[:])
}

// errNotMoved: the chain takes no such transfer.
var errNotMoved = errors.New("the transfer reverts")

// settle has an authorization move its money in the next block, or says why it cannot.
func (c *chain) settle(a x402.Authorization, s x402.Signature) (transaction string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	block := c.head() + 1
	at := uint64(c.timeOf(block).Unix())
	signer, err := x402.Recover(a.Digest(c.asset, c.network.ChainID), s)
	switch {
	case err != nil || signer != a.From:
		return "", fmt.Errorf("%w: invalid signature", errNotMoved)
	case at <= a.ValidAfter || at >= a.ValidBefore:
		return "", fmt.Errorf("%w: expired", errNotMoved)
	case c.used(a) != nil:
		return "", fmt.Errorf("%w: authorization is used", errNotMoved)
	case c.balance(a.From, block).Cmp(a.Value) < 0:
		return "", fmt.Errorf("%w: balance", errNotMoved)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "transaction %x %d", a.Nonce, block))
	c.seen[a.Nonce] = s
	m := move{authorization: a, block: block, transaction: "0x" + hex.EncodeToString(sum[:])}
	c.moves = append(c.moves, m)
	return m.transaction, nil
}

// submitted returns the signature with which an authorization was used once.
func (c *chain) submitted(a x402.Authorization) (s x402.Signature, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, known = c.seen[a.Nonce]
	return s, known
}

// used must be called with the lock.
func (c *chain) used(a x402.Authorization) *move {
	for i, m := range c.moves {
		if m.authorization.From == a.From && m.authorization.Nonce == a.Nonce {
			return &c.moves[i]
		}
	}
	return nil
}

// balance must be called with the lock.
func (c *chain) balance(owner x402.Address, block uint64) money.Amount {
	have := c.funds[owner]
	for _, m := range c.moves {
		if m.authorization.From == owner && m.block <= block {
			have = have.SubSaturated(m.authorization.Value)
		}
	}
	return have
}

// moved lists what the chain has.
func (c *chain) moved() []move {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.moves)
}

// reorganize takes back some blocks that are not safe, and returns the transfers that were in them. They may
// come again.
func (c *chain) reorganize(depth uint64) (lost []move) {
	c.mu.Lock()
	defer c.mu.Unlock()
	head := c.head()
	from := head - min(depth, safeBlocks-2)
	c.forks = append(c.forks, fork{from: from, to: head})
	c.moves = slices.DeleteFunc(c.moves, func(m move) bool {
		if m.block >= from {
			lost = append(lost, m)
		}
		return m.block >= from
	})
	return lost
}

// rpc is one purser's view of the chain through a service that can lag and fail.
type rpc struct {
	*world
	node *node
	name string
}

var _ pay.Chain = (*rpc)(nil)

// ask crosses the border, and returns the newest block that the service has. A service that never fails or lags
// answers at once.
func (r *rpc) ask(ctx context.Context, what string) (head uint64, err error) {
	if r.mix.prompt() {
		if err = ctx.Err(); r.node.isDead() {
			err = errDied
		}
		return r.chain.head(), err
	}
	luck, err := r.conductor.cross(ctx, r.node, r.name+" "+what)
	if err != nil {
		return 0, err
	}
	head = r.chain.head()
	switch {
	case r.calm():
	case luck.IntN(100) < r.mix.chainFails:
		r.conductor.say("%s %s: %s fails", r.node, r.name, what)
		return 0, errors.New("the RPC answers 503")
	case luck.IntN(100) < r.mix.chainLags:
		lag := uint64(luck.IntN(60))
		r.conductor.say("%s %s: %s lags by %d blocks", r.node, r.name, what, lag)
		head -= lag
	}
	return head, nil
}

func (r *rpc) identity() pay.ChainIdentity {
	return pay.ChainIdentity{ChainID: r.chain.network.ChainID, Genesis: genesis}
}

func (r *rpc) Identify(ctx context.Context, _ x402.Network, _ x402.Asset) (pay.ChainIdentity, error) {
	if _, err := r.ask(ctx, "identify"); err != nil {
		return pay.ChainIdentity{}, err
	}
	return r.identity(), nil
}

func (r *rpc) Balance(ctx context.Context, _ x402.Network, _ x402.Asset, owner x402.Address) (money.Amount, error) {
	head, err := r.ask(ctx, "balance")
	if err != nil {
		return money.Amount{}, err
	}
	r.chain.mu.Lock()
	defer r.chain.mu.Unlock()
	return r.chain.balance(owner, head), nil
}

func (r *rpc) Trace(ctx context.Context, q pay.TraceQuery) (t pay.Trace, err error) {
	head, err := r.ask(ctx, "trace "+q.Authorization.Value.String())
	if err != nil {
		return t, err
	}
	c := r.chain
	c.mu.Lock()
	defer c.mu.Unlock()
	safe := head - safeBlocks
	t = pay.Trace{
		Chain: r.identity(), SafeNumber: safe, SafeHash: c.hashOf(safe), SafeTime: c.timeOf(safe), Latest: c.timeOf(head),
	}
	if q.Kept != nil && q.Kept.Number <= head {
		t.KeptHash = c.hashOf(q.Kept.Number)
	}
	if m := c.used(q.Authorization); m != nil && m.block <= head {
		t.Used, t.Moved, t.Transaction = true, m.authorization.Value, m.transaction
		t.SafeUsed, t.SafeLogs = m.block <= safe, m.block <= safe
	}
	return t, nil
}

var _ pay.ChainScanner = (*rpc)(nil)

func (c *chain) block(number uint64) pay.ChainBlock {
	return pay.ChainBlock{Number: number, Hash: c.hashOf(number), Time: c.timeOf(number)}
}

func (r *rpc) Safe(ctx context.Context, _ x402.Network) (pay.ChainBlock, error) {
	head, err := r.ask(ctx, "safe block")
	if err != nil {
		return pay.ChainBlock{}, err
	}
	r.chain.mu.Lock()
	defer r.chain.mu.Unlock()
	return r.chain.block(head - safeBlocks), nil
}

func (r *rpc) Before(ctx context.Context, _ x402.Network, moment time.Time) (pay.ChainBlock, error) {
	head, err := r.ask(ctx, "block before")
	if err != nil {
		return pay.ChainBlock{}, err
	}
	r.chain.mu.Lock()
	defer r.chain.mu.Unlock()
	number := int64(chainAge) + int64(moment.Sub(r.chain.began)/blockTime) - 1
	return r.chain.block(uint64(min(max(number, 1), int64(head)))), nil
}

func (r *rpc) Used(ctx context.Context, q pay.UsedQuery) (pay.UsedAnswer, error) {
	head, err := r.ask(ctx, "used authorizations")
	if err != nil {
		return pay.UsedAnswer{}, err
	}
	c := r.chain
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.To > head || q.Safe.Number > head || c.hashOf(q.Safe.Number) != q.Safe.Hash || q.Known != nil && c.hashOf(q.Known.Number) != q.Known.Hash {
		return pay.UsedAnswer{}, errors.New("the RPC does not have the blocks")
	}
	answer := pay.UsedAnswer{Through: q.To, Size: q.Size, Chain: r.identity()}
	for _, m := range c.moves {
		a := m.authorization
		if m.block >= q.From && m.block <= q.To && slices.Contains(q.Wallets, a.From) {
			answer.Used = append(answer.Used, pay.UsedAuthorization{
				From: a.From, Nonce: a.Nonce, Transaction: m.transaction, Block: c.block(m.block), Matched: true, To: a.To, Value: a.Value,
			})
		}
	}
	slices.SortFunc(answer.Used, func(a, b pay.UsedAuthorization) int { return cmp.Compare(a.Block.Number, b.Block.Number) })
	return answer, nil
}
