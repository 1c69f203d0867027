package chain

import (
	"context"
	"maps"
	"slices"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// permit2Uses finds the authorizations behind the spare transfers: the transaction has one for the
// payee and the amount, and Permit2 has its nonce as spent in that block. A transfer that it finds is no
// longer spare.
func (c *Client) permit2Uses(ctx context.Context, q pay.UsedQuery, logs []transferLog, spare map[int]bool, found []*pay.UsedAuthorization) error {
	inputs := map[string][]x402.Permit2Use{} // by transaction; what is matched is taken out
	for _, i := range slices.Sorted(maps.Keys(spare)) {
		l := logs[i]
		u := pay.UsedAuthorization{Transaction: l.Transaction}
		from, err := topicAddress(l.Topics[1])
		if err == nil {
			err = setTransfer(&u, l)
		}
		if err != nil {
			return err
		}
		if u.Value.IsZero() { // any account can make transfers of nothing
			continue
		}
		uses, known := inputs[l.Transaction]
		if !known {
			call, err := c.usesIn(ctx, keyOf(l.logEntry, q.Asset))
			if err != nil {
				return err
			}
			uses = call.uses
		}
		for _, use := range uses {
			a := use.Authorization
			if a.From != from || a.To != u.To || use.Moved != u.Value {
				continue
			}
			spent, err := c.spentIn(ctx, a, l.block())
			if lacks(err) { // it has no state as old as that
				spent, err = c.nonceSpent(ctx, a, atBlock(headerOf(q.Safe)))
			}
			if err != nil {
				return err
			}
			if spent {
				u.From, u.Nonce, u.Rail = a.From, a.Nonce, a.Rail
				found[i] = &u
				delete(spare, i)
				uses = slices.DeleteFunc(slices.Clone(uses), func(o x402.Permit2Use) bool { return o.Authorization.Nonce == a.Nonce })
				break
			}
		}
		inputs[l.Transaction] = uses
	}
	return nil
}
