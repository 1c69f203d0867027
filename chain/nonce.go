package chain

import (
	"context"
	"fmt"

	"github.com/purserpay/purser/x402"
)

const selectorNonceBitmap = "4fe02b44" // nonceBitmap(address,uint256) of Permit2

// nonceSpent reads at one block whether Permit2 has the bit of an authorization's nonce set: by a
// transfer, or by its owner, who gave the nonce up.
func (c *Client) nonceSpent(ctx context.Context, a x402.Authorization, at any) (bool, error) {
	place, bit := a.NonceSlot()
	bits, err := c.tokenCall(ctx, x402.Permit2, at, selectorNonceBitmap, addressWord(a.From), place)
	if err != nil {
		return false, err
	}
	return bitOf(bits, bit), nil
}

func bitOf(w word, bit uint) bool { return w[31-bit/8]>>(bit%8)&1 == 1 }

// blockOfUse finds the block of a window in which a nonce was spent, by bisection: Permit2 never unsets
// a bit. Blocks are asked by number, and the one that is found is proven by its hash. known is false if
// the RPC has no state as old as that. Then the window ends where its state begins.
func (c *Client) blockOfUse(ctx context.Context, a x402.Authorization, w *window) (b header, known bool, err error) {
	first, last := w.floor, w.top // it is one of these
	known = true                  // that the nonce is unspent before the first one
	for n := max(w.start, 1) - 1; first < last; n = first + (last-first)/2 {
		n = min(max(n, first), last-1)
		spent, err := c.nonceSpent(ctx, a, quantity(n))
		switch {
		case lacks(err):
			first, known = n+1, false
		case err != nil:
			return header{}, false, err
		case spent:
			last = n
		default:
			first, known = n+1, true
		}
	}
	if known {
		if b, err = c.blockNumbered(ctx, last); err == nil {
			known, err = c.spentIn(ctx, a, b)
		}
		if err == nil && !known {
			err = fmt.Errorf("block %d does not spend the nonce any more: the chain was reorganized, or the RPC leads to another one", last)
		}
		if !lacks(err) {
			return b, known, err
		}
	}
	w.top = last
	return header{}, false, nil
}

// spentIn reports whether the nonce was spent in a block.
func (c *Client) spentIn(ctx context.Context, a x402.Authorization, b header) (bool, error) {
	spent, err := c.nonceSpent(ctx, a, atBlock(b))
	if err != nil || !spent || b.Number == 0 {
		return spent, err
	}
	before, err := c.blockNumbered(ctx, uint64(b.Number)-1)
	if err != nil {
		return false, err
	}
	spent, err = c.nonceSpent(ctx, a, atBlock(before))
	return !spent, err
}
