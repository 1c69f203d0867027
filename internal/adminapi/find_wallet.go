package adminapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// findWallet returns a wallet, live or deleted, by its address, by its id, or by the first 8 or more
// characters of one of these. A name that fits several wallets finds none.
func (p *Purser) findWallet(ctx context.Context, name string) (w pay.Wallet, err error) {
	whole := strings.HasPrefix(name, "0x") && len(name) >= len(x402.Address{}.String())
	if whole {
		address, wrong := x402.ParseCheckedAddress(name)
		if wrong != nil {
			return pay.Wallet{}, Errorf(http.StatusBadRequest, "wallet: %w", wrong)
		}
		w, err = p.Store.WalletByAddress(ctx, address)
	} else {
		w, err = p.Books.Wallet(ctx, name)
	}
	if !errors.Is(err, pay.ErrWalletNotFound) {
		return w, err
	}
	unknown := Errorf(http.StatusNotFound,
		"no wallet has the id or address %.64q%s ('purser wallets' lists them, with --deleted those that were deleted)", name, tooShort(name))
	if whole {
		return w, unknown
	}
	return named[pay.Wallet]{
		kind: "wallet", page: p.Books.AllWallets, id: func(w pay.Wallet) string { return w.ID }, unknown: unknown,
		more: func(w pay.Wallet) string {
			if w.Address == nil {
				return w.Network
			}
			return w.Address.String() + " on " + w.Network
		},
		called: func(w pay.Wallet, name string) bool {
			return w.Address != nil && len(name) >= minPrefix && strings.HasPrefix(strings.ToLower(w.Address.String()), strings.ToLower(name))
		},
	}.search(ctx, name)
}

// findLiveWallet is findWallet for what a deleted wallet cannot do.
func (p *Purser) findLiveWallet(ctx context.Context, name string) (pay.Wallet, error) {
	w, err := p.findWallet(ctx, name)
	if err == nil && w.Deleted != nil {
		err = Errorf(http.StatusConflict, "the wallet %s is deleted: 'purser wallets restore %s' first", w.ID, w.ID)
	}
	return w, err
}
