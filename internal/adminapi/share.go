package adminapi

import (
	"context"
	"net/http"

	"github.com/purserpay/purser/pay"
)

// SharedKeys names keys by id, label or exec: the body of POST /purser/wallets/{id}/share and …/unshare.
type SharedKeys struct {
	Keys []string `json:"keys"`
}

// SharedWallet answers questions about who draws from a wallet: GET /purser/wallets/{id}/keys, and both
// changes.
type SharedWallet struct {
	Wallet Wallet      `json:"wallet"`
	Keys   []SharedKey `json:"keys"` // beside the owner, oldest first
	Next   string      `json:"next,omitempty"`
}

// SharedKey is a key that a wallet is lent to.
type SharedKey struct {
	ID    string `json:"id"`
	Label string `json:"label"`
}

// maxShared bounds the keys of one change.
const maxShared = 1000

func (p *Purser) walletKeys(r *http.Request) (any, error) {
	w, err := p.findWallet(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	keys, next, err := listed(r, func(limit int) ([]string, error) {
		return p.Books.WalletKeys(r.Context(), w.ID, r.URL.Query().Get("after"), limit)
	}, func(id string) string { return id }, func(id string) (SharedKey, error) {
		k, err := p.Books.Key(r.Context(), id)
		return SharedKey{k.ID, k.Label}, err
	})
	if err != nil {
		return nil, err
	}
	return SharedWallet{p.shownWallets(r.Context(), []pay.Wallet{w})[0], keys, next}, nil
}

func (p *Purser) shareWallet(r *http.Request, with SharedKeys) (any, error) {
	w, err := p.findLiveWallet(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return p.lend(r, w, with, "the wallet is the key %s's own", p.Books.ShareWallet)
}

func (p *Purser) unshareWallet(r *http.Request, with SharedKeys) (any, error) {
	w, err := p.findWallet(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return p.lend(r, w, with, "the key %s owns the wallet: 'purser keys pause' stops its payments, 'purser wallets delete' those of all", p.Books.UnshareWallet)
}

// lend changes to which keys a wallet is lent, and shows the wallet afterwards. ofOwner is the refusal of
// the owner.
func (p *Purser) lend(
	r *http.Request, w pay.Wallet, with SharedKeys, ofOwner string, change func(ctx context.Context, walletID string, keyIDs ...string) error,
) (any, error) {
	if len(with.Keys) == 0 || len(with.Keys) > maxShared {
		return nil, Errorf(http.StatusBadRequest, "keys: from 1 to %d", maxShared)
	}
	var ids []string
	for _, name := range with.Keys {
		k, err := p.find(r.Context(), name)
		if err != nil {
			return nil, err
		}
		if k.ID == w.KeyID {
			return nil, Errorf(http.StatusConflict, ofOwner, k.ID)
		}
		if k.Revoked() {
			return nil, Errorf(http.StatusConflict, "the key %s is revoked, and that is for ever", k.ID)
		}
		ids = append(ids, k.ID)
	}
	if err := change(r.Context(), w.ID, ids...); err != nil {
		return nil, err
	}
	return p.walletKeys(r)
}
