// Package ledger is a chain of the sandbox without an EVM. It keeps the token of package evm in a
// table: the rules of EIP-3009, blocks, events, and the few JSON-RPC calls that purser makes.
// The attacks use it, because they need no EVM.
//
// A test plays the same payments on both chains and compares the results of package chain. Nothing
// is stored and nothing here has value.
package ledger

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/sandbox/loopback"
	"github.com/purserpay/purser/sandbox/token"
	"github.com/purserpay/purser/x402"
)

// Options configures a Ledger. The zero value works.
type Options struct {
	// Now is the clock of the block times. It may jump forward at any time. Default: time.Now.
	Now func() time.Time
}

// Ledger is a chain with one token. It is safe for concurrent use. It implements token.Chain, and
// its methods never wait.
type Ledger struct {
	now     func() time.Time
	network x402.Network
	asset   x402.Asset
	seed    [32]byte // makes the block hashes of each ledger unique
	server  *loopback.Server

	mu       sync.Mutex
	blocks   []block
	logs     []event // in the order of blocks
	balances map[common.Address][]balance
	states   map[stateKey]uint64 // the block that used the authorization
}

type block struct {
	number uint64
	time   uint64 // Unix seconds
	hash   common.Hash
}

// balance is an account's balance from a block on.
type balance struct {
	block  uint64
	amount *big.Int
}

type stateKey struct {
	authorizer common.Address
	nonce      [32]byte
}

// event is one entry of the log.
type event struct {
	block  uint64
	tx     common.Hash
	topics []common.Hash
	data   []byte
}

// Topics of the token's events.
var (
	transferred = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))
	used        = crypto.Keccak256Hash([]byte("AuthorizationUsed(address,bytes32)"))
)

var _ token.Chain = (*Ledger)(nil)

// Start makes a ledger with a genesis block, and opens its JSON-RPC listener on loopback. The
// caller must call Close.
func Start(ctx context.Context, o Options) (*Ledger, error) {
	base, _ := x402.NetworkByWire("base") // the first entry of the pinned table
	l := &Ledger{
		now: o.Now, network: base, asset: base.Assets[0],
		balances: map[common.Address][]balance{}, states: map[stateKey]uint64{},
	}
	if l.now == nil {
		l.now = time.Now
	}
	_, _ = rand.Read(l.seed[:]) // cannot fail: crypto/rand ends the process instead
	l.seal(l.clock())
	var err error
	l.server, err = loopback.Serve(ctx, loopback.Options{Name: "JSON-RPC"}, http.HandlerFunc(l.serve))
	return l, err
}

// Close closes the JSON-RPC listener.
func (l *Ledger) Close() error { return l.server.Close() }

// RPCURL returns the URL of the JSON-RPC listener.
func (l *Ledger) RPCURL() string { return l.server.URL() }

func (l *Ledger) clock() uint64 { return uint64(max(0, l.now().Unix())) }

// seal adds a block to the chain. Its caller must hold l.mu.
func (l *Ledger) seal(at uint64) block {
	n := uint64(len(l.blocks))
	b := block{number: n, time: at, hash: l.hashed("block", n)}
	l.blocks = append(l.blocks, b)
	return b
}

func (l *Ledger) hashed(what string, n uint64) common.Hash {
	return crypto.Keccak256Hash(l.seed[:], []byte(what), new(big.Int).SetUint64(n).Bytes())
}

// head returns the newest block. When the clock has passed that block's second, head adds one,
// because an idle chain makes blocks too. Its caller must hold l.mu.
func (l *Ledger) head() block {
	newest := l.blocks[len(l.blocks)-1]
	if now := l.clock(); now > newest.time {
		newest = l.seal(now)
	}
	return newest
}

// next returns the time of a block that is made now. Blocks of one second share their time, so the
// chain never gets ahead of the clock. Its caller must hold l.mu.
func (l *Ledger) next() uint64 { return max(l.blocks[len(l.blocks)-1].time, l.clock()) }

// transact makes a change of the token in a new block. refuses returns why the token refuses the
// change, or "".
func (l *Ledger) transact(what string, refuses func(at uint64) string, change func(block, common.Hash)) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.next()
	if reason := refuses(at); reason != "" {
		return "", fmt.Errorf("%s: %w", what, &token.RevertError{Reason: reason})
	}
	b := l.seal(at)
	tx := l.hashed("transaction", b.number)
	change(b, tx)
	return tx.Hex(), nil
}

// TokenAddress returns the token's address, which is USDC's on Base.
func (l *Ledger) TokenAddress() common.Address { return common.Address(l.asset.Address.EVM()) }

// Fund mints tokens for an account.
func (l *Ledger) Fund(_ context.Context, to common.Address, amount *big.Int) error {
	_, err := l.transact("fund "+to.Hex(), func(uint64) string {
		switch {
		case to == common.Address{}:
			return "FiatToken: mint to the zero address"
		case amount.Sign() <= 0:
			return "FiatToken: mint amount not greater than 0"
		}
		return ""
	}, func(b block, tx common.Hash) {
		l.add(b, to, amount)
		l.log(b, tx, transferred, common.Hash{}, indexed(to), amount)
	})
	return err
}

// TransferWithAuthorization makes the transfer of a signed authorization.
func (l *Ledger) TransferWithAuthorization(_ context.Context, a x402.Authorization, signature x402.Signature) (string, error) {
	from, to, value := common.Address(a.From.EVM()), common.Address(a.To.EVM()), a.Value.Big()
	return l.transact("transfer with authorization", func(at uint64) string {
		return l.refusesTransfer(a, signature, at)
	}, func(b block, tx common.Hash) {
		l.states[stateKey{from, a.Nonce}] = b.number
		l.log(b, tx, used, indexed(from), common.Hash(a.Nonce), nil)
		l.add(b, from, new(big.Int).Neg(value))
		l.add(b, to, value)
		l.log(b, tx, transferred, indexed(from), indexed(to), value)
	})
}

// Simulate tries a transfer without making it.
func (l *Ledger) Simulate(_ context.Context, a x402.Authorization, signature x402.Signature) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reason := l.refusesTransfer(a, signature, l.next()); reason != "" {
		return fmt.Errorf("simulate a transfer with authorization: %w", &token.RevertError{Reason: reason})
	}
	return nil
}

// add changes an account's balance. Its caller must hold l.mu.
func (l *Ledger) add(b block, account common.Address, amount *big.Int) {
	l.balances[account] = append(l.balances[account], balance{b.number, new(big.Int).Add(l.owned(account, b.number), amount)})
}

// owned returns an account's balance at a block. Its caller must hold l.mu.
func (l *Ledger) owned(account common.Address, at uint64) *big.Int {
	for _, one := range slices.Backward(l.balances[account]) {
		if one.block <= at {
			return one.amount
		}
	}
	return new(big.Int)
}

func (l *Ledger) log(b block, tx, kind, first, second common.Hash, amount *big.Int) {
	e := event{block: b.number, tx: tx, topics: []common.Hash{kind, first, second}}
	if amount != nil {
		e.data = common.BigToHash(amount).Bytes()
	}
	l.logs = append(l.logs, e)
}

func indexed(account common.Address) common.Hash { return common.BytesToHash(account[:]) }

// Balance returns an account's balance.
func (l *Ledger) Balance(_ context.Context, owner common.Address) (*big.Int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return new(big.Int).Set(l.owned(owner, l.head().number)), nil
}

// AuthorizationState reports whether a nonce is used.
func (l *Ledger) AuthorizationState(_ context.Context, authorizer common.Address, nonce [32]byte) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, found := l.states[stateKey{authorizer, nonce}]
	return found, nil
}

// Transfers lists the token's transfers, oldest first.
func (l *Ledger) Transfers(_ context.Context, from, to *common.Address, fromBlock uint64) ([]token.Transfer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []token.Transfer
	for _, e := range l.logs {
		if e.block < fromBlock || e.topics[0] != transferred ||
			from != nil && e.topics[1] != indexed(*from) || to != nil && e.topics[2] != indexed(*to) {
			continue
		}
		found = append(found, token.Transfer{
			From: common.BytesToAddress(e.topics[1][:]), To: common.BytesToAddress(e.topics[2][:]),
			Value: new(big.Int).SetBytes(e.data), Tx: e.tx.Hex(), Block: e.block,
		})
	}
	return found, nil
}

// AuthorizationsUsed lists an authorizer's used authorizations, oldest first.
func (l *Ledger) AuthorizationsUsed(_ context.Context, authorizer common.Address) ([]token.UsedAuthorization, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []token.UsedAuthorization
	for _, e := range l.logs {
		if e.topics[0] == used && e.topics[1] == indexed(authorizer) {
			found = append(found, token.UsedAuthorization{Nonce: e.topics[2], Tx: e.tx.Hex()})
		}
	}
	return found, nil
}
