package simulation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
)

// genesis is the hash of block 0.
var genesis = hashOfBlock(0, 0)

// ledger is the truth about money: what moved, in which block.
type ledger struct {
	network x402.Network
	asset   x402.Asset
	began   time.Time
	habits  habits

	mu    sync.Mutex
	funds map[x402.Address]money.Amount
	moves []move
	dust  []dust
	count uint64 // of transactions; it tells their order
	forks []fork
	seen  map[use]submission // by which transfers were made, also those that were taken back
}

// move is a transfer that the chain has.
type move struct {
	authorization x402.Authorization
	value         money.Amount // at most that of the authorization
	transaction
}

// submission holds how an authorization was used first.
type submission struct {
	signature x402.Signature
	value     money.Amount
}

// transaction is one on the chain, without what it did.
type transaction struct {
	hash   string
	number uint64 // among all transactions
	block  uint64
	to     x402.Address
	input  []byte
}

// fork gives the blocks from a number on other hashes.
type fork struct{ from, to uint64 }

func newLedger() *ledger {
	n := x402.DefaultNetworks()[0]
	return &ledger{network: n, asset: n.Assets[0], began: time.Now(), funds: map[x402.Address]money.Amount{}, seen: map[use]submission{}}
}

// head returns the number of the newest block.
func (l *ledger) head() uint64 { return chainAge + uint64(time.Since(l.began)/blockTime) }

func (l *ledger) timeOf(block uint64) time.Time {
	return l.began.Add(time.Duration(int64(block)-chainAge) * blockTime)
}

// hashOf must be called with the lock.
func (l *ledger) hashOf(block uint64) string {
	forked := 0
	for _, f := range l.forks {
		if block >= f.from && block <= f.to {
			forked++
		}
	}
	return hashOfBlock(block, forked)
}

// hashOfBlock returns the hash of a block that so many forks have replaced.
func hashOfBlock(number uint64, forked int) string {
	return fmt.Sprintf("0x%032x%032x", number, forked+1)
}

func (l *ledger) block(number uint64) pay.ChainBlock {
	return pay.ChainBlock{Number: number, Hash: l.hashOf(number), Time: l.timeOf(number)}
}

// errNotMoved: the chain takes no such transfer.
var errNotMoved = errors.New("the transfer reverts")

// settle has an authorization move an amount in the next block, or says why it cannot.
func (l *ledger) settle(a x402.Authorization, s x402.Signature, value money.Amount) (hash string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	block := l.next(a)
	at := uint64(l.timeOf(block).Unix())
	signer, err := x402.Recover(a.Digest(l.asset, l.network.ChainID), s)
	switch {
	case err != nil || signer != a.From:
		return "", fmt.Errorf("%w: invalid signature", errNotMoved)
	case at <= a.ValidAfter || at >= a.ValidBefore:
		return "", fmt.Errorf("%w: expired", errNotMoved)
	case l.used(a) != nil:
		return "", fmt.Errorf("%w: authorization is used", errNotMoved)
	case l.balance(a.From, block).Cmp(value) < 0:
		return "", fmt.Errorf("%w: balance", errNotMoved)
	}
	l.scatter(a, value, block)
	if _, again := l.seen[useOf(a)]; !again {
		l.seen[useOf(a)] = submission{s, value}
	}
	m := move{authorization: a, value: value, transaction: l.submit(block)}
	m.to, m.input = l.callOf(a, s, value)
	l.moves = append(l.moves, m)
	return m.hash, nil
}

// submit makes a transaction in a block.
func (l *ledger) submit(block uint64) transaction {
	l.count++
	return transaction{hash: fmt.Sprintf("0x%032x%032x", l.count, block), number: l.count, block: block}
}

// submitted returns the signature with which an authorization was used once.
func (l *ledger) submitted(a x402.Authorization) (s x402.Signature, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, known := l.seen[useOf(a)]
	return first.signature, known
}

// used must be called with the lock.
func (l *ledger) used(a x402.Authorization) *move {
	for i, m := range l.moves {
		if m.authorization.From == a.From && m.authorization.Nonce == a.Nonce {
			return &l.moves[i]
		}
	}
	return nil
}

// balance must be called with the lock.
func (l *ledger) balance(owner x402.Address, block uint64) money.Amount {
	have := l.funds[owner]
	for _, m := range l.moves {
		if m.authorization.From == owner && m.block <= block {
			have = have.SubSaturated(m.value)
		}
	}
	return have
}

// moved lists what the chain has.
func (l *ledger) moved() []move {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.moves)
}

// reorganize takes back some blocks that are not safe, and returns the transfers that were in them. They may
// come again.
func (l *ledger) reorganize(depth uint64) (lost []move) {
	l.mu.Lock()
	defer l.mu.Unlock()
	head := l.head()
	from := head - min(depth, safeBlocks-2)
	l.forks = append(l.forks, fork{from: from, to: head})
	l.moves = slices.DeleteFunc(l.moves, func(m move) bool {
		if m.block >= from {
			lost = append(lost, m)
		}
		return m.block >= from
	})
	l.dust = slices.DeleteFunc(l.dust, func(d dust) bool { return d.block >= from })
	return lost
}

// lower returns an address as the chain's answers have it.
func lower(a x402.Address) string { return strings.ToLower(a.String()) }
