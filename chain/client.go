// Package chain is pay.Chain over Ethereum JSON-RPC: who the RPC is, what a wallet owns, and what became of an
// authorization.
//
// An answer that does not add up is an error, never a guess: package pay books money by what is said here. The handful
// of calls is encoded by hand, which keeps an Ethereum client library out of the program.
package chain

import (
	"context"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/endpoint"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// DefaultTimeout bounds one call to the RPC.
const DefaultTimeout = 10 * time.Second

// maxAnswer bounds an answer. The largest that is asked for is a block with the hashes of its transactions.
const maxAnswer = 4 << 20

// Options configure an RPC.
type Options struct {
	// URL is the JSON-RPC address. Whatever in it may be a key stays out of errors and logs.
	URL string
	// Timeout bounds one call; zero is DefaultTimeout. A Trace makes several.
	Timeout time.Duration
	// Transport carries the calls; nil is one that ignores the environment's proxy variables.
	Transport http.RoundTripper
	// Logger is told when the RPC gets by with less than asked for; nil discards.
	Logger *slog.Logger
	// Clock is for forgetting what Identify remembers; nil is time.Now.
	Clock pay.Clock
}

// Client is a pay.Chain. The RPC must serve calls at its `safe` block, or at `finalized` if it does not know `safe`.
type Client struct {
	endpoint *endpoint.Endpoint
	timeout  time.Duration
	log      *slog.Logger
	now      pay.Clock

	unsafe sync.Once // the missing `safe` tag is logged once

	mu    sync.Mutex
	known map[identityKey]knownIdentity
}

var _ pay.Chain = (*Client)(nil)

// New checks the options. Its errors name PURSER_RPC_URL and never repeat it.
func New(o Options) (*Client, error) {
	e, err := endpoint.New(endpoint.Options{
		URL: o.URL, Setting: "PURSER_RPC_URL", MaxAnswer: maxAnswer, Transport: o.Transport,
	})
	if err != nil {
		return nil, err
	}
	c := &Client{
		endpoint: e, timeout: o.Timeout, log: o.Logger, now: o.Clock,
		known: map[identityKey]knownIdentity{},
	}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	if !e.Encrypted() {
		c.log.Warn("PURSER_RPC_URL is plain http: what the chain says can be forged on the way")
	}
	return c, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.endpoint.Close() }

// identityKept is how long genesis and token of an RPC are taken as checked.
const identityKept = time.Minute

type identityKey struct {
	chainID uint64
	asset   x402.Address
}

type knownIdentity struct {
	genesis string
	until   time.Time
}

// MismatchError: the RPC serves another chain, or another token, than the pinned one.
type MismatchError struct{ What, Got, Want string }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("PURSER_RPC_URL is for another chain: its %s is %s, not %s", e.What, e.Got, e.Want)
}

// Identify asks for the chain id each time, and for genesis and token at most once a minute while they are right. What
// was learned comes with an error too. A *MismatchError says what differs.
func (c *Client) Identify(ctx context.Context, n x402.Network, a x402.Asset) (pay.ChainIdentity, error) {
	var id pay.ChainIdentity
	var err error
	if id.ChainID, err = c.chainID(ctx); err != nil {
		return id, err
	}
	if id.ChainID != n.ChainID {
		return id, &MismatchError{"chain id", fmt.Sprint(id.ChainID), fmt.Sprintf("%d (%s)", n.ChainID, n.Name)}
	}
	key := identityKey{n.ChainID, a.Address}
	c.mu.Lock()
	known := c.known[key]
	c.mu.Unlock()
	if c.now().Before(known.until) {
		id.Genesis = known.genesis
		return id, nil
	}
	genesis, err := c.blockNumbered(ctx, 0)
	if err != nil {
		return id, err
	}
	id.Genesis = genesis.Hash
	separator, err := c.tokenCall(ctx, a.Address, atLatest, selectorDomainSeparator)
	if err != nil {
		return id, err
	}
	if separator != a.DomainSeparator {
		return id, &MismatchError{"DOMAIN_SEPARATOR of " + a.Address.String(), hexOf(separator[:]), hexOf(a.DomainSeparator[:])}
	}
	c.mu.Lock()
	c.known[key] = knownIdentity{id.Genesis, c.now().Add(identityKept)}
	c.mu.Unlock()
	return id, nil
}

// Balance is the owner's token balance at the latest block.
func (c *Client) Balance(ctx context.Context, a x402.Asset, owner x402.Address) (x402.Amount, error) {
	word, err := c.tokenCall(ctx, a.Address, atLatest, selectorBalanceOf, addressWord(owner))
	if err != nil {
		return x402.Amount{}, fmt.Errorf("balance of %s: %w", owner, err)
	}
	amount, _ := x402.AmountFromBig(new(big.Int).SetBytes(word[:])) // 32 bytes always fit
	return amount, nil
}
