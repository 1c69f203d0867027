// Package chain is pay.Chain over Ethereum JSON-RPC: who the RPC is, what a wallet owns, and what became of an
// authorization.
//
// An answer that does not add up is an error, never a guess: package pay books money by what is said here. The handful
// of calls is encoded by hand, which keeps an Ethereum client library out of the program.
package chain

import (
	"context"
	"errors"
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
	// Setting names the variable that holds the URL, for errors. Default: PURSER_RPC_URL.
	Setting string
	// Dates hears of the Date of each answer; see [pay.Timekeeper.Dates]. Nil: no Date is read.
	Dates pay.Dates
	// Logger is told when the RPC gets by with less than asked for; nil discards.
	Logger *slog.Logger
}

// Client is a pay.Chain. The RPC must serve calls at its `safe` block, or at `finalized` if it does not know `safe`.
type Client struct {
	endpoint *endpoint.Endpoint
	timeout  time.Duration
	setting  string
	log      *slog.Logger

	unsafe sync.Once // the missing `safe` tag is logged once
}

var _ pay.Chain = (*Client)(nil)

// New checks the options. Its errors name the setting and never repeat the URL.
func New(o Options) (*Client, error) {
	if o.Setting == "" {
		o.Setting = "PURSER_RPC_URL"
	}
	e, err := endpoint.New(endpoint.Options{
		URL: o.URL, Setting: o.Setting, MaxAnswer: maxAnswer, Transport: o.Transport, Dates: o.Dates,
	})
	if err != nil {
		return nil, err
	}
	c := &Client{endpoint: e, timeout: o.Timeout, setting: o.Setting, log: o.Logger}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if !e.Encrypted() {
		c.log.Warn(o.Setting + " is plain http: what the chain says can be forged on the way")
	}
	return c, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.endpoint.Close() }

// MismatchError: the RPC serves another chain, or another token, than the pinned one.
type MismatchError struct{ Setting, What, Got, Want string }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s is for another chain: its %s is %s, not %s", e.Setting, e.What, e.Got, e.Want)
}

// Identify asks afresh each time. What was learned comes with an error too. A *MismatchError says what differs.
func (c *Client) Identify(ctx context.Context, n x402.Network, a x402.Asset) (pay.ChainIdentity, error) {
	return c.identify(ctx, n, a, atLatest)
}

// identify asks for chain id, genesis and token, the latter at a block, and whether these blocks are on the chain. It
// asks for all at once: an RPC whose name is given to another machine meanwhile must not be taken for either, and
// nobody waits for more than one answer.
func (c *Client) identify(ctx context.Context, n x402.Network, a x402.Asset, when any, blocks ...block) (pay.ChainIdentity, error) {
	var (
		id         pay.ChainIdentity
		genesis    block
		separator  word
		idErr      error
		genesisErr error
		tokenErr   error
		blockErrs  = make([]error, len(blocks))
		all        sync.WaitGroup
	)
	all.Go(func() { id.ChainID, idErr = c.chainID(ctx) })
	all.Go(func() { genesis, genesisErr = c.blockNumbered(ctx, 0) })
	all.Go(func() { separator, tokenErr = c.tokenCall(ctx, a.Address, when, selectorDomainSeparator) })
	for i, b := range blocks {
		all.Go(func() { blockErrs[i] = c.stillThere(ctx, b) })
	}
	all.Wait()
	switch {
	case idErr != nil:
		return id, idErr
	case id.ChainID != n.ChainID:
		return id, &MismatchError{c.setting, "chain id", fmt.Sprint(id.ChainID), fmt.Sprintf("%d (%s)", n.ChainID, n.Name)}
	case genesisErr != nil:
		return id, genesisErr
	}
	id.Genesis = genesis.Hash
	switch {
	case tokenErr != nil:
		return id, tokenErr
	case separator != a.DomainSeparator:
		return id, &MismatchError{c.setting, "DOMAIN_SEPARATOR of " + a.Address.String(), hexOf(separator[:]), hexOf(a.DomainSeparator[:])}
	}
	return id, errors.Join(blockErrs...)
}

// stillThere: a block that was read is the one of its number on the chain that the RPC leads to.
func (c *Client) stillThere(ctx context.Context, b block) error {
	now, err := c.blockNumbered(ctx, uint64(b.Number))
	if err == nil && now.Hash != b.Hash {
		err = fmt.Errorf("block %d was %s and is %s: the chain was reorganized, or the RPC leads to another one", b.Number, b.Hash, now.Hash)
	}
	return err
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
