package chain

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/errgroup"

	"github.com/purserpay/purser/x402"
)

// proxyCall holds the authorizations that a transaction tells of.
type proxyCall struct {
	to   x402.Address // zero: it makes a contract
	uses []x402.Permit2Use
	// direct: to is a proxy or the token itself, so nothing moves by Permit2 but what the first use tells.
	direct bool
}

// spender returns the proxy of a rail.
func spender(r x402.Rail) x402.Address {
	if r == x402.RailUpto {
		return x402.UptoProxy
	}
	return x402.ExactProxy
}

// usesIn lists what could be uses of authorizations in a transaction, and remembers it.
func (c *Client) usesIn(ctx context.Context, in learnedKey) (proxyCall, error) {
	if known, ok := c.learned.get(in); ok {
		return known, nil
	}
	to, input, err := c.transactionIn(ctx, in.transaction, in.block)
	if err != nil {
		return proxyCall{}, err
	}
	call := proxyCall{uses: x402.Permit2Uses(in.token, input)}
	if to != nil {
		call.to = *to
		call.direct = slices.Contains([]x402.Address{x402.ExactProxy, x402.UptoProxy, in.token}, call.to)
	}
	if len(input) > 0 {
		c.learned.add(in, call)
	}
	return call, nil
}

// transactionIn reads the recipient and the data of a transaction in a block; nil: it makes a contract.
func (c *Client) transactionIn(ctx context.Context, transaction, block string) (to *x402.Address, input []byte, err error) {
	var found *struct {
		Hash, BlockHash, Input string
		To                     *x402.Address
	}
	if err := c.call(ctx, &found, "eth_getTransactionByHash", transaction); err != nil {
		return nil, nil, err
	}
	if found == nil || !strings.EqualFold(found.Hash, transaction) || !strings.EqualFold(found.BlockHash, block) {
		return nil, nil, fmt.Errorf("the RPC does not have the transaction %s in the block of its log", transaction)
	}
	if input, err = hex.DecodeString(strings.TrimPrefix(found.Input, "0x")); err != nil {
		return nil, nil, fmt.Errorf("the RPC's transaction %s has no readable data", transaction)
	}
	return found.To, input, nil
}

// receiptLogs reads the logs of a transaction in a block.
func (c *Client) receiptLogs(ctx context.Context, transaction, block string) ([]logEntry, error) {
	var found *struct {
		Hash      string `json:"transactionHash"`
		BlockHash string
		Logs      []logEntry
	}
	if err := c.call(ctx, &found, "eth_getTransactionReceipt", transaction); err != nil {
		return nil, err
	}
	if found == nil || !strings.EqualFold(found.Hash, transaction) || !strings.EqualFold(found.BlockHash, block) {
		return nil, fmt.Errorf("the RPC does not have the receipt of transaction %s in the block of its log", transaction)
	}
	for _, l := range found.Logs {
		if !strings.EqualFold(l.Transaction, transaction) || !strings.EqualFold(l.BlockHash, block) {
			return nil, errOtherLog
		}
	}
	return found.Logs, nil
}

// maxBlock bounds the transactions of a block whose receipts are read.
const maxBlock = 5000

// logsOf reads the logs of a token in one block from the receipts of its transactions, because the RPC
// does not list so many at once.
func (c *Client) logsOf(ctx context.Context, number uint64, a x402.Asset) (logs []transferLog, err error) {
	var block *struct {
		Number       quantity
		Hash         string
		Transactions []string
	}
	if err := c.call(ctx, &block, "eth_getBlockByNumber", quantity(number), false); err != nil {
		return nil, err
	}
	if block == nil || uint64(block.Number) != number || len(block.Transactions) > maxBlock {
		return nil, fmt.Errorf("the transactions of block %d: %w", number, errNoBlock)
	}
	receipts, err := c.receipts(ctx, block.Transactions, block.Hash)
	for _, l := range receipts {
		if l.Address == a.Address {
			logs = append(logs, transferLog{l})
		}
	}
	return logs, err
}

// receipts reads the logs of some transactions in a block.
func (c *Client) receipts(ctx context.Context, transactions []string, block string) ([]logEntry, error) {
	logs := make([][]logEntry, len(transactions))
	asking, asked := errgroup.WithContext(ctx)
	asking.SetLimit(candidatesAtOnce)
	for i, transaction := range transactions {
		asking.Go(func() (err error) {
			logs[i], err = c.receiptLogs(asked, transaction, block)
			return err
		})
	}
	err := asking.Wait()
	return slices.Concat(logs...), err
}

// maxLearned bounds the remembered uses of authorizations and transactions together: some 15 MB.
const maxLearned = 1 << 16

// learned remembers the calls that transactions tell of. A transaction in a block of this hash never
// changes. So the looks at many payments of a wallet to one payee ask for each transaction once.
type learned struct {
	mu     sync.Mutex
	calls  *simplelru.LRU[learnedKey, proxyCall]
	weight int
}

// learnedKey names a transaction in a block, and the token whose authorizations it was searched for.
type learnedKey struct {
	transaction, block string // in lower case
	token              x402.Address
}

func keyOf(l logEntry, a x402.Asset) learnedKey {
	return learnedKey{strings.ToLower(l.Transaction), strings.ToLower(l.BlockHash), a.Address}
}

func newLearned() *learned {
	calls, err := simplelru.NewLRU[learnedKey, proxyCall](maxLearned, nil)
	if err != nil {
		panic(err) // the size is a constant
	}
	return &learned{calls: calls}
}

// weigh counts a use as one, and a transaction as two.
func (c proxyCall) weigh() int { return 2 + len(c.uses) }

func (m *learned) get(key learnedKey) (proxyCall, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls.Get(key)
}

func (m *learned) add(key learnedKey, call proxyCall) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls.Contains(key) {
		return
	}
	m.calls.Add(key, call)
	for m.weight += call.weigh(); m.weight > maxLearned; {
		_, oldest, _ := m.calls.RemoveOldest()
		m.weight -= oldest.weigh()
	}
}

// forget removes what is remembered of some transactions.
func (m *learned) forget(keys []learnedKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if call, known := m.calls.Peek(key); known {
			m.calls.Remove(key)
			m.weight -= call.weigh()
		}
	}
}
