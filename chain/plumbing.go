package chain

import (
	"context"
	"errors"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// Reader answers all questions about a network. A network whose payments leave other traces than those of EIP-3009 and
// Permit2 has a Reader of its own, which embeds a [Client].
type Reader interface {
	pay.Chain
	pay.ChainScanner
	pay.Header
	pay.Allowances
	pay.Codes
	treasury.ChainHistory
	treasury.TransactionChain
	Close()
}

// The parts of answers, for other readers.
type (
	// Quantity is a number in the form of JSON-RPC.
	Quantity = quantity
	// LogEntry holds the needed fields of a log.
	LogEntry = logEntry
)

// Call makes one JSON-RPC call, and reads its result. [Refused] tells an error of the RPC's from those of the way.
func (c *Client) Call(ctx context.Context, result any, method string, params ...any) error {
	return c.call(ctx, result, method, params...)
}

// Refused reports whether the RPC has answered a call with an error of its own, for another reason than its quota.
func Refused(err error) bool { return lacks(err) }

// TooLarge reports whether the RPC may answer a smaller range of blocks.
func TooLarge(err error) bool { return mayBeTooLarge(err) }

// Confirm ends a reading as [Client.Trace] does: it identifies the RPC, makes sure that the blocks behind the
// answer are on its chain, and reads the kept block. The first block is the safe one. Latest must be set.
func (c *Client) Confirm(ctx context.Context, q pay.TraceQuery, t *pay.Trace, basis ...pay.ChainBlock) error {
	if len(basis) == 0 || t.Latest.IsZero() {
		return errors.New("nothing to confirm")
	}
	return c.confirm(ctx, q, t, headersOf(basis))
}

// Prove identifies the RPC, and makes sure that some blocks are on its chain.
func (c *Client) Prove(ctx context.Context, n x402.Network, a x402.Asset, blocks ...pay.ChainBlock) (pay.ChainIdentity, error) {
	return c.identify(ctx, n, a, atLatest, headersOf(blocks)...)
}

func headersOf(blocks []pay.ChainBlock) []header {
	list := make([]header, len(blocks))
	for i, b := range blocks {
		list[i] = headerOf(b)
	}
	return list
}

// ReceiptLogs reads the logs of a transaction in a block.
func (c *Client) ReceiptLogs(ctx context.Context, transaction, block string) ([]LogEntry, error) {
	return c.receiptLogs(ctx, transaction, block)
}

// AddressTopic writes an address as a topic of logs.
func AddressTopic(a x402.Address) string { return addressTopic(a) }

// TopicAddress reads an address from a topic of a log.
func TopicAddress(topic string) (x402.Address, error) { return topicAddress(topic) }

// HasTopics compares a log's topics. An empty string matches any topic.
func HasTopics(l LogEntry, want ...string) bool { return hasTopics(l, want...) }

// MaxRange is the number of blocks in a first question for logs. Many RPCs refuse more.
const MaxRange = maxRange

// TopicTransfer is the first topic of a token's log of a transfer.
const TopicTransfer = topicTransfer
