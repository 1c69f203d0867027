package trouble

import (
	"cmp"
	"context"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// maxKeys bounds the keys whose wallets are looked at.
const maxKeys = 200

// Fullest returns a function for [Source.Wallets]: the fullest wallet of each of the operator's keys that may pay from one.
// Wallets whose balance is not known, and those of other keys, are left out.
func Fullest(books interface {
	Keys(ctx context.Context, after string, limit int) ([]pay.Key, error)
	ListWallets(ctx context.Context, k pay.Key) ([]pay.Wallet, error)
}, balance func(context.Context, pay.Wallet) (money.Amount, error),
) func(context.Context) ([]Wallet, error) {
	return func(ctx context.Context) ([]Wallet, error) {
		keys, err := books.Keys(ctx, "", maxKeys)
		if err != nil {
			return nil, err
		}
		var list []Wallet
		seen := map[string]bool{}
		for _, k := range keys {
			if !k.Operator || k.Revoked() {
				continue
			}
			wallets, err := books.ListWallets(ctx, k)
			if err != nil {
				return nil, err
			}
			var fullest *Wallet
			for _, w := range wallets {
				if w.Address == nil {
					continue
				}
				have, err := balance(ctx, w)
				if err != nil {
					fullest = nil
					break
				}
				if fullest == nil || have.Cmp(fullest.Balance) > 0 {
					fullest = &Wallet{Name: "that of key " + cmp.Or(k.Label, k.ID), Network: title(w.Network), Address: w.Address.String(), Balance: have}
				}
			}
			if fullest != nil && !seen[fullest.Address+fullest.Network] {
				seen[fullest.Address+fullest.Network] = true
				list = append(list, *fullest)
			}
		}
		return list, ctx.Err()
	}
}

func title(network string) string {
	if n, known := x402.NetworkByWire(network); known {
		return n.Title
	}
	return network
}
