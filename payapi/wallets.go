package payapi

import (
	"net/http"
	"time"

	"github.com/purserpay/purser/pay"
)

// wallet is a wallet in answers.
type wallet struct {
	ID       string  `json:"id"`
	WalletID string  `json:"wallet_id"`
	Network  string  `json:"network"`
	Address  *string `json:"address"` // null without a wallet provider
}

func newWallet(w pay.Wallet) wallet {
	shown := wallet{ID: w.ID, WalletID: w.ProviderID, Network: w.Network}
	if w.Address != nil {
		address := w.Address.String()
		shown.Address = &address
	}
	return shown
}

// listWallets serves GET /wallets/me: the live wallets that the key may use, in the order in which they
// pay.
func (a *API) listWallets(r *http.Request, key pay.Key) (reply, error) {
	list, err := a.books.ListWallets(r.Context(), key)
	if err != nil {
		return reply{}, err
	}
	shown := make([]wallet, len(list))
	for i, w := range list {
		shown[i] = newWallet(w)
	}
	return reply{status: http.StatusOK, body: map[string][]wallet{"wallets": shown}}, nil
}

// createWallet serves POST /wallets. The default network is base.
func (a *API) createWallet(r *http.Request, key pay.Key) (reply, error) {
	const malformed = "Invalid JSON body"
	f, err := readFields(r, malformed)
	if err != nil {
		return reply{}, err
	}
	network, _, err := f.text("network", malformed)
	if err != nil {
		return reply{}, err
	}
	if wait := takeTurn(a.walletRate, r, a.now()); wait > 0 {
		return reply{}, tooManyRequests(time.Duration(wait) * time.Second)
	}
	w, err := a.books.CreateWallet(r.Context(), key, network)
	if err != nil {
		return reply{}, err
	}
	a.log.Info("wallet created", "wallet", w.ID, "key", key.ID)
	return reply{status: http.StatusCreated, body: newWallet(w)}, nil
}

// deleteWallet serves DELETE /wallets/{id}. An agent that holds a key of the operator's cannot hide the
// money behind it.
func (a *API) deleteWallet(r *http.Request, key pay.Key) (reply, error) {
	id, err := pathID(r, pay.ErrWalletNotFound)
	if err != nil {
		return reply{}, err
	}
	if key.Operator {
		return reply{}, errOperatorKey
	}
	if err := a.books.DeleteWallet(r.Context(), key, id); err != nil {
		return reply{}, err
	}
	a.log.Info("wallet deleted", "wallet", id, "key", key.ID)
	return reply{status: http.StatusNoContent}, nil
}
