package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// searchWallets bounds the wallets that are read to find one.
const searchWallets = 100_000

// findWallet returns a wallet, live or deleted, by its address, by its id, or by the first 8 or more
// characters of that. What fits several ids finds none.
func (p *Purser) findWallet(ctx context.Context, name string) (w pay.Wallet, err error) {
	if strings.HasPrefix(name, "0x") {
		address, wrong := x402.ParseCheckedAddress(name)
		if wrong != nil {
			return pay.Wallet{}, Errorf(http.StatusBadRequest, "wallet: %w", wrong)
		}
		w, err = p.Store.WalletByAddress(ctx, address)
	} else {
		w, err = p.Books.Wallet(ctx, name)
		if errors.Is(err, pay.ErrWalletNotFound) && len(name) >= minPrefix {
			w, err = p.walletByPrefix(ctx, strings.ToLower(name)) // as ids are
		}
	}
	if errors.Is(err, pay.ErrWalletNotFound) {
		err = Errorf(http.StatusNotFound, "no wallet has the id or address %.64q ('purser wallets' lists them, with --deleted those that were deleted)", name)
	}
	return w, err
}

// walletByPrefix finds a wallet by the beginning of its id: pay.ErrWalletNotFound.
func (p *Purser) walletByPrefix(ctx context.Context, prefix string) (pay.Wallet, error) {
	var found []pay.Wallet
	for after, seen := "", 0; seen < searchWallets && len(found) <= shownMatches; {
		list, err := p.Books.AllWallets(ctx, after, searchPage)
		if err != nil {
			return pay.Wallet{}, err
		}
		for _, w := range list {
			if strings.HasPrefix(w.ID, prefix) {
				found = append(found, w)
			}
		}
		if len(list) < searchPage {
			break
		}
		after = list[len(list)-1].ID
		seen += len(list)
	}
	switch len(found) {
	case 0:
		return pay.Wallet{}, pay.ErrWalletNotFound
	case 1:
		return found[0], nil
	}
	var list []string
	for _, w := range found[:min(len(found), shownMatches)] {
		list = append(list, fmt.Sprintf("%s (%s)", w.ID, w.Network))
	}
	return pay.Wallet{}, Errorf(http.StatusConflict, "%.64q is not one wallet: give the whole id, such as %s", prefix, strings.Join(list, ", "))
}

// findLiveWallet is findWallet for what a deleted wallet cannot do.
func (p *Purser) findLiveWallet(ctx context.Context, name string) (pay.Wallet, error) {
	w, err := p.findWallet(ctx, name)
	if err == nil && w.Deleted != nil {
		err = Errorf(http.StatusConflict, "the wallet %s is deleted: 'purser wallets restore %s' first", w.ID, w.ID)
	}
	return w, err
}
