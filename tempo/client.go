package tempo

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Client reads Tempo over JSON-RPC. Where tokens answer as on other chains, the embedded Client of package chain does.
type Client struct {
	*chain.Client
	// seen remembers headers of final blocks, by their numbers: looks at payments of one time share them.
	seen *lru.Cache[uint64, header]
}

var (
	_ chain.Reader = (*Client)(nil)
	_ Node         = (*Client)(nil)
)

// Open returns the reader of a network: a Client for Tempo, and one of package chain for all others.
func Open(n x402.Network, o chain.Options) (chain.Reader, error) {
	if n.Rail == Number {
		return New(o)
	}
	return chain.New(o)
}

// Rails returns the rail if there is an RPC of Tempo among those of all networks.
func Rails(all chain.Networks, now pay.Clock) []pay.Rail {
	if c, is := all[Network().Name].(*Client); is {
		return []pay.Rail{NewRail(c, now)}
	}
	return nil
}

// maxSeen bounds the remembered headers: some 1 MB.
const maxSeen = 2048

// New returns a Client, with the errors of [chain.New].
func New(o chain.Options) (*Client, error) {
	c, err := chain.New(o)
	if err != nil {
		return nil, err
	}
	seen, err := lru.New[uint64, header](maxSeen)
	if err != nil {
		return nil, err
	}
	return &Client{c, seen}, nil
}

// Balance returns the owner's token balance at the latest block. A token that the chain does not have is none.
func (c *Client) Balance(ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address) (money.Amount, error) {
	have, err := c.Client.Balance(ctx, n, a, owner)
	if chain.Missing(err) {
		return money.Amount{}, nil
	}
	return have, err
}

// BalanceAt is Balance at a block.
func (c *Client) BalanceAt(ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address, b pay.ChainBlock) (money.Amount, error) {
	have, err := c.Client.BalanceAt(ctx, n, a, owner, b)
	if chain.Missing(err) {
		return money.Amount{}, nil
	}
	return have, err
}

// number is an amount in the form of JSON-RPC.
type number struct{ money.Amount }

func (n *number) UnmarshalText(text []byte) error {
	value, ok := new(big.Int).SetString(string(text), 0)
	if !ok || value.Sign() < 0 {
		return errors.New("not a number")
	}
	n.Amount, ok = money.FromBig(value)
	if !ok {
		return errors.New("too great a number")
	}
	return nil
}

// Price returns the price of a unit of gas in the newest block, and the tip beside it that the RPC advises.
func (c *Client) Price(ctx context.Context) (base, tip money.Amount, err error) {
	var newest *struct {
		BaseFee *number `json:"baseFeePerGas"`
	}
	if err = c.Call(ctx, &newest, "eth_getBlockByNumber", "latest", false); err != nil {
		return base, tip, err
	}
	if newest == nil || newest.BaseFee == nil {
		return base, tip, errors.New("RPC eth_getBlockByNumber: the block lacks its base fee")
	}
	var advice *number
	if err = c.Call(ctx, &advice, "eth_maxPriorityFeePerGas"); chain.Refused(err) || err == nil && advice == nil {
		return newest.BaseFee.Amount, tip, nil
	}
	if err != nil {
		return base, tip, err
	}
	return newest.BaseFee.Amount, advice.Amount, nil
}

// Gas beside what the RPC estimates, for the signature, as the official client has it. gasUnknown is that of a call whose
// estimate the RPC refuses, as it does for a wallet without tokens.
const (
	gasBeside  = 5_000
	gasUnknown = 800_000
)

// Gas estimates the transaction of some calls. More than the bound of sponsors is cut. A transaction that would fail, of an
// account that has the money, is an error: it would cost its gas all the same.
func (c *Client) Gas(ctx context.Context, from x402.Address, calls []Call) (uint64, error) {
	type call struct {
		To    x402.Address `json:"to"`
		Value string       `json:"value"`
		Data  string       `json:"data"`
	}
	asked := make([]call, len(calls))
	for i, one := range calls {
		asked[i] = call{one.To, "0x0", hexOf(one.Data)}
	}
	var gas *chain.Quantity
	err := c.Call(ctx, &gas, "eth_estimateGas", map[string]any{
		"from": from.String(), "type": hexOf([]byte{kindTransaction}), "calls": asked, "nonceKey": hexOf(expiring), "nonce": "0x0",
	})
	switch {
	case chain.Missing(err) && c.affords(ctx, from, calls):
		return 0, fmt.Errorf("the chain would refuse the payment: %w", err)
	case chain.Refused(err), err == nil && gas == nil:
		return min(uint64(len(calls))*gasUnknown, maxGas), nil
	case err != nil:
		return 0, err
	}
	return min(uint64(*gas), maxGas) + gasBeside, nil
}

// affords reports whether an account has what some calls move of a token, and gas besides.
func (c *Client) affords(ctx context.Context, from x402.Address, calls []Call) bool {
	sum := money.New(maxFee)
	for _, one := range calls {
		t, is := transferIn(one)
		if !is {
			return false
		}
		sum = sum.AddSaturated(t.Amount)
	}
	have, err := c.Client.Balance(ctx, Network(), x402.Asset{Address: calls[0].To}, from)
	return err == nil && have.Cmp(sum) >= 0
}

// header holds the needed fields of a block header.
type header struct {
	number       uint64
	hash, parent string
	time         uint64
	bloom        bloom
}

func (h header) at() time.Time { return time.Unix(int64(h.time), 0).UTC() }

// bloom is the filter of the addresses and topics of a block's logs.
type bloom [256]byte

// has reports whether a block may have logs with all of some addresses and topics.
func (b bloom) has(items ...[]byte) bool {
	for _, item := range items {
		hash := x402.Keccak256(item)
		for i := 0; i < 6; i += 2 {
			bit := (uint(hash[i])<<8 | uint(hash[i+1])) & 2047
			if b[len(b)-1-int(bit/8)]&(1<<(bit%8)) == 0 {
				return false
			}
		}
	}
	return true
}

// final reads the header of a block that is final.
func (c *Client) final(ctx context.Context, n uint64) (header, error) {
	if h, known := c.seen.Get(n); known {
		return h, nil
	}
	var got *struct {
		Number, Timestamp *chain.Quantity
		Hash, ParentHash  string
		LogsBloom         string
	}
	if err := c.Call(ctx, &got, "eth_getBlockByNumber", chain.Quantity(n), false); err != nil {
		return header{}, err
	}
	if got == nil || got.Number == nil || uint64(*got.Number) != n || got.Timestamp == nil {
		return header{}, fmt.Errorf("RPC eth_getBlockByNumber: block %d lacks its number or time, or is another one", n)
	}
	filter, err := parseHex(got.LogsBloom)
	hash, hashErr := x402.ParseNonce(got.Hash) // any 32 bytes
	parent, parentErr := x402.ParseNonce(got.ParentHash)
	if err := errors.Join(err, hashErr, parentErr); err != nil || len(filter) != len(bloom{}) {
		return header{}, fmt.Errorf("RPC eth_getBlockByNumber: block %d lacks its hashes or its filter of logs", n)
	}
	h := header{number: n, hash: hash.String(), parent: parent.String(), time: uint64(*got.Timestamp), bloom: bloom(filter)}
	c.seen.Add(n, h)
	return h, nil
}
