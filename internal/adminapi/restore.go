package adminapi

import (
	"net/http"

	"github.com/purserpay/purser/pay"
)

// showWallet shows one wallet, live or deleted: GET /purser/wallets/{id}.
func (p *Purser) showWallet(r *http.Request) (any, error) {
	w, err := p.findWallet(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return p.shownWallets(r.Context(), []pay.Wallet{w})[0], nil
}

// deleteWallet serves DELETE /purser/wallets/{id}. It hides the wallet, as DELETE /wallets/{id} does.
func (p *Purser) deleteWallet(r *http.Request) (any, error) {
	w, err := p.findWallet(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if w.Deleted != nil {
		return nil, Errorf(http.StatusConflict, "the wallet %s is deleted already", w.ID)
	}
	k, err := p.Books.Key(r.Context(), w.KeyID)
	if err == nil {
		err = p.Books.DeleteWallet(r.Context(), k, w.ID)
	}
	if err != nil {
		return nil, err
	}
	if w, err = p.Books.Wallet(r.Context(), w.ID); err != nil {
		return nil, err
	}
	return p.shownWallets(r.Context(), []pay.Wallet{w})[0], nil
}

// restoreWallet serves POST /purser/wallets/{id}/restore.
func (p *Purser) restoreWallet(r *http.Request) (any, error) {
	w, err := p.findWallet(r.Context(), r.PathValue("id"))
	if err == nil {
		w, err = p.Books.RestoreWallet(r.Context(), w.ID)
	}
	if err != nil {
		return nil, err
	}
	return p.shownWallets(r.Context(), []pay.Wallet{w})[0], nil
}
