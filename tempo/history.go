package tempo

import (
	"context"
	"slices"

	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// Transfers lists the transfers from and to some wallets. All that a wallet sends to others in one transaction is one
// transfer, to the first payee: so the books have payments with several payees, and with a fee for gas.
func (c *Client) Transfers(ctx context.Context, q treasury.TransfersQuery) (treasury.TransfersAnswer, error) {
	a, err := c.Client.Transfers(ctx, q)
	a.Transfers = joined(a.Transfers, q.Wallets)
	return a, err
}

// joined joins the transfers from some wallets, by transaction.
func joined(list []treasury.Transfer, wallets []x402.Address) []treasury.Transfer {
	type of struct {
		transaction string
		from        x402.Address
	}
	first := map[of]int{}
	var out []treasury.Transfer
	for _, t := range list {
		k := of{t.Transaction, t.From}
		at, known := first[k]
		switch {
		case !slices.Contains(wallets, t.From):
		case !known:
			first[k] = len(out)
		default:
			out[at].Beside = out[at].Beside.AddSaturated(t.Value)
			if t.Part = true; !slices.Contains(wallets, t.To) {
				continue
			}
		}
		out = append(out, t)
	}
	return out
}
