package trouble

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const (
	// maxKeys bounds the keys whose wallets are looked at.
	maxKeys = 200
	// inUse bounds the time since a key's last spend event for its wallets to count.
	inUse = 30 * 24 * time.Hour
)

// Books lists keys, with their wallets and what they spent.
type Books interface {
	Keys(ctx context.Context, after string, limit int) ([]pay.Key, error)
	ListWallets(ctx context.Context, k pay.Key) ([]pay.Wallet, error)
	Now() time.Time
}

// Fullest returns a function for [Source.Wallets]. It lists the fullest wallet of each of the operator's keys that is in use,
// or while none is, the fullest one of all. Keys with a wallet whose balance is not known are left out.
func Fullest(books Books, spent func(ctx context.Context, keyID string, q pay.SpendQuery) ([]pay.SpendEvent, error),
	balance func(context.Context, pay.Wallet) (money.Amount, error),
) func(context.Context) ([]Wallet, error) {
	return func(ctx context.Context) ([]Wallet, error) {
		keys, err := books.Keys(ctx, "", maxKeys)
		if err != nil {
			return nil, err
		}
		keys = slices.DeleteFunc(keys, func(k pay.Key) bool { return !k.Operator || k.Revoked() })
		var used []pay.Key
		for _, k := range keys {
			last, err := spent(ctx, k.ID, pay.SpendQuery{Limit: 1})
			if err != nil {
				return nil, err
			}
			if len(last) > 0 && books.Now().Sub(last[0].Created) < inUse {
				used = append(used, k)
			}
		}
		if len(used) > 0 {
			keys = used
		}
		var list []Wallet
		for _, k := range keys {
			wallets, err := books.ListWallets(ctx, k)
			if err != nil {
				return nil, err
			}
			if w := fullest(ctx, cmp.Or(k.Label, k.ID), wallets, balance); w != nil && !slices.ContainsFunc(list, w.same) {
				list = append(list, *w)
			}
		}
		if len(used) == 0 && len(list) > 0 {
			list = []Wallet{slices.MaxFunc(list, func(a, b Wallet) int { return a.Balance.Cmp(b.Balance) })}
		}
		return list, ctx.Err()
	}
}

func (w Wallet) same(other Wallet) bool {
	return w.Address == other.Address && w.Network == other.Network
}

// fullest returns nil if there is no wallet, or one whose balance is not known.
func fullest(ctx context.Context, key string, wallets []pay.Wallet, balance func(context.Context, pay.Wallet) (money.Amount, error)) (full *Wallet) {
	for _, w := range wallets {
		if w.Address == nil {
			continue
		}
		have, err := balance(ctx, w)
		if err != nil {
			return nil
		}
		if full == nil || have.Cmp(full.Balance) > 0 {
			full = &Wallet{Name: "that of key " + key, Network: w.Network, Address: w.Address.String(), Balance: have}
			if n, known := x402.NetworkByWire(w.Network); known {
				full.Network, full.Tokens = n.Title, n.Tokens()
			}
		}
	}
	return full
}
