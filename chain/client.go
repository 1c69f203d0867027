// Package chain reads a chain over Ethereum JSON-RPC; its Client implements pay.Chain,
// pay.ChainScanner and treasury.TransactionChain. It identifies the RPC, reads token balances, finds out
// what became of an authorization, and sends transactions.
//
// An answer that contradicts itself is an error, never a guess, because package pay books money by
// these answers. The few calls are encoded by hand, so that no Ethereum client library is linked
// in.
package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/endpoint"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// DefaultTimeout bounds one call to the RPC, unless Options say otherwise.
const DefaultTimeout = 10 * time.Second

// maxAnswer bounds an answer, in bytes. The largest is a block with the hashes of its transactions.
const maxAnswer = 4 << 20

// Options configures a Client.
type Options struct {
	// URL holds the JSON-RPC address. Errors and logs leave out every part that may be a key.
	URL string
	// Timeout bounds one call. A Trace makes several. Default: DefaultTimeout.
	Timeout time.Duration
	// Transport carries the calls. Default: one that ignores the proxy variables of the
	// environment.
	Transport http.RoundTripper
	// Setting names the variable that holds the URL, for errors. Default: PURSER_RPC_URL.
	Setting string
	// Dates receives the Date header of each answer; see [pay.Timekeeper.Dates]. Default: none.
	Dates pay.Dates
	// Logger gets a note when the RPC lacks a feature and a substitute is used. Default: none.
	Logger *slog.Logger
}

// Client asks one RPC, at the block of the network's tag, or at `finalized` when it does not know `safe`.
type Client struct {
	endpoint *endpoint.Endpoint
	timeout  time.Duration
	setting  string
	log      *slog.Logger

	learned   *learned                        // of transactions
	used      *lru.Cache[usedKey, uint64]     // what authorizations were valid after
	searched  *lru.Cache[searchKey, searched] // searches for logs that have not come to their end
	noSafeTag sync.Once                       // logs the missing `safe` tag once
}

var _ pay.Chain = (*Client)(nil)

// New returns a Client, or an error about the options. Errors name the setting and never repeat the
// URL.
func New(o Options) (*Client, error) {
	o.Setting = cmp.Or(o.Setting, "PURSER_RPC_URL")
	e, err := endpoint.New(endpoint.Options{
		URL: o.URL, Setting: o.Setting, MaxAnswer: maxAnswer, Transport: o.Transport,
	})
	if err != nil {
		return nil, err
	}
	e.WatchDates(o.Dates)
	searches, err := lru.New[searchKey, searched](maxSearched)
	if err != nil {
		return nil, err
	}
	used, err := lru.New[usedKey, uint64](maxUsed)
	if err != nil {
		return nil, err
	}
	c := &Client{
		endpoint: e, searched: searches, used: used, timeout: cmp.Or(max(o.Timeout, 0), DefaultTimeout), setting: o.Setting, learned: newLearned(),
		log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
	}
	if !e.Encrypted() {
		c.log.Warn(o.Setting + " is plain http: what the chain says can be forged on the way")
	}
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.endpoint.Close() }

// MismatchError reports an RPC that serves another chain, or another token, than the pinned one.
type MismatchError struct{ Setting, What, Got, Want string }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s is for another chain: its %s is %s, not %s", e.Setting, e.What, e.Got, e.Want)
}

// Identify asks the RPC for its chain id, genesis block and token. Nothing is cached. An answer
// that was read is returned with an error too. A *MismatchError says what differs.
func (c *Client) Identify(ctx context.Context, n x402.Network, a x402.Asset) (pay.ChainIdentity, error) {
	return c.identify(ctx, n, a, atLatest)
}

// identify asks for the chain id and the genesis header, and then for the token at one block and whether some
// blocks are on the chain. The RPC's name may move to another machine at any time: so it is known which chain
// answers before that is asked about the blocks.
func (c *Client) identify(ctx context.Context, n x402.Network, a x402.Asset, when any, blocks ...header) (pay.ChainIdentity, error) {
	var (
		id                         pay.ChainIdentity
		genesis                    header
		idErr, genesisErr, blocked error
		all                        sync.WaitGroup
	)
	all.Go(func() { id.ChainID, idErr = c.chainID(ctx) })
	all.Go(func() { genesis, genesisErr = c.blockNumbered(ctx, 0) })
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
	all.Go(func() { blocked = c.allCanonical(ctx, blocks) })
	err := c.proveToken(ctx, a, when)
	all.Wait()
	if err != nil {
		return id, err
	}
	return id, blocked
}

// proveToken checks that a token is the pinned one: by its EIP-712 domain, or by its decimals if none is pinned. Only the
// chain itself makes tokens of that kind, at addresses of their own, so one may be missing on a local chain.
func (c *Client) proveToken(ctx context.Context, a x402.Asset, when any) error {
	selector, name, want := selectorDomainSeparator, "DOMAIN_SEPARATOR", a.DomainSeparator
	if want == (word{}) {
		selector, name, want = selectorDecimals, "decimals", word{31: byte(a.Decimals)}
	}
	got, err := c.tokenCall(ctx, a.Address, when, selector)
	if a.DomainSeparator == (word{}) && Missing(err) {
		return nil
	}
	if err == nil && got != want {
		err = &MismatchError{c.setting, name + " of " + a.Address.String(), hexOf(got[:]), hexOf(want[:])}
	}
	return err
}

// Missing reports whether an error says that there is no token: no contract, or one that refuses each call.
func Missing(err error) bool {
	refused, is := errors.AsType[*rpcError](err)
	return errors.Is(err, ErrNoToken) || is && failedInCode(refused)
}

// allCanonical checks at once that the chain still has some blocks at their numbers.
func (c *Client) allCanonical(ctx context.Context, blocks []header) error {
	errs := make([]error, len(blocks))
	var all sync.WaitGroup
	for i, b := range blocks {
		all.Go(func() { errs[i] = c.checkCanonical(ctx, b) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// checkCanonical checks that the chain still has this block at its number.
func (c *Client) checkCanonical(ctx context.Context, b header) error {
	now, err := c.blockNumbered(ctx, uint64(b.Number))
	if err == nil && now.Hash != b.Hash {
		err = fmt.Errorf("block %d was %s and is %s: the chain was reorganized, or the RPC leads to another one", b.Number, b.Hash, now.Hash)
	}
	return err
}

// Balance returns the owner's token balance at the latest block, in the asset's smallest units.
func (c *Client) Balance(ctx context.Context, _ x402.Network, a x402.Asset, owner x402.Address) (money.Amount, error) {
	word, err := c.tokenCall(ctx, a.Address, atLatest, selectorBalanceOf, addressWord(owner))
	if err != nil {
		return money.Amount{}, fmt.Errorf("balance of %s: %w", owner, err)
	}
	amount, _ := money.FromBig(new(big.Int).SetBytes(word[:])) // 32 bytes always fit
	return amount, nil
}
