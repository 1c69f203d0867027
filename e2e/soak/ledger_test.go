package soak

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/purserpay/purser/x402"
)

// ledger is a chain whose only contract is the token. A block begins every second and holds what came in the second before,
// so that no block ever changes. A transfer costs it some hundred bytes.
type ledger struct {
	network x402.Network
	token   x402.Asset
	genesis time.Time
	now     func() time.Time

	mu        sync.RWMutex
	balances  map[x402.Address]uint64
	used      map[x402.Nonce]int32 // index into transfers; nonces are random, so that those of two payers differ
	transfers []transfer           // in the order of their blocks
}

// transfer is an authorization that was used.
type transfer struct {
	from, to x402.Address
	nonce    x402.Nonce
	value    uint64
	block    uint64
}

// safeDistance is the number of blocks from the safe one to the latest.
const safeDistance = 2

var (
	errUsed = errors.New("nonce already used")
	errPoor = errors.New("insufficient balance")
	errLate = errors.New("authorization expired")
)

// newLedger makes a chain that began a minute ago.
func newLedger(now func() time.Time) *ledger {
	base, _ := x402.NetworkByWire("base")
	return &ledger{
		network: base, token: base.Assets[0], genesis: now().Add(-time.Minute).Truncate(time.Second), now: now,
		balances: map[x402.Address]uint64{}, used: map[x402.Nonce]int32{},
	}
}

// latest is the number of the newest block.
func (l *ledger) latest() uint64 { return uint64(l.now().Sub(l.genesis) / time.Second) }

func (l *ledger) timeOf(block uint64) uint64 { return uint64(l.genesis.Unix()) + block }

// hashOf has the block's number in it, so that nothing need be remembered of blocks.
func (l *ledger) hashOf(block uint64) string {
	h := sumOf("block", strconv.FormatInt(l.genesis.Unix(), 10))
	binary.BigEndian.PutUint64(h[24:], block)
	return "0x" + hex.EncodeToString(h[:])
}

// numbered is the block of a hash.
func (l *ledger) numbered(hash string) (uint64, bool) {
	b, err := hex.DecodeString(trimHex(hash))
	if err != nil || len(b) != 32 {
		return 0, false
	}
	n := binary.BigEndian.Uint64(b[24:])
	return n, l.hashOf(n) == hash && n <= l.latest()
}

// tx names the transaction of a transfer by its nonce, but not alike.
func (t *transfer) tx() string {
	b := t.nonce
	for i := range b {
		b[i] ^= 0x5a
	}
	return "0x" + hex.EncodeToString(b[:])
}

func (l *ledger) fund(a x402.Address, amount uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.balances[a] += amount
}

func (l *ledger) balance(a x402.Address) uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.balances[a]
}

// check says why an authorization cannot be used now.
func (l *ledger) check(a x402.Authorization) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.refusal(a)
}

func (l *ledger) refusal(a x402.Authorization) error {
	switch _, used := l.used[a.Nonce]; {
	case used:
		return errUsed
	case l.balances[a.From] < a.Value.Big().Uint64():
		return errPoor
	case l.timeOf(l.latest()+1) >= a.ValidBefore:
		return errLate
	}
	return nil
}

// move uses an authorization, whose signature was checked, and names the transaction.
func (l *ledger) move(a x402.Authorization) (tx string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refusal(a); err != nil {
		return "", err
	}
	t := transfer{from: a.From, to: a.To, nonce: a.Nonce, value: a.Value.Big().Uint64(), block: l.latest() + 1}
	l.balances[t.from] -= t.value
	l.balances[t.to] += t.value
	l.used[t.nonce] = int32(len(l.transfers))
	l.transfers = append(l.transfers, t)
	return t.tx(), nil
}

// usedAt reports whether an authorization was used up to a block.
func (l *ledger) usedAt(from x402.Address, nonce x402.Nonce, block uint64) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i, ok := l.used[nonce]
	return ok && l.transfers[i].from == from && l.transfers[i].block <= block
}

// between are the transfers of some blocks.
func (l *ledger) between(first, last uint64) []transfer {
	l.mu.RLock()
	defer l.mu.RUnlock()
	at := func(block uint64) int {
		return sort.Search(len(l.transfers), func(i int) bool { return l.transfers[i].block >= block })
	}
	return append([]transfer(nil), l.transfers[at(first):at(last+1)]...)
}

// byNonce is the transfer that used a nonce, if it is in some blocks.
func (l *ledger) byNonce(nonce x402.Nonce, first, last uint64) []transfer {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i, ok := l.used[nonce]
	if !ok || l.transfers[i].block < first || l.transfers[i].block > last {
		return nil
	}
	return []transfer{l.transfers[i]}
}
